"""`nvidia-smi -q -x` as the CSV queries' rows. An empty process list is not "none" (see nvidia_smi.py)."""

import xml.etree.ElementTree as Tree

from runbooks.core.base import Frozen
from runbooks.core.reading import Known, Unknown, UnknownReason
from runbooks.parsers.nvidia_smi import AppRow, GpuRow, mebibytes, number, nvidia_smi_failure, whole


class SmiXml(Frozen):
    """One `-q -x` document."""

    driver: str
    cuda: str
    attached: int | None  # GPUs that the driver says it has
    gpus: tuple[GpuRow, ...]
    apps: tuple[AppRow, ...]
    remapped: dict[str, tuple[int, int, bool, bool]]  # by UUID: correctable, uncorrectable, pending, failed
    recovery: dict[str, str]  # by UUID: the driver's own recovery action ("None", "Reset", "Reboot" …)


def parse_smi_xml(text: str) -> Known[SmiXml] | Unknown:
    """The document, or why there is none. Entities are refused: the text comes from another machine."""
    start = text.find("<?xml")
    if start < 0:
        return nvidia_smi_failure(text) or Unknown(reason=UnknownReason.UNPARSABLE, detail="no XML")
    body = text[start:]
    if "<!ENTITY" in body:
        return Unknown(reason=UnknownReason.UNPARSABLE, detail="XML with entity declarations")
    try:
        root = Tree.fromstring(body)  # noqa: S314 - entity declarations are refused above
    except Tree.ParseError as e:
        return Unknown(reason=UnknownReason.UNPARSABLE, detail=f"XML: {e}")
    return Known[SmiXml](value=_document(root))


def _document(root: Tree.Element) -> SmiXml:
    gpus = [(i, g) for i, g in enumerate(root.findall("gpu"))]
    rows = [_row(i, g) for i, g in gpus]
    return SmiXml(
        driver=_text(root, "driver_version"),
        cuda=_text(root, "cuda_version"),
        attached=whole(_text(root, "attached_gpus")),
        gpus=tuple(rows),
        apps=tuple(a for (_, g), row in zip(gpus, rows, strict=True) for a in _apps(g, row.uuid)),
        remapped={r.uuid: m for (_, g), r in zip(gpus, rows, strict=True) if (m := _remapped(g)) is not None},
        recovery={r.uuid: _text(g, "gpu_recovery_action") for (_, g), r in zip(gpus, rows, strict=True)},
    )


def _text(node: Tree.Element, path: str) -> str:
    found = node.findtext(path)
    return "" if found is None or found.strip() in ("N/A", "[N/A]") else found.strip()


def _row(index: int, gpu: Tree.Element) -> GpuRow:
    power = "gpu_power_readings" if gpu.find("gpu_power_readings") is not None else "power_readings"
    draw = _text(gpu, f"{power}/instant_power_draw") or _text(gpu, f"{power}/power_draw")
    cap = _text(gpu, f"{power}/current_power_limit") or _text(gpu, f"{power}/power_limit")
    mig = _text(gpu, "mig_mode/current_mig")
    volatile = gpu.find("ecc_errors/volatile")
    return GpuRow(
        index=index,
        uuid=_text(gpu, "uuid"),
        name=_text(gpu, "product_name"),
        bus_id=gpu.get("id", ""),
        sm_percent=number(_text(gpu, "utilization/gpu_util")),
        memory_percent=number(_text(gpu, "utilization/memory_util")),
        used_bytes=mebibytes(_text(gpu, "fb_memory_usage/used")),
        total_bytes=mebibytes(_text(gpu, "fb_memory_usage/total")),
        reserved_bytes=mebibytes(_text(gpu, "fb_memory_usage/reserved")),
        temperature_c=number(_text(gpu, "temperature/gpu_temp")),
        power_w=number(draw),
        power_limit_w=number(cap),
        pstate=_text(gpu, "performance_state"),
        sm_clock_mhz=number(_text(gpu, "clocks/sm_clock")),
        sm_clock_max_mhz=number(_text(gpu, "max_clocks/sm_clock")),
        ecc_uncorrected=_errors(volatile, "uncorrectable"),
        ecc_corrected=_errors(volatile, "_correctable"),
        mig={"Enabled": True, "Disabled": False}.get(mig),
        compute_mode=_text(gpu, "compute_mode"),
        throttle=_reasons(gpu),
    )


def _errors(volatile: Tree.Element | None, part: str) -> int | None:
    """Sum of the volatile counters whose name holds `part`; None where the card counts nothing."""
    if volatile is None:
        return None
    values = [whole(e.text or "") for e in volatile if part in e.tag]
    known = [v for v in values if v is not None]
    return sum(known) if known else None


def _reasons(gpu: Tree.Element) -> tuple[str, ...]:
    parent = gpu.find("clocks_event_reasons")
    parent = gpu.find("clocks_throttle_reasons") if parent is None else parent
    active = [] if parent is None else [e.tag for e in parent if (e.text or "").strip() == "Active"]
    return tuple(t.replace("clocks_event_reason_", "").replace("clocks_throttle_reason_", "") for t in active)


def _remapped(gpu: Tree.Element) -> tuple[int, int, bool, bool] | None:
    rows = gpu.find("remapped_rows")
    if rows is None or whole(_text(rows, "remapped_row_corr")) is None:
        return None
    counts = [whole(_text(rows, f"remapped_row_{n}")) or 0 for n in ("corr", "unc")]
    flags = [_text(rows, f"remapped_row_{n}") == "Yes" for n in ("pending", "failure")]
    return counts[0], counts[1], flags[0], flags[1]


def _apps(gpu: Tree.Element, uuid: str) -> list[AppRow]:
    found = []
    for info in gpu.findall("processes/process_info"):
        pid = whole(_text(info, "pid"))
        if pid is not None:
            used, kind = mebibytes(_text(info, "used_memory")), _text(info, "type") or "C"
            name = _text(info, "process_name")
            found.append(AppRow(gpu_uuid=uuid, pid=pid, name=name, used_bytes=used, kind=kind))
    return found
