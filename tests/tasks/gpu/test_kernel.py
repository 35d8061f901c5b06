"""The kernel log by real commands: what the tools say, and each way in which they say nothing."""

from pathlib import Path

import pytest

from runbooks.core.reading import Known, Unknown, UnknownReason
from runbooks.gpu.evidence import KernelEvent
from tasks.gpu.kernel import read_kernel_log
from tests.support.gpu_node import context

DATA = Path(__file__).parents[2] / "data" / "h100"


def tools(folder: Path, monkeypatch: pytest.MonkeyPatch, dmesg: str, journalctl: str) -> None:
    """Put these shell scripts in front of the real tools."""
    for name, script in (("dmesg", dmesg), ("journalctl", journalctl)):
        path = folder / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def read() -> Known[tuple[KernelEvent, ...]] | Unknown:
    """Through the probe."""
    return read_kernel_log(context())[0]


RECORDED = f"cat {DATA}/dmesg-nv.txt | sed 1,2d"
DENIED = "echo 'dmesg: read kernel buffer failed: Operation not permitted' >&2; exit 1"


def test_this_machine_answers() -> None:
    found = read()
    assert isinstance(found, Known | Unknown)
    if isinstance(found, Unknown):
        assert found.reason in (UnknownReason.DENIED, UnknownReason.TOOL_MISSING)


def test_the_recorded_xid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools(tmp_path, monkeypatch, RECORDED, "exit 1")
    found = read()
    assert isinstance(found, Known)
    (event,) = [e for e in found.value if e.xid is not None]
    assert (event.xid, event.pid, event.process, event.bus_id) == (31, 697, "python3", "0000:00:06")
    assert event.at_s == pytest.approx(106.234367)


def test_denied_falls_back_to_the_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = "[  200.5] host kernel: NVRM: Xid (PCI:0000:0b:00): 79, pid=9, name=x, GPU has fallen off the bus."
    tools(tmp_path, monkeypatch, DENIED, f"echo '{line}'")
    found = read()
    assert isinstance(found, Known)
    assert [e.xid for e in found.value] == [79]
    assert found.source is not None
    assert "journalctl -k -b" in found.source.command
    assert "what came before is lost" in found.source.excerpt


def test_a_ring_that_lost_the_boot_is_replaced_by_the_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ring = "echo '[ 9000.1] usb 1-1: new device'"
    journal = "echo '[    0.1] x'; echo '[   50.0] NVRM: Xid (PCI:0000:0b:00): 48, pid=9, name=x, DBE'"
    tools(tmp_path, monkeypatch, ring, journal)
    found = read()
    assert isinstance(found, Known)
    assert [e.xid for e in found.value] == [48]


@pytest.mark.parametrize(
    ("dmesg", "journalctl", "reason"),
    [
        (DENIED, "echo 'No journal files were opened due to insufficient permissions.' >&2; exit 1", UnknownReason.DENIED),
        (DENIED, "exit 0", UnknownReason.DENIED),
        ("exit 3", "exit 0", UnknownReason.FAILED),
    ],
)
def test_no_log_says_why(
    dmesg: str, journalctl: str, reason: UnknownReason, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools(tmp_path, monkeypatch, dmesg, journalctl)
    found = read()
    assert isinstance(found, Unknown)
    assert found.reason is reason


def test_neither_tool_is_tool_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "python3").symlink_to("/usr/bin/python3")
    ctx = context()
    real = ctx.host.run
    only = ("/usr/bin/env", f"PATH={tmp_path}")
    monkeypatch.setattr(ctx.host, "run", lambda argv, **kw: real((*only, *argv), **kw))
    found, words = read_kernel_log(ctx)
    assert words == found
    assert isinstance(found, Unknown)
    assert found.reason is UnknownReason.TOOL_MISSING
