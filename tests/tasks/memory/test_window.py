"""Only what happened since the last nightly is news: nights over one machine, read by the product's probes, judged and kept as reports."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from flows.engine import observe as looks_at
from flows.specs import load_spec
from flows.sweep import sweeping
from flows.sweep.sweeping import Sweep
from runbooks.core.fleet import Fleet, Node
from runbooks.core.nightly import Result
from runbooks.core.outcome import Outcome
from tasks.transport.base import Host
from tasks.transport.open import HostPool
from tests.incidents.test_places_memory import GROUP, HOST_KILL, KILL, OLD_KILL, look, meminfo, now_since_boot
from tests.support.pretend import PretendHost

BOOT = "[    0.000001] Linux version 6.8.0\n"
DENIED = "#!/bin/sh\necho 'dmesg: read kernel buffer failed: Operation not permitted' >&2; exit 1\n"
GROUPS = Path("/sys/fs/cgroup/memory" if Path("/sys/fs/cgroup/memory/memory.usage_in_bytes").exists() else "/sys/fs/cgroup")
DAY = timedelta(days=1)
NOW = datetime.now(UTC)


class OneMachine(HostPool):
    """Every node is that machine."""

    def __init__(self, host: Host) -> None:
        super().__init__()
        self._host = host

    def __call__(self, node: Node) -> Host:
        """That machine."""
        return self._host


@pytest.fixture
def night(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """One night of memory-pressure over a machine with that kernel log: what the report says, as data, and its line."""
    looks: list[int] = []

    def look_at(kernel: str, at: datetime, kills: int = 0, **more: str) -> tuple[Result, dict[str, Any]]:
        looks.append(1)
        files = {"/proc/meminfo": meminfo(512, 300, 400, 100), "/proc/vmstat": f"nr_free_pages 7\noom_kill {kills}\n"}
        programs = {"dmesg": kernel, "journalctl": "#!/bin/sh\nexit 1\n"}
        host = PretendHost("node-a", tmp_path / f"host-{len(looks)}", files | more, programs, hidden=("/sys/fs/cgroup",))
        fleet = Fleet(nodes=(Node(name="node-a", local=True),))
        sweep = Sweep(fleet=fleet, slugs=("memory-pressure",), folder=tmp_path / "reports", run_id=f"night-{len(looks)}", trigger="nightly")
        spec, pool = load_spec("memory-pressure"), OneMachine(host)
        monkeypatch.setattr(looks_at, "utc_now", lambda: at)
        context = replace(looks_at.context_of(spec, fleet, "node-a", sweep.folder, pool, sweep="nightly"), now=lambda: at)
        found = sweeping._one(sweep, spec, context, pool)
        return found, json.loads(Path(found.report).with_suffix(".json").read_text())["diagnosis"]

    return look_at


@pytest.mark.parametrize(("block", "slug"), [(HOST_KILL, "host-oom"), (KILL, "cgroup-oom")])
def test_a_kill_is_named_by_the_next_nightly_and_not_again(night: Any, block: str, slug: str) -> None:
    kernel = BOOT + block.format(at=now_since_boot(30), group=GROUP)
    quiet, _ = night(BOOT, NOW - timedelta(hours=20))
    assert quiet.outcome is Outcome.HEALTHY
    told, said = night(kernel, NOW, kills=1)
    assert (told.outcome, told.causes) == (Outcome.UNHEALTHY, (slug,))
    assert said["causes"][0]["certainty"] == "confirmed", "a nightly asks whether the kernel killed, not whose job it was"
    assert f"{NOW:%Y-%m-%d}" in told.headline
    again, _ = night(kernel, NOW + timedelta(hours=1), kills=1)
    assert again.causes == (slug,), "a second nightly of that day says it as well"
    for days in (2, 3, 9):
        later, said = night(kernel, NOW + days * DAY, kills=1)
        assert (later.outcome, later.causes) == (Outcome.HEALTHY, ())
        assert "pid 4242" not in later.headline
        (old,) = [f for f in said["findings"] if f["category"] == "memory/another-time"]
        assert f"{NOW:%Y-%m-%d}" in old["issue"]
        assert f"({days} days before this look)" in old["issue"] or f"({days * 24} hours before" in old["issue"]


def test_after_a_missed_night_the_window_reaches_back_to_the_last_one(night: Any) -> None:
    kernel = BOOT + HOST_KILL.format(at=now_since_boot(30), group=GROUP)
    night(BOOT, NOW - timedelta(hours=1))
    told, _ = night(kernel, NOW + 4 * DAY, kills=1)
    assert told.causes == ("host-oom",)


def test_the_first_nightly_tells_a_day(night: Any) -> None:
    kernel = BOOT + HOST_KILL.format(at=now_since_boot(30), group=GROUP)
    assert night(kernel, NOW + 3 * DAY, kills=1)[0].outcome is Outcome.HEALTHY


def test_a_kill_without_a_time_is_said_to_have_none(night: Any) -> None:
    told, said = night(HOST_KILL.replace("[{at}] ", "").format(group=GROUP), NOW, kills=1)
    assert told.outcome is Outcome.CANNOT_TELL
    assert "when the kernel killed pid 4242 (python3): its log carries no times" in said["unknowns"]
    assert "carries no times" in told.headline


def test_without_the_kernel_log_the_machines_own_count_tells(night: Any) -> None:
    """A user who may not read the log reads the count of kills since boot."""
    well, _ = night(DENIED, NOW)
    assert (well.outcome, well.unknowns) == (Outcome.HEALTHY, ())
    unclear, said = night(DENIED, NOW + DAY, kills=2)
    assert unclear.outcome is Outcome.CANNOT_TELL
    assert any("2 killed for memory since boot, when and which is not known" in u and "not permitted" in u for u in said["unknowns"])


def test_a_count_that_stood_still_since_the_last_nightly_is_proof(night: Any) -> None:
    kernel = BOOT + HOST_KILL.format(at=now_since_boot(30), group=GROUP)
    night(kernel, NOW, kills=1)
    assert night(DENIED, NOW + DAY, kills=1)[0].outcome is Outcome.HEALTHY
    assert night(DENIED, NOW + 2 * DAY, kills=2)[0].outcome is Outcome.CANNOT_TELL
    anew = {"/proc/sys/kernel/random/boot_id": "11111111-2222-3333-4444-555555555555\n"}
    assert night(DENIED, NOW + 3 * DAY, kills=1, **anew)[0].outcome is Outcome.CANNOT_TELL, "another boot counts from 0"


def test_by_hand_an_old_kill_is_dated_and_not_the_headline(tmp_path: Path) -> None:
    """Nobody gave a log: what is asked about is the last day."""
    kernel = OLD_KILL.format(at=now_since_boot(10), group=GROUP)
    files = {"/proc/meminfo": meminfo(512, 300, 400, 100)}
    host = PretendHost("node-a", tmp_path / "host", files, {"dmesg": BOOT + kernel}, hidden=("/sys/fs/cgroup",))
    found = look(host, at=NOW + 3 * DAY)
    assert "4242" not in found.headline
    assert not found.causes
    (old,) = [f for f in found.findings if f.category == "memory/another-time"]
    assert "UTC: the kernel killed pid 4242 (python3), which held 58.6 GiB (3 days before this look)" in old.issue
