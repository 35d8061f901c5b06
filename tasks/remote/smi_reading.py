"""Turns what the nvidia-smi probe brought back into the same GpuSet that NVML gives. No I/O."""

import re
from collections.abc import Sequence
from typing import Any

from runbooks.core.gpu_set import Gpu, GpuError, GpuProcess, GpuSample, GpuSet, RowRemap
from runbooks.core.reading import Known, Unknown, UnknownReason, value_or
from runbooks.parsers.nvidia_smi import (
    AppRow,
    GpuRow,
    PmonRow,
    parse_apps_csv,
    parse_gpu_csv,
    parse_pmon,
    parse_process_table,
)
from runbooks.parsers.nvidia_smi_xml import SmiXml, parse_smi_xml

NO_DEVICES = "No devices were found"
_HANDLE = re.compile(
    r"Unable to determine the device handle for GPU\s*(?:\d+:\s*)?([0-9A-Fa-f:.]*[0-9A-Fa-f])?:?\s*(.+)"
)
NUMBERLESS = Unknown(
    reason=UnknownReason.DENIED, detail="the driver lists a process without its number: it is of a PID namespace that is not seen from here"
)
_HIDES = 64 << 20


def gpu_set(got: dict[str, Any], pci_count: int | None, container: str) -> Known[GpuSet] | Unknown:
    """All GPUs of the probe's answer. A GPU that nvidia-smi cannot read becomes an error in its own words."""
    queries = got["queries"]
    last = parse_gpu_csv(_new_names(queries[-1]["out"]))
    if isinstance(last, Unknown):
        gone = _gone(queries[-1]["out"])
        return Known[GpuSet](value=GpuSet(gpus=(), errors=gone, pci_count=pci_count)) if gone else last
    series = [(q["at_s"], value_or(parse_gpu_csv(_new_names(q["out"])), ())) for q in queries]
    xml = _parsed_xml(got)
    good = [r for r in last.value if not r.fault and r.uuid and r.total_bytes is not None and r.index is not None]
    bad = [r for r in last.value if r not in good]
    return Known[GpuSet](
        value=GpuSet(
            driver=next((r.driver for r in last.value if r.driver), xml.driver if xml else ""),
            cuda=xml.cuda if xml else "",
            gpus=tuple(_gpu(r, series, got, xml, container) for r in good),
            errors=tuple(GpuError(index=r.index, bus_id=r.bus_id, error=r.fault or "not readable", name=r.name) for r in bad),
            pci_count=pci_count,
        )
    )


def _new_names(text: str) -> str:
    return text.replace("clocks_throttle_reasons.", "clocks_event_reasons.")


def _gone(text: str) -> tuple[GpuError, ...]:
    found = [m for m in (_HANDLE.search(line) for line in text.splitlines()) if m]
    if not found and NO_DEVICES in text:
        return (GpuError(index=None, error=NO_DEVICES),)
    return tuple(GpuError(index=None, bus_id=m.group(1) or "", error=m.group(2).strip()) for m in found)


def _parsed_xml(got: dict[str, Any]) -> SmiXml | None:
    found = parse_smi_xml(got["xml"]["out"]) if got.get("xml") else None
    return found.value if isinstance(found, Known) else None


def _gpu(row: GpuRow, series: Sequence[Any], got: dict[str, Any], xml: SmiXml | None, container: str) -> Gpu:
    looks = [(at, r) for at, rows in series for r in rows if r.uuid == row.uuid and r.sm_percent is not None]
    remap = xml.remapped.get(row.uuid) if xml else None
    return Gpu(
        index=row.index or 0, uuid=row.uuid, name=row.name, bus_id=row.bus_id,
        memory_total_bytes=row.total_bytes or 0, memory_used_bytes=row.used_bytes or 0,
        samples=tuple(
            GpuSample(at_s=at, sm_percent=r.sm_percent, memory_percent=r.memory_percent or 0, power_w=r.power_w)
            for at, r in looks
        ),
        processes=_processes(row, got, container),
        temperature_c=row.temperature_c, pstate=row.pstate, sm_clock_mhz=row.sm_clock_mhz,
        sm_clock_max_mhz=row.sm_clock_max_mhz, throttle=row.throttle, mig=row.mig, compute_mode=row.compute_mode,
        ecc_uncorrected_volatile=row.ecc_uncorrected, ecc_corrected_volatile=row.ecc_corrected,
        memory_reserved_bytes=row.reserved_bytes, power_limit_w=row.power_limit_w,
        recovery_action=xml.recovery.get(row.uuid, "") if xml else "",
        remap=_remap(*remap) if remap else None,
    )  # fmt: skip


def _remap(correctable: int, uncorrectable: int, pending: bool, failed: bool) -> RowRemap:
    return RowRemap(correctable=correctable, uncorrectable=uncorrectable, pending=pending, failed=failed)


def _processes(row: GpuRow, got: dict[str, Any], container: str) -> Known[tuple[GpuProcess, ...]] | Unknown:
    """The compute list; when it is empty, what the plain table says in words."""
    if not got["apps"]:
        return Unknown(reason=UnknownReason.FAILED, detail="nvidia-smi --query-compute-apps gave no answer")
    apps = parse_apps_csv(got["apps"]["out"])
    if isinstance(apps, Unknown):
        return apps
    mine = [a for a in apps.value if a.gpu_uuid == row.uuid]
    table = parse_process_table(got["table"]["out"]) if got.get("table") else None
    if not apps.value and isinstance(table, Unknown):
        return table
    extra = [a for a in value_or(table, ()) if a.gpu_index == row.index] if table else []
    mine += [a for a in extra if a.pid not in {m.pid for m in mine}]  # graphics processes are only in the table
    if any(a.pid == 0 for a in mine):
        return NUMBERLESS
    if not mine and container and (row.used_bytes or 0) > _HIDES:
        return Unknown(reason=UnknownReason.DENIED, detail="inside a container: processes of other PID namespaces are not listed")
    return Known[tuple[GpuProcess, ...]](value=tuple(_process(a, row, got, extra) for a in mine))


def _process(app: AppRow, row: GpuRow, got: dict[str, Any], table: Sequence[AppRow]) -> GpuProcess:
    pmon: tuple[PmonRow, ...] = value_or(parse_pmon(got["pmon"]["out"]), ()) if got.get("pmon") else ()
    seen = [p for p in pmon if p.pid == app.pid and p.gpu_index == row.index and p.sm_percent is not None]
    kind = next((a.kind for a in table if a.pid == app.pid), app.kind)
    return GpuProcess(
        pid=app.pid, used_bytes=app.used_bytes, kind=kind, sm_percent=tuple(p.sm_percent or 0 for p in seen)
    )
