"""Kernel log lines about GPUs: a real H100's log, published lines, and those that only look alike."""

from pathlib import Path

import pytest

from runbooks.core.knowledge import load_table
from runbooks.gpu.parsers.kernel_log import bus_key, parse_kernel_log, recovery_action

H100 = Path(__file__).parents[1] / "data" / "h100"


def test_recorded_log_has_one_event() -> None:
    """Seven lines of the driver, one of them an Xid."""
    (line,) = parse_kernel_log((H100 / "dmesg-nv.txt").read_text(encoding="utf-8"))
    assert (line.xid, line.at_s, line.pid, line.process) == (31, 106.234367, 697, "python3")
    assert bus_key(line.bus_id) == "0000:00:06"
    assert line.text.startswith("NVRM: Xid (PCI:0000:00:06): 31")


@pytest.mark.parametrize(
    ("text", "xid", "bus"),
    [
        ("NVRM: Xid (PCI:0000:06:00): 79, GPU has fallen off the bus.", 79, "0000:06:00"),
        ("NVRM: GPU 0000:06:00.0: GPU has fallen off the bus.", 79, "0000:06:00"),
        ("[   12.5] NVRM: GPU at PCI:0000:06:00 has fallen off the bus", 79, "0000:06:00"),
        ("NVRM: Xid (0000:9b:00): 13, Graphics Exception", 13, "0000:9b:00"),
        (
            "Nov 27 22:05 gpu1 kernel: NVRM: Xid (PCI:0000:9b:00): 43, pid='<unknown>', name=<unknown>, Ch 8",
            43,
            "0000:9b:00",
        ),
        ("<4>[ 5.5] NVRM: Xid (PCI:0018:01:00): 149, NETIR Fatal XC0 i0 Link -1 (0x000fe406)", 149, "0018:01:00"),
    ],
)
def test_forms(text: str, xid: int, bus: str) -> None:
    """With and without number, stamp, PCI prefix."""
    (line,) = parse_kernel_log(text)
    assert (line.xid, bus_key(line.bus_id)) == (xid, bus)
    assert line.process == ""


@pytest.mark.parametrize(
    "text",
    [
        "NVRM: kgspRcAndNotifyAllChannels_IMPL: RC all channels for critical error 79.",
        "[ 3.5] NVRM: Persistence mode is deprecated and will be removed in a future release.",
        "usb 1-1: device fallen off the bus",
        "pcieport 0000:00:01.0: AER: Corrected error",
    ],
)
def test_other_lines_are_left_out(text: str) -> None:
    """Notices and other drivers say nothing about a GPU's Xid."""
    assert parse_kernel_log(text) == ()


def test_nvlink5_words() -> None:
    """Unit, fatality, link and status words of the NVLink5 form."""
    text = "NVRM: Xid (PCI:0018:01:00): 145, RLW_RXPIPE Nonfatal XC0 i0 Link 13 (0x0409a0c2 0x00000008 0x00000001)"
    link = parse_kernel_log(text)[0].nvlink
    assert link is not None
    assert (link.unit, link.fatal, link.link, len(link.words)) == ("RLW_RXPIPE", False, 13, 3)


@pytest.mark.parametrize(
    ("words", "action"),
    [
        ("GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)", "Node Reboot Required"),
        ("GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)", "None"),
        ("GPU recovery action: Drain P2P", "Drain P2P"),
        ("something new", ""),
    ],
)
def test_what_xid_154_asks_for(words: str, action: str) -> None:
    """The state it changed to, not the one it came from; and the table knows each."""
    assert recovery_action(f"NVRM: Xid (PCI:0000:9b:00): 154, {words}") == action
    known = load_table("xids")["recovery_actions"]
    assert not action or action.lower() in known


def test_table_is_whole() -> None:
    """Every row has its fields; the follow-ups are marked; the bus error asks for a reboot."""
    rows = load_table("xids")["xids"]
    assert all(set(r) == {"meaning", "action", "role", "nvidia", "follow_up", "gpud"} for r in rows.values())
    assert {x for x, r in rows.items() if r["role"] == "follows"} == {45, 94, 95, 154, 171, 172}
    assert {r["action"] for r in rows.values()} == {"none", "app", "reset", "reboot", "support", "decode", "obey"}
    assert (rows[79]["action"], rows[154]["action"], rows[31]["action"]) == ("reboot", "obey", "app")
