"""nvidia-smi text as rows: CSV queries, pmon, the plain table (XML: nvidia_smi_xml). Bytes, W, MHz, per cent."""

import re
from collections.abc import Iterator

from runbooks.core.base import Frozen
from runbooks.core.reading import Known, Unknown, UnknownReason

MIB = 1 << 20
GPU_FIELDS = (
    "index,uuid,name,pci.bus_id,utilization.gpu,utilization.memory,memory.used,memory.total,memory.reserved,"
    "temperature.gpu,power.draw,power.limit,pstate,clocks.sm,clocks.max.sm,"
    "ecc.errors.uncorrected.volatile.total,ecc.errors.corrected.volatile.total,mig.mode.current,compute_mode,"
    "clocks_event_reasons.active,driver_version"
)
"""What to pass to --query-gpu. The parser takes any subset, in any order, by the header line."""
REASONS = {  # nvml.h, nvmlClocksEventReasons
    0x1: "gpu_idle", 0x2: "applications_clocks_setting", 0x4: "sw_power_cap", 0x8: "hw_slowdown", 0x10: "sync_boost",
    0x20: "sw_thermal_slowdown", 0x40: "hw_thermal_slowdown", 0x80: "hw_power_brake_slowdown", 0x100: "display_clocks_setting",
}  # fmt: skip
_FAULT = re.compile(r"lost|fallen off|unknown error|unable to determine|requires reset|ERR!", re.IGNORECASE)
_FAILED = re.compile(
    r"^.*(failed to initialize nvml|nvidia-smi has failed|couldn't communicate|no devices were found|command not found|"
    r"insufficient permissions|permission denied|no such file|unable to determine the device handle).*$",
    re.IGNORECASE | re.MULTILINE,
)
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


class GpuRow(Frozen):
    """One GPU as nvidia-smi prints it. None: the driver does not say (N/A, not supported)."""

    index: int | None = None
    uuid: str = ""
    name: str = ""
    bus_id: str = ""
    sm_percent: float | None = None
    memory_percent: float | None = None
    used_bytes: int | None = None  # nvidia-smi leaves the driver's reserve out (NVML v1 does not)
    total_bytes: int | None = None
    reserved_bytes: int | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    pstate: str = ""
    sm_clock_mhz: float | None = None
    sm_clock_max_mhz: float | None = None
    ecc_uncorrected: int | None = None
    ecc_corrected: int | None = None
    mig: bool | None = None
    compute_mode: str = ""
    throttle: tuple[str, ...] = ()
    driver: str = ""
    fault: str = ""  # the driver's words where it could not read the GPU: "GPU is lost"


class AppRow(Frozen):
    """A process that holds GPU memory, as the driver names it."""

    gpu_uuid: str = ""
    gpu_index: int | None = None
    pid: int
    name: str = ""
    used_bytes: int | None = None
    kind: str = "C"


class PmonRow(Frozen):
    """One pmon sample of one process."""

    gpu_index: int
    pid: int
    kind: str
    sm_percent: float | None
    memory_percent: float | None
    used_bytes: int | None
    name: str


def nvidia_smi_failure(text: str, exit_code: int = 0) -> Unknown | None:
    """Why nvidia-smi gave no table, or None if it did. Its words stay in the detail."""
    line = next((x.strip() for x in text.splitlines() if x.strip()), "")
    found = _FAILED.search(text)
    words = found.group(0).strip() if found else line
    if exit_code == 127 or re.search(r"command not found|no such file", words, re.IGNORECASE):
        return Unknown(reason=UnknownReason.TOOL_MISSING, detail=words or "nvidia-smi: not found")
    if re.search(r"insufficient permissions|permission denied", words, re.IGNORECASE):
        return Unknown(reason=UnknownReason.DENIED, detail=words)
    if found or (exit_code != 0 and not line):
        return Unknown(reason=UnknownReason.FAILED, detail=words or f"exit code {exit_code}, no output")
    return None


def number(text: str) -> float | None:
    """The first number of `81559 MiB`, `140.61 W`, `0 %`; None for N/A, `-` and faults."""
    found = _NUMBER.match(text.strip())
    return float(found.group(0)) if found else None


def whole(text: str) -> int | None:
    """`number` as an int."""
    return None if (value := number(text)) is None else int(value)


def mebibytes(text: str) -> int | None:
    """`9203 MiB` in bytes."""
    return None if (value := number(text)) is None else int(value * MIB)


def throttle_names(text: str) -> tuple[str, ...]:
    """Names of the bits of a `0x…` mask; unknown bits keep their number."""
    if not re.fullmatch(r"0[xX][0-9a-fA-F]{1,16}", text.strip()):
        return ()
    mask = int(text.strip(), 16)
    return tuple(REASONS.get(1 << b, f"bit {b}") for b in range(mask.bit_length()) if mask >> b & 1)


def parse_gpu_csv(text: str) -> Known[tuple[GpuRow, ...]] | Unknown:
    """`nvidia-smi --query-gpu=… --format=csv` (with its header, in any order) as rows."""
    failed = nvidia_smi_failure(text)
    rows = list(_table(text, "index"))
    if not rows:
        return failed or Unknown(reason=UnknownReason.UNPARSABLE, detail="no header line with `index`")
    return Known[tuple[GpuRow, ...]](value=tuple(_gpu_row(r) for r in rows))


def parse_apps_csv(text: str) -> Known[tuple[AppRow, ...]] | Unknown:
    """`--query-compute-apps=gpu_uuid,pid,…` CSV. No rows is NOT "no process": see parse_process_table."""
    failed = nvidia_smi_failure(text)
    if failed:
        return failed
    if not re.search(r"^gpu_uuid, pid\b", text, re.MULTILINE):
        return Unknown(reason=UnknownReason.UNPARSABLE, detail="no header line with gpu_uuid and pid")
    rows = list(_table(text, "gpu_uuid"))
    if len(rows) != len(re.findall(r"^(?:GPU|MIG)-", text, re.MULTILINE)) or not all(r["pid"].isdecimal() for r in rows):
        return Unknown(reason=UnknownReason.UNPARSABLE, detail="a process whose GPU or pid cannot be read")
    apps = (
        AppRow(
            gpu_uuid=r["gpu_uuid"],
            pid=int(r["pid"]),
            name=r.get("process_name", r.get("name", "")),
            used_bytes=mebibytes(r.get("used_gpu_memory", r.get("used_memory", ""))),
        )
        for r in rows
    )
    return Known[tuple[AppRow, ...]](value=tuple(apps))


def parse_pmon(text: str) -> Known[tuple[PmonRow, ...]] | Unknown:
    """`nvidia-smi pmon -c N -s um` as samples; lines of idle GPUs (`-`) are left out."""
    failed = nvidia_smi_failure(text)
    if failed:
        return failed
    header = next((x.lstrip("# ").split() for x in text.splitlines() if x.startswith("# gpu")), None)
    if header is None:
        return Unknown(reason=UnknownReason.UNPARSABLE, detail="no `# gpu` header line")
    lines = [x.split(None, len(header) - 1) for x in text.splitlines() if x.strip() and x[0] not in "#$"]
    rows = [r for x in lines if (r := dict(zip(header, x, strict=False))).get("pid", "").isdecimal()]
    if not all(r["gpu"].isdecimal() for r in rows):
        return Unknown(reason=UnknownReason.UNPARSABLE, detail="a process on a GPU whose number cannot be read")
    return Known[tuple[PmonRow, ...]](value=tuple(_pmon_row(r) for r in rows))


def parse_process_table(text: str) -> Known[tuple[AppRow, ...]] | Unknown:
    """The process part of plain `nvidia-smi`: only here the driver says in words that nothing runs.

    `No running processes found` gives Known(()); a table without rows gives Unknown: processes that cannot be
    resolved in this PID namespace (NVIDIA/nvidia-docker#1460), not "no process".
    """
    failed = nvidia_smi_failure(text)
    if failed:
        return failed
    if re.search(r"no running processes found", text, re.IGNORECASE):
        return Known[tuple[AppRow, ...]](value=())
    if "Processes:" not in text:
        return Unknown(reason=UnknownReason.UNPARSABLE, detail="no process table")
    tail = text.split("Processes:", 1)[1]
    pattern = r"^\|\s+(\d+)\s+(?:(?:N/A|\d+)\s+(?:N/A|\d+)\s+)?(\d+)\s+([CGM+]+)\s+(.*?)\s+(\d+MiB|N/A)\s*\|"
    found = re.findall(pattern, tail, re.MULTILINE)
    if not found:
        return Unknown(reason=UnknownReason.DENIED, detail="empty process table: PIDs of another PID namespace")
    apps = [AppRow(gpu_index=int(g), pid=int(p), kind=k, name=n, used_bytes=mebibytes(m)) for g, p, k, n, m in found]
    return Known[tuple[AppRow, ...]](value=tuple(apps))


def _table(text: str, first: str) -> Iterator[dict[str, str]]:
    """Rows below the header line with the column `first`, as name -> text. It quotes nothing: a process's name may hold commas."""
    header: list[str] | None = None
    for line in text.splitlines():
        cells = [c.strip() for c in line.split(",")]
        if header is None:
            names = [c.split(" [")[0] for c in cells]
            header = names if first in names and len(names) > 1 else None
        elif (more := len(cells) - len(header)) >= 0:
            at = header.index("process_name") if "process_name" in header else len(header) - 1
            cells[at : at + more + 1] = [", ".join(cells[at : at + more + 1])]
            yield dict(zip(header, cells, strict=True))


def _gpu_row(r: dict[str, str]) -> GpuRow:
    def get(name: str) -> str:
        return r.get(name, "")

    faults = [v for v in r.values() if _FAULT.search(v)]
    mig = get("mig.mode.current")
    return GpuRow(
        index=whole(get("index")),
        uuid=get("uuid") if get("uuid").startswith("GPU-") else "",
        name=get("name"),
        bus_id=get("pci.bus_id"),
        sm_percent=number(get("utilization.gpu")),
        memory_percent=number(get("utilization.memory")),
        used_bytes=mebibytes(get("memory.used")),
        total_bytes=mebibytes(get("memory.total")),
        reserved_bytes=mebibytes(get("memory.reserved")),
        temperature_c=number(get("temperature.gpu")),
        power_w=number(get("power.draw")),
        power_limit_w=number(get("power.limit")),
        pstate=get("pstate"),
        sm_clock_mhz=number(get("clocks.current.sm") or get("clocks.sm")),
        sm_clock_max_mhz=number(get("clocks.max.sm")),
        ecc_uncorrected=whole(get("ecc.errors.uncorrected.volatile.total")),
        ecc_corrected=whole(get("ecc.errors.corrected.volatile.total")),
        mig={"Enabled": True, "Disabled": False}.get(mig),
        compute_mode=get("compute_mode"),
        throttle=throttle_names(get("clocks_event_reasons.active")),
        driver=get("driver_version"),
        fault=faults[0].strip("[]") if faults else "",
    )


def _pmon_row(r: dict[str, str]) -> PmonRow:
    return PmonRow(
        gpu_index=int(r["gpu"]),
        pid=int(r["pid"]),
        kind=r.get("type", "C"),
        sm_percent=number(r.get("sm", "-")),
        memory_percent=number(r.get("mem", "-")),
        used_bytes=mebibytes(r.get("fb", "-")),
        name=r.get("command", "").strip(),
    )
