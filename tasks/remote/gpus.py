"""Reads a node's GPUs over a window: NVML in a child process on this machine, `nvidia-smi` over SSH, one type."""

import sys
from dataclasses import dataclass
from typing import Any

from runbooks.core.gpu_set import Gpu, GpuError, GpuProcess, GpuSample, GpuSet, RowRemap
from runbooks.core.reading import ODD_ANSWER, Absent, Known, Unknown, UnknownReason
from runbooks.parsers.nvidia_smi import GPU_FIELDS, throttle_names
from tasks.context import Context
from tasks.diagnostic import diagnostic
from tasks.remote.amd_gpus import read_amd_gpus
from tasks.remote.probe import run_probe, source, unknown
from tasks.remote.smi_reading import NO_DEVICES, NUMBERLESS, gpu_set
from tasks.transport.base import TransportError

Gpus = Known[GpuSet] | Absent | Unknown
LIBRARY_NOT_FOUND = 12  # nvml.h: NVML_ERROR_LIBRARY_NOT_FOUND
FUNCTION_NOT_FOUND = 13
HIDES = 64 << 20  # bytes in use above which an empty process list inside a container says that some are hidden


@dataclass(frozen=True)
class Presence:
    """What speaks for a GPU, whatever the driver says."""

    driver: str
    devices: tuple[str, ...]
    pci: tuple[dict[str, str], ...] | None  # None: no view of the PCI bus
    container: str
    smi: str
    stuck: tuple[int, ...]
    amd: tuple[str, ...] = ()  # PCI addresses of AMD's display devices and accelerators
    kfd: bool = False  # /dev/kfd: AMD's compute driver

    @property
    def of_amd(self) -> bool:
        """Whether anything speaks for an AMD GPU."""
        return bool(self.amd) or self.kfd

    @property
    def proof(self) -> str:
        """The signs, in words."""
        bus = "no view of the PCI bus" if self.pci is None else f"{len(self.pci)} NVIDIA display devices on the PCI bus"
        return (
            f"{bus} (vendor 0x10de, class 0x03 in /sys/bus/pci/devices); "
            f"/proc/driver/nvidia/version {self.driver or 'does not exist'}; "
            f"/dev/nvidia*: {', '.join(self.devices) or 'none'}; "
            f"AMD (vendor 0x1002): {', '.join(self.amd) or 'none'}, /dev/kfd {'is there' if self.kfd else 'does not exist'}"
        )


@diagnostic("GPU devices · {context.target}")
def read_presence(context: Context) -> Presence | Unknown:
    """Driver files, device nodes and the PCI bus of the context's node."""
    try:
        got = run_probe(context.host, "presence", {"smi": smi_path(context), "root": root_of(context)}, timeout_s=15)
    except TransportError as e:
        return unknown(context, e, "ls /sys/bus/pci/devices /dev/nvidia* /proc/driver/nvidia")
    pci = None if got["pci"] is None else tuple(got["pci"])
    return Presence(got["driver"], tuple(got["devices"]), pci, got["container"], got["smi"], tuple(got["stuck"]),
                    tuple(got["amd"]), got["kfd"])  # fmt: skip


def root_of(context: Context) -> str:
    """In front of /sys and /dev: "" but for a node that tests made up."""
    return context.node.labels.get("fake-root", "")


def smi_path(context: Context) -> str:
    """`nvidia-smi`, or the path in the node's label of that name."""
    return context.node.labels.get("nvidia-smi", "nvidia-smi")


@diagnostic("GPUs over {window_s:g} s · {context.target}")
def read_gpus(context: Context, presence: Presence, window_s: float, samples: int) -> Gpus:
    """Every GPU of the context's node over the window. Absent only with proof; one that hangs is not started again."""
    if not presence.of_amd:
        return _of_nvidia(context, presence, window_s, samples)
    amd = read_amd_gpus(context, root_of(context), window_s, samples)
    if not (presence.pci or presence.devices or presence.driver):
        return amd
    found = _of_nvidia(context, presence, window_s, samples)
    return _both(found, amd) if isinstance(found, Known) and isinstance(amd, Known) else found


def _both(first: Known[GpuSet], second: Known[GpuSet]) -> Known[GpuSet]:
    """Cards of two makers in one machine, numbered on."""
    a, b = first.value, second.value
    more = tuple(g.model_copy(update={"index": len(a.gpus) + i}) for i, g in enumerate(b.gpus))
    count = None if a.pci_count is None or b.pci_count is None else a.pci_count + b.pci_count
    new = {"gpus": (*a.gpus, *more), "errors": (*a.errors, *b.errors), "pci_count": count}
    return first.model_copy(update={"value": a.model_copy(update=new)})


def _of_nvidia(context: Context, presence: Presence, window_s: float, samples: int) -> Gpus:
    if context.node.local:
        found = _by_nvml(context, presence, window_s, samples)
        if found is not None:
            return found
    if not presence.smi:
        return without_reader(context, presence, "neither libnvidia-ml.so.1 nor nvidia-smi was found", UnknownReason.TOOL_MISSING)
    return _by_smi(context, presence, window_s, samples)


def without_reader(context: Context, presence: Presence, said: str, why: UnknownReason) -> Absent | Unknown:
    """No reader came up: Absent when nothing at all speaks for a GPU, else Unknown in words."""
    at = source(context, "ls /sys/bus/pci/devices /dev/nvidia* /proc/driver/nvidia", presence.proof)
    inside = f"; inside a container ({presence.container})" if presence.container else ""
    if presence.container and presence.pci is None:
        return Unknown(
            reason=UnknownReason.DENIED, detail=f"{said}; a container without a view of the PCI bus cannot tell", source=at
        )
    if presence.container and presence.pci and not presence.devices:
        detail = f"this container was given no GPU device files, and its machine has {len(presence.pci)} GPUs: {said}"
        return Unknown(reason=UnknownReason.DENIED, detail=detail, source=at)
    if not presence.pci and not presence.devices and not presence.driver and not presence.of_amd:
        return Absent(proof=f"{presence.proof}; {said}{inside}", source=at)
    return Unknown(reason=why, detail=f"{said}; {presence.proof}{inside}", source=at)


def _by_nvml(context: Context, presence: Presence, window_s: float, samples: int) -> Gpus | None:
    """By NVML; None when its library is not installed (nvidia-smi may still be)."""
    command = f"NVML through pynvml, {samples} samples over {window_s:g} s"
    path = context.node.labels.get("ld-library-path")
    state = context.node.labels.get("fake-nvml-state")  # the lab's stub driver
    env = ({"LD_LIBRARY_PATH": path} if path else {}) | ({"FAKE_NVML_STATE": state} if state else {})
    ask = {"window_s": window_s, "samples": samples}
    try:
        got = run_probe(context.host, "nvml", ask, timeout_s=window_s + 20, env=env, python=sys.executable)
    except TransportError as e:
        return unknown(context, e, command)
    if got.get("code") in (LIBRARY_NOT_FOUND, FUNCTION_NOT_FOUND):
        return None
    if "error" in got:
        return without_reader(context, presence, f"NVML: {got['error']}", UnknownReason.FAILED)
    if not got["gpus"] and not got["errors"] and not presence.pci:
        return without_reader(context, presence, "NVML counts 0 GPUs", UnknownReason.FAILED)
    return Known[GpuSet](value=_nvml_set(got, presence), source=source(context, command, _excerpt(got)))


def _nvml_set(got: dict[str, Any], presence: Presence) -> GpuSet:
    return GpuSet(
        driver=got["driver"],
        cuda=got["cuda"],
        gpus=tuple(_nvml_gpu(g, presence) for g in got["gpus"]),
        errors=tuple(GpuError(**e) for e in got["errors"]),
        pci_count=None if presence.pci is None else len(presence.pci),
    )


def _nvml_gpu(g: dict[str, Any], presence: Presence) -> Gpu:
    rows = g["remap"]
    samples = [s for s in g["samples"] if s["sm"] is not None]
    return Gpu(
        index=g["index"], uuid=g["uuid"], name=g["name"], bus_id=g["bus_id"],
        memory_total_bytes=g["memory"]["total"], memory_used_bytes=g["memory"]["used"],
        samples=tuple(
            GpuSample(at_s=s["at_s"], sm_percent=s["sm"], memory_percent=s["memory"], power_w=s["power_w"])
            for s in samples
        ),
        processes=_nvml_processes(g, presence),
        temperature_c=g["temperature"], pstate=g["pstate"], sm_clock_mhz=g["clock"], sm_clock_max_mhz=g["clock_max"],
        throttle=throttle_names(hex(g["reasons"] or 0)), ecc_uncorrected_volatile=g["ecc_uncorrected"],
        ecc_corrected_volatile=g["ecc_corrected"], mig=g["mig"], compute_mode=g["compute_mode"],
        memory_reserved_bytes=g["memory"]["reserved"], power_limit_w=g["power_limit_w"], recovery_action=g["recovery"],
        remap=_remap(rows) if rows else None,
    )  # fmt: skip


def _remap(rows: list[int]) -> RowRemap:
    return RowRemap(correctable=rows[0], uncorrectable=rows[1], pending=bool(rows[2]), failed=bool(rows[3]))


def _nvml_processes(g: dict[str, Any], presence: Presence) -> Known[tuple[GpuProcess, ...]] | Unknown:
    if g["processes"]["error"]:
        return Unknown(reason=UnknownReason.FAILED, detail=f"NVML: {g['processes']['error']}")
    if any(p["pid"] == 0 for p in g["processes"]["list"]):
        return NUMBERLESS
    found = tuple(
        GpuProcess(
            pid=p["pid"], used_bytes=p["used"], kind=p["kind"], sm_percent=tuple(g["sm_by_pid"].get(str(p["pid"]), ()))
        )
        for p in g["processes"]["list"]
    )
    return shown(found, g["memory"]["used"], presence.container)


def shown(found: tuple[GpuProcess, ...], used: int, container: str) -> Known[tuple[GpuProcess, ...]] | Unknown:
    """The driver's list; inside a container an empty one beside memory in use is no answer."""
    if not found and container and used > HIDES:
        detail = "inside a container the driver does not list processes of other PID namespaces"
        return Unknown(reason=UnknownReason.DENIED, detail=detail)
    return Known[tuple[GpuProcess, ...]](value=found)


def _excerpt(got: dict[str, Any]) -> str:
    lines = [f"GPU {g['index']} {g['uuid']}: {g['memory']['used']} bytes used, SM % "
             + " ".join(str(s["sm"]) for s in g["samples"]) for g in got["gpus"]]  # fmt: skip
    return "\n".join(lines + [f"GPU {e['index']}: {e['error']}" for e in got["errors"]])


def _by_smi(context: Context, presence: Presence, window_s: float, samples: int) -> Gpus:
    command = f"nvidia-smi --query-gpu={GPU_FIELDS} --format=csv"
    if presence.stuck:
        pids = ", ".join(map(str, presence.stuck))
        detail = f"nvidia-smi hangs in state D (pid {pids}); no other was started"
        return Unknown(reason=UnknownReason.TIMED_OUT, detail=detail, source=source(context, command))
    ask = {"smi": presence.smi, "fields": GPU_FIELDS, "window_s": window_s, "samples": samples, "timeout_s": 10}
    try:
        got = run_probe(context.host, "gpus", ask, timeout_s=window_s + 45)
    except TransportError as e:
        return unknown(context, e, command)
    if got["hung"]:
        left = f"; left running, pid {got['stuck']}" if got["stuck"] else "; it was ended"
        detail = f"nvidia-smi gave no answer in 10 s{left}; it was not started again"
        return Unknown(reason=UnknownReason.TIMED_OUT, detail=detail, source=source(context, command))
    last = got["queries"][-1]
    at = source(context, command, last["out"])
    try:
        found = gpu_set(got, None if presence.pci is None else len(presence.pci), presence.container)
    except ODD_ANSWER as e:
        return Unknown(reason=UnknownReason.UNPARSABLE, detail=f"{type(e).__name__}: {e}"[:300], source=at)
    if isinstance(found, Known):
        nothing = not found.value.gpus and not presence.pci and [e.error for e in found.value.errors] == [NO_DEVICES]
        return (
            without_reader(context, presence, NO_DEVICES, UnknownReason.FAILED)
            if nothing
            else found.model_copy(update={"source": at})
        )
    if found.reason in (UnknownReason.FAILED, UnknownReason.TOOL_MISSING):
        return without_reader(context, presence, found.detail, found.reason)
    return found.model_copy(update={"source": at})
