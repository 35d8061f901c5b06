"""nvidia-smi's text, as a real H100 printed it and as broken drivers do, into rows."""

from pathlib import Path

import pytest

from runbooks.core.reading import Known, Unknown, UnknownReason
from runbooks.parsers.nvidia_smi import (
    MIB,
    nvidia_smi_failure,
    parse_apps_csv,
    parse_gpu_csv,
    parse_pmon,
    parse_process_table,
    throttle_names,
)
from runbooks.parsers.nvidia_smi_xml import parse_smi_xml

H100 = Path(__file__).parents[1] / "data" / "h100"
UUID = "GPU-5a3c1e90-0000-4000-8000-000000000001"


def recorded(name: str) -> str:
    """A recording without the command line and exit code above it."""
    lines = (H100 / f"{name}.txt").read_text(encoding="utf-8").splitlines(keepends=True)
    return "".join(lines[2:])


@pytest.mark.parametrize(
    ("name", "sm", "used_mib", "power"),
    [
        ("idle", 0, 0, 77.93),
        ("duty", 0, 9203, 140.61),
        ("spin", 99, 8915, 695.70),
        ("devspin", 100, 8721, 140.32),
        ("hold-stopped", 0, 8719, 136.44),
        ("orphan", 0, 8719, 85.67),
        ("after", 1, 0, 139.52),
    ],
)
def test_gpu_rows(name: str, sm: float, used_mib: int, power: float) -> None:
    """The recorded numbers, in bytes, watts and per cent."""
    got = parse_gpu_csv(recorded(f"gpu-{name}"))
    assert isinstance(got, Known)
    (row,) = got.value
    assert (row.index, row.uuid, row.name, row.pstate) == (0, UUID, "NVIDIA H100 80GB HBM3", "P0")
    assert (row.sm_percent, row.used_bytes, row.power_w) == (sm, used_mib * MIB, power)
    assert (row.total_bytes, row.ecc_uncorrected, row.fault) == (81559 * MIB, 0, "")
    assert row.throttle == {"idle": ("gpu_idle",), "spin": ("sw_power_cap",)}.get(name, ())


@pytest.mark.parametrize(
    ("name", "pid", "mib"), [("duty", 522, 9194), ("devspin", 610, 8712), ("orphan", 654, 8710), ("spin", 568, 8906)]
)
def test_processes_of_a_gpu(name: str, pid: int, mib: int) -> None:
    """The query, pmon and the plain table name the same process."""
    apps, pmon = parse_apps_csv(recorded(f"apps-{name}")), parse_pmon(recorded(f"pmon-{name}"))
    table = parse_process_table(recorded(f"smi-{name}"))
    assert isinstance(apps, Known)
    assert isinstance(pmon, Known)
    assert isinstance(table, Known)
    assert [(a.pid, a.used_bytes, a.gpu_uuid) for a in apps.value] == [(pid, mib * MIB, UUID)]
    assert {(p.pid, p.used_bytes) for p in pmon.value} == {(pid, mib * MIB)}
    assert len(pmon.value) == 2
    assert [(a.pid, a.used_bytes, a.gpu_index) for a in table.value] == [(pid, mib * MIB, 0)]


def test_none_in_words_and_an_empty_table_differ() -> None:
    """Only the driver's words mean that nothing runs; the query alone can't say it."""
    words = recorded("smi-idle")
    empty = "".join(x for x in words.splitlines(keepends=True) if "No running" not in x)
    none, unresolved, query = (
        parse_process_table(words),
        parse_process_table(empty),
        parse_apps_csv(recorded("apps-idle")),
    )
    assert none == Known(value=())
    assert isinstance(unresolved, Unknown)
    assert "PID namespace" in unresolved.detail
    assert query == Known(value=())


def test_old_layout_with_an_empty_table() -> None:
    """The table of a driver without GI and CI columns (NVIDIA/nvidia-docker#1460)."""
    text = "|  GPU       PID   Type   Process name             Usage      |\n|====|\n+----+\n"
    assert isinstance(parse_process_table("| Processes:          GPU Memory |\n" + text), Unknown)
    row = "|    0      4242      C   python3                       814MiB |\n"
    got = parse_process_table("| Processes:          GPU Memory |\n" + row)
    assert isinstance(got, Known)
    assert [(a.pid, a.used_bytes) for a in got.value] == [(4242, 814 * MIB)]


def test_xml_agrees_with_the_queries() -> None:
    """Reserve, power limit, clocks and recovery action are in the XML only."""
    got = parse_smi_xml(recorded("smi-qx"))
    assert isinstance(got, Known)
    (gpu,) = got.value.gpus
    assert (gpu.reserved_bytes, gpu.used_bytes, gpu.power_limit_w) == (480 * MIB, 0, 700.0)
    assert (gpu.bus_id, gpu.mig, gpu.throttle) == ("00000000:00:06.0", False, ("gpu_idle",))
    assert (gpu.sm_clock_mhz, gpu.sm_clock_max_mhz, gpu.ecc_uncorrected) == (345.0, 1980.0, 0)
    assert (got.value.driver, got.value.attached, got.value.apps) == ("580.159.04", 1, ())
    assert got.value.recovery == {UUID: "None"}
    assert got.value.remapped == {UUID: (0, 0, False, False)}


def test_xml_processes_and_errors() -> None:
    """Process entries are read; entities and torn documents are refused."""
    one = "<process_info><pid>7</pid><type>C</type><used_memory>10 MiB</used_memory></process_info>"
    body = f"<nvidia_smi_log><gpu id='1'><uuid>GPU-1</uuid><processes>{one}</processes></gpu></nvidia_smi_log>"
    got = parse_smi_xml(f"<?xml version='1.0'?>{body}")
    assert isinstance(got, Known)
    assert [(a.pid, a.used_bytes, a.gpu_uuid) for a in got.value.apps] == [(7, 10 * MIB, "GPU-1")]
    for bad in (f"<?xml version='1.0'?><!DOCTYPE x [<!ENTITY a 'b'>]>{body}", "<?xml version='1.0'?><a>", "nothing"):
        no = parse_smi_xml(bad)
        assert isinstance(no, Unknown)
        assert no.reason is UnknownReason.UNPARSABLE


@pytest.mark.parametrize(
    ("text", "code", "why"),
    [
        ("sh: 1: nvidia-smi: command not found", 127, UnknownReason.TOOL_MISSING),
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", 9, UnknownReason.FAILED),
        ("Failed to initialize NVML: Unknown Error", 255, UnknownReason.FAILED),
        ("Failed to initialize NVML: Driver/library version mismatch", 18, UnknownReason.FAILED),
        ("Failed to initialize NVML: Insufficient Permissions", 4, UnknownReason.DENIED),
        ("No devices were found", 6, UnknownReason.FAILED),
        ("", 1, UnknownReason.FAILED),
    ],
)
def test_failures_keep_their_reason_and_words(text: str, code: int, why: UnknownReason) -> None:
    """No failure becomes an empty answer."""
    found = nvidia_smi_failure(text, code)
    assert found is not None
    assert found.reason is why
    assert text in found.detail
    if text:
        assert isinstance(parse_gpu_csv(text), Unknown)


def test_a_row_that_the_driver_cannot_read_is_a_fault() -> None:
    """`[GPU is lost]` in a cell is no zero."""
    head = "index, uuid, utilization.gpu [%], memory.used [MiB]\n"
    text = head + "0, GPU-1, 3 %, 5 MiB\n1, [GPU is lost], [GPU is lost], ERR!\n"
    got = parse_gpu_csv(text)
    assert isinstance(got, Known)
    assert [(r.fault, r.sm_percent) for r in got.value] == [("", 3.0), ("GPU is lost", None)]


def test_not_available_is_none() -> None:
    """MIG and old cards print N/A."""
    head = "index, uuid, utilization.gpu [%], power.draw [W], mig.mode.current\n"
    text = head + "0, GPU-1, [N/A], [Not Supported], Enabled\n"
    got = parse_gpu_csv(text)
    assert isinstance(got, Known)
    assert (got.value[0].sm_percent, got.value[0].power_w, got.value[0].mig) == (None, None, True)


def test_throttle_bits() -> None:
    """Known bits by name, others by number."""
    assert throttle_names("0x0000000000000044") == ("sw_power_cap", "hw_thermal_slowdown")
    assert throttle_names("0x1000") == ("bit 12",)
    assert throttle_names("[N/A]") == ()


@pytest.mark.parametrize("parse", [parse_gpu_csv, parse_apps_csv, parse_pmon, parse_process_table, parse_smi_xml])
def test_garbage_is_unknown(parse: object) -> None:
    """Text of another program never becomes an answer."""
    assert isinstance(parse("hello\nworld, 3\n"), Unknown)  # type: ignore[operator]
