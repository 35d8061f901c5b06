"""The table of a node's GPUs, for the runbooks that read them."""

from runbooks.core.gpu_set import Gpu, GpuError, GpuSet
from runbooks.core.reading import Known
from runbooks.core.sizes import size
from runbooks.core.table import EvidenceRow, EvidenceTable, counted, row, since, spark, table

HEAD = "GPU | model | busy | memory | power | temperature | processes | faults"


def gpus_table(found: GpuSet, window_s: float = 0.0) -> EvidenceTable:
    """Each GPU with its use over the window, and those that the driver lists and cannot read."""
    title = f"GPUs over {since(window_s)}" if window_s else "GPUs"
    return table(title, HEAD, (*map(_lost, found.errors), *map(_gpu, found.gpus)))


def _lost(gpu: GpuError) -> EvidenceRow:
    name = f"GPU {'?' if gpu.index is None else gpu.index}"
    return row(name, gpu.name, "", "", "", "", "", f"{gpu.error} {gpu.bus_id}".strip(), about=(name, gpu.bus_id), worse=2)


def _gpu(gpu: Gpu) -> EvidenceRow:
    busy = [s.sm_percent for s in gpu.samples]
    power = spark([s.power_w for s in gpu.samples], "W", gpu.power_limit_w or 0.0)
    share = gpu.memory_used_bytes / gpu.memory_total_bytes if gpu.memory_total_bytes else 0.0
    memory = f"{size(gpu.memory_used_bytes)} of {size(gpu.memory_total_bytes)}"
    temperature = f"{gpu.temperature_c:.0f} °C" if gpu.temperature_c is not None else ""
    cells = (f"GPU {gpu.index}", gpu.name, spark(busy, "%", 100.0), memory, power, temperature, _processes(gpu), counted(_faults(gpu)))
    return row(*cells, about=f"GPU {gpu.index}", worse=share - max(busy, default=0.0) / 100)


def _processes(gpu: Gpu) -> str:
    if not isinstance(gpu.processes, Known):
        return "not read"
    return counted(str(p.pid) for p in gpu.processes.value) or "none"


def _faults(gpu: Gpu) -> tuple[str, ...]:
    """What the GPU says against itself."""
    remap = gpu.remap
    said = {
        f"{gpu.ecc_uncorrected_volatile} uncorrected ECC errors": gpu.ecc_uncorrected_volatile,
        "row remapping failed": remap is not None and remap.failed,
        "row remapping pending": remap is not None and remap.pending,
        f"the driver asks: {gpu.recovery_action}": gpu.recovery_action not in ("", "None"),
    }
    return (*(words for words, so in said.items() if so), *gpu.throttle)
