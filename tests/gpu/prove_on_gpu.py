"""On a real NVIDIA GPU: NVML and nvidia-smi agree, a stopped holder is ended, exactly its memory comes back.

    python -m tests.gpu.prove_on_gpu [MIB]        prints JSON; exit 0 when everything held

Needs the project's Python packages and a driver, no CUDA toolkit: memory is taken through libcuda by ctypes. Not
collected by pytest: the machines that run the tests have no GPU.
"""

import ctypes
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from runbooks.core.fleet import Fleet, Node
from runbooks.core.gpu_set import Gpu
from runbooks.core.plan import Step
from runbooks.core.reading import Known
from runbooks.gpu.evidence import Evidence, Process
from tasks.context import ActionRefused, Context
from tasks.gpu.act_processes import terminate_processes
from tasks.gpu.read import gather_zombie_gpu
from tasks.transport.local import LocalHost

MIB = 1 << 20
LIMITS = {"window_s": 3.0, "samples": 7}


def hold(mib: int) -> None:
    """Take GPU memory and wait for ever (runs as a process of its own)."""
    cuda = ctypes.CDLL("libcuda.so.1")
    device, ctx, memory = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
    calls: list[tuple[str, Callable[[], int]]] = [
        ("cuInit", lambda: int(cuda.cuInit(0))),
        ("cuDeviceGet", lambda: int(cuda.cuDeviceGet(ctypes.byref(device), 0))),
        ("cuCtxCreate", lambda: int(cuda.cuCtxCreate_v2(ctypes.byref(ctx), 0, device))),
        ("cuMemAlloc", lambda: int(cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(mib * MIB)))),
    ]
    for name, call in calls:
        code = call()
        if code:
            print(f"{name}: error {code}", flush=True)
            raise SystemExit(1)
    print("ready", flush=True)
    while True:
        time.sleep(0.2)


def context(local: bool) -> Context:
    """This machine, read by NVML or the way a node behind SSH is."""
    node = Node(name="gpu-node", local=True) if local else Node(name="gpu-node", host="here")
    host = LocalHost("gpu-node")
    return Context(fleet=Fleet(nodes=(node,)), target="gpu-node", open_host=lambda _: host, limits=LIMITS)


def gpu_zero(found: Evidence) -> Gpu:
    """GPU 0, or an end that says why not."""
    if not isinstance(found.gpus, Known):
        raise SystemExit(f"no GPU reading: {found.gpus.model_dump_json()}")
    return found.gpus.value.gpus[0]


def process(found: Evidence, pid: int) -> Process | None:
    """That process in the evidence."""
    return (
        next((p for p in found.processes.value if p.pid == pid), None) if isinstance(found.processes, Known) else None
    )


def plan(found: Evidence, p: Process, gpu: Gpu, freed: int) -> Step:
    """The step that the runbook would offer."""
    boot = found.facts.value.boot_id if isinstance(found.facts, Known) else ""
    listed = [{"pid": p.pid, "start_ticks": p.start_ticks, "command": p.command, "uid": p.uid}]
    args = {"boot_id": boot, "processes": listed, "cgroup": p.cgroup, "sid": p.sid, "gpu_uuids": [gpu.uuid],
            "expect_freed_bytes": freed, "grace_s": 5}  # fmt: skip
    return Step(kind="terminate-processes", owner="gpu-node", args=args, commands=("kill",), effect="gone")


def shown(gpu: Gpu) -> dict[str, Any]:
    """What is worth keeping of a GPU reading."""
    return gpu.model_dump(mode="json", exclude={"uuid"})


def prove(mib: int) -> dict[str, Any]:
    """The whole proof."""
    argv = [sys.executable, "-m", "tests.gpu.prove_on_gpu", "--hold", str(mib)]
    p = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, start_new_session=True)
    out: dict[str, Any] = {}
    try:
        first = p.stdout.readline() if p.stdout else ""
        if first != "ready\n":
            raise SystemExit(f"the holder did not start: {first}")
        p.send_signal(signal.SIGSTOP)
        by_nvml, by_smi = gather_zombie_gpu(context(True)), gather_zombie_gpu(context(False))
        a, b = gpu_zero(by_nvml), gpu_zero(by_smi)
        mine = process(by_nvml, p.pid)
        held = next((h for h in a.processes.value if h.pid == p.pid), None) if isinstance(a.processes, Known) else None
        out |= {"nvml": shown(a), "smi": shown(b), "process": mine.model_dump(mode="json") if mine else None}
        out["agree"] = a.uuid == b.uuid and abs(a.memory_used_bytes - b.memory_used_bytes) <= MIB
        if mine is None or held is None:
            return out | {"ok": False, "why": "the driver or /proc does not show the holder (a container?)"}
        step = plan(by_nvml, mine, a, held.used_bytes or 0)
        out["refusal"] = _refusal(step)
        out["still_there_after_refusal"] = p.poll() is None
        began = time.monotonic()
        out["said"] = terminate_processes(step, context(True)).said
        out["seconds"] = round(time.monotonic() - began, 2)
        out["signal"] = p.wait(10)
        out["after"] = shown(gpu_zero(gather_zombie_gpu(context(True))))
        back = any("came back" in s and not s.startswith("only") for s in out["said"])
        out["ok"] = bool(out["agree"] and out["refusal"] and out["signal"] == -signal.SIGKILL and back)
        return out
    finally:
        p.kill()
        p.wait()


def _refusal(step: Step) -> str:
    """What is said when the start time is another's."""
    wrong = [{**step.args["processes"][0], "start_ticks": 1}]
    try:
        terminate_processes(step.model_copy(update={"args": {**step.args, "processes": wrong}}), context(True))
    except ActionRefused as e:
        return str(e)
    return ""


if __name__ == "__main__":
    if "--hold" in sys.argv:
        hold(int(sys.argv[-1]))
    result = prove(int(sys.argv[1]) if len(sys.argv) > 1 else 8192)
    print(json.dumps(result, indent=1))
    raise SystemExit(0 if result["ok"] else 1)
