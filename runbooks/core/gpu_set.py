"""The GPUs of a node in one reading. Bytes, seconds, W, MHz; per cent is 0-100 of one device."""

from pydantic import ConfigDict, Field

from runbooks.core.base import Frozen, ProcessId
from runbooks.core.reading import Reading


class GpuSample(Frozen):
    """One look at a GPU within the window."""

    at_s: float  # since the window began
    sm_percent: float  # NVML utilization.gpu: share of the last 1/6-1 s in which any kernel ran
    memory_percent: float  # share of that time in which device memory was read or written
    power_w: float | None = None


class GpuProcess(Frozen):
    """A process that holds memory of a GPU, as the driver names it (pid of the driver's namespace)."""

    pid: ProcessId
    used_bytes: int | None = None  # None: the driver does not say (MIG, containers)
    kind: str = "C"  # C compute, G graphics
    sm_percent: tuple[float, ...] = ()  # per-process SM utilisation samples


class RowRemap(Frozen):
    """Row remapping state: counts and flags."""

    correctable: int
    uncorrectable: int
    pending: bool
    failed: bool


class Gpu(Frozen):
    """One GPU over the window."""

    model_config = ConfigDict(title="GPU")

    index: int
    uuid: str
    name: str
    bus_id: str = ""  # "00000000:00:06.0"
    memory_total_bytes: int
    memory_used_bytes: int
    samples: tuple[GpuSample, ...]
    processes: Reading[tuple[GpuProcess, ...]] = Field(title="process table")  # Known(()) only where the driver says so in words
    temperature_c: float | None = None
    pstate: str = ""
    sm_clock_mhz: float | None = None
    sm_clock_max_mhz: float | None = None
    throttle: tuple[str, ...] = ()  # active clock event reasons, by NVML's names
    ecc_uncorrected_volatile: int | None = None
    ecc_corrected_volatile: int | None = None
    remap: RowRemap | None = None
    mig: bool | None = None
    compute_mode: str = ""
    memory_reserved_bytes: int | None = None  # driver's reserve; NVML v1 counts it as used, nvidia-smi does not
    power_limit_w: float | None = None
    recovery_action: str = ""  # the driver's own words (R565+): "None", "Reset", "Reboot", "Drain P2P" …


class GpuError(Frozen):
    """A GPU that the driver lists (or listed) but cannot read."""

    index: int | None
    bus_id: str = ""
    error: str  # NVML's own words: "GPU is lost", "Unknown Error"
    name: str = ""  # model, as far as it still tells it


class GpuSet(Frozen):
    """All GPUs of a node in one reading."""

    driver: str = ""
    cuda: str = ""
    gpus: tuple[Gpu, ...]
    errors: tuple[GpuError, ...] = ()
    pci_count: int | None = None  # NVIDIA display/3D devices on the PCI bus, whatever the driver says
