"""Resets one GPU on the node, unless anything holds it. JSON: uuid, bus_id, boot_id, smi, timeout_s.

Answer: {"refused": why} with nothing changed, {"failed": words}, or {"said": words of nvidia-smi}.
"""

import json
import os
import subprocess
import sys
from typing import Any

from tasks.remote.probes.proc import boot_id, in_container, nvidia_fds, pids, stat
from tasks.remote.probes.refused import Refused, refusal

WANTS = {"uuid": "str", "bus_id": "str", "boot_id": "str", "smi": "str", "timeout_s": "number"}
LETS_GO = ("nvidia-persiste",)  # nvidia-persistenced (comm is cut at 15) releases the GPU itself


def smi(ask: "dict[str, Any]", *args: str) -> "tuple[int, str]":
    """Exit and output of one nvidia-smi call; its hanging is a refusal."""
    try:
        done = subprocess.run((ask["smi"],) + args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=float(ask["timeout_s"]),
                              env=dict(os.environ, LC_ALL="C"))  # fmt: skip
    except OSError as e:
        raise Refused("cannot-check", "%s: %s" % (ask["smi"], e)) from e
    except subprocess.TimeoutExpired:
        raise Refused("cannot-check", "nvidia-smi does not answer in %s s" % ask["timeout_s"]) from None
    return done.returncode, done.stdout.decode("utf-8", "replace").strip()


def rows(text: str) -> "list[list[str]]":
    """Rows of CSV without its header."""
    return [[c.strip() for c in line.split(",")] for line in text.splitlines()[1:] if "," in line]


def check_gpu(ask: "dict[str, Any]") -> None:
    """The GPU is the one that was judged, and not cut into MIG instances."""
    code, text = smi(ask, "--query-gpu=uuid,pci.bus_id,mig.mode.current", "--format=csv")
    if code != 0:
        if "is lost" in text or "Unknown Error" in text or "device handle" in text:
            return  # it cannot even be asked: that is why it is reset
        raise Refused("cannot-check", "nvidia-smi: %s" % text[-300:])
    found = [r for r in rows(text) if len(r) >= 3 and r[0] == ask["uuid"]]
    if not found:
        raise Refused("target-changed", "no GPU %s here" % ask["uuid"])
    if found[0][1].lower() != ask["bus_id"].lower():
        raise Refused("target-changed", "GPU %s is at bus %s now, judged was %s" % (ask["uuid"], found[0][1], ask["bus_id"]))
    if found[0][2] == "Enabled":
        raise Refused("not-supported", "GPU %s is in MIG mode: its instances may belong to others" % ask["uuid"])


def clients(ask: "dict[str, Any]") -> "list[str]":
    """Who holds the GPU by the driver's list, and who has a device file of any GPU open."""
    code, text = smi(ask, "--query-compute-apps=gpu_uuid,pid,process_name,used_memory", "--format=csv")
    found = (
        ["pid %s (%s) by the driver's list" % (r[1], r[2]) for r in rows(text) if r[0] == ask["uuid"]]
        if code == 0
        else []
    )
    for pid in pids():
        fds, now = nvidia_fds(pid), stat(pid)
        if fds is None:
            raise Refused("cannot-check", "descriptors of pid %d may not be read: whether it holds the GPU is unknown" % pid)
        if fds and now and now["comm"] not in LETS_GO:
            found.append("pid %d (%s) has %s open" % (pid, now["comm"], fds[0]))
    return found


def main(ask: "dict[str, Any]") -> "dict[str, Any]":
    """Check, then reset."""
    try:
        if boot_id() != ask["boot_id"]:
            raise Refused("target-changed", "the node was booted since the judgment")
        why = in_container()
        if why:
            raise Refused("not-supported", "inside a container (%s): a GPU can only be reset on its machine" % why)
        if os.geteuid() != 0:
            raise Refused("not-supported", "not root: a GPU reset needs it")
        check_gpu(ask)
        held = clients(ask)
        if held:
            raise Refused("in-use", "the GPU is in use: " + "; ".join(held[:10]))
        code, text = smi(ask, "--gpu-reset", "-i", ask["uuid"])
    except Refused as e:
        return refusal(e)
    if code != 0:
        said = "nvidia-smi --gpu-reset: exit %d: %s" % (code, text[-500:])
        return {"refused": said, "code": "in-use"} if "in use by another process" in text else {"failed": said}
    return {"said": text[-500:]}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
