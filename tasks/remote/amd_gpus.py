"""Reads a node's AMD GPUs from the kernel's files, into the same type that NVML and `nvidia-smi` fill."""

from typing import Any

from runbooks.core.gpu_set import Gpu, GpuError, GpuProcess, GpuSample, GpuSet
from runbooks.core.reading import Known, Unknown, UnknownReason
from tasks.context import Context
from tasks.remote.probe import run_probe, source, unknown
from tasks.transport.base import TransportError

COMMAND = "cat /sys/bus/pci/devices/*/{mem_info_vram_used,gpu_busy_percent} /sys/class/kfd/kfd/proc/*/vram_*  # or: rocm-smi --showpids"
OWN = {"AMD Instinct MI300X": 600 << 20}  # bytes at rest: some 290 MiB were seen (rocm-smi table of stas00/ml-engineering); others unknown
NAMES = {"0x74a1": "AMD Instinct MI300X", "0x74a0": "AMD Instinct MI300A", "0x74a5": "AMD Instinct MI325X", "0x75a0": "AMD Instinct MI350X",
         "0x740f": "AMD Instinct MI210", "0x7408": "AMD Instinct MI250X", "0x740c": "AMD Instinct MI250"}  # fmt: skip # pci.ids


def read_amd_gpus(context: Context, root: str, window_s: float, samples: int) -> Known[GpuSet] | Unknown:
    """Every AMD GPU over the window. Unknown where the driver's files are not there: a GPU is there and was not read."""
    try:
        got = run_probe(context.host, "amd_gpus", {"root": root, "window_s": window_s, "samples": samples}, timeout_s=window_s + 20)
    except TransportError as e:
        return unknown(context, e, COMMAND)
    good = [g for g in got["gpus"] if g["total"] is not None and g["used"] is not None]
    lines = [f"GPU {g['index']} {g['bus_id']}: {g['used']} of {g['total']} bytes, holders {g['processes']}" for g in good]
    at = source(context, COMMAND, "\n".join(lines))
    if not good:
        where = ", ".join(g["bus_id"] for g in got["gpus"]) or "/dev/kfd"
        detail = f"an AMD GPU that can't be read here ({where}): its driver shows no mem_info_vram_total; look with rocm-smi"
        return Unknown(reason=UnknownReason.TOOL_MISSING, detail=detail, source=at)
    bad = tuple(GpuError(index=g["index"], bus_id=g["bus_id"], error="its driver shows no memory") for g in got["gpus"] if g not in good)
    found = GpuSet(driver="amdgpu", gpus=tuple(map(_gpu, good)), errors=bad, pci_count=len(got["gpus"]))
    return Known[GpuSet](value=found, source=at)


def _gpu(g: dict[str, Any]) -> Gpu:
    samples = [s for s in g["samples"] if s["sm"] is not None]
    name = g["name"] or NAMES.get(g["device"], f"AMD GPU {g['device']}")
    return Gpu(
        index=g["index"], uuid=f"amd-{g['unique_id'] or g['bus_id']}", name=name,
        bus_id=g["bus_id"], memory_total_bytes=g["total"], memory_used_bytes=g["used"], processes=_processes(g, name), mig=False,
        samples=tuple(
            GpuSample(at_s=s["at_s"], sm_percent=s["sm"], memory_percent=s["memory"] or 0, power_w=s["power_w"]) for s in samples
        ),
    )  # fmt: skip


def _processes(g: dict[str, Any], name: str) -> Known[tuple[GpuProcess, ...]] | Unknown:
    """The compute driver's list. Beside memory in use an empty one is no answer: it does not name clients that draw."""
    if g["processes"] is None:
        return Unknown(reason=UnknownReason.FAILED, detail="the compute driver lists no process of this GPU: /sys/class/kfd is not there")
    if not g["processes"] and g["used"] > OWN.get(name, 0):
        return Unknown(reason=UnknownReason.FAILED, detail="the compute driver lists no process; clients that draw are not in its list")
    return Known[tuple[GpuProcess, ...]](value=tuple(GpuProcess(pid=p["pid"], used_bytes=p["used"]) for p in g["processes"]))
