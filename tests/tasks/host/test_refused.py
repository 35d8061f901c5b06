"""What a pids cgroup refused is told once: the next night it is old, and only what came since counts."""

from pathlib import Path
from typing import Any

import pytest

from flows.engine.observe import context_of, observe, report_of
from flows.specs import load_spec
from runbooks.core.fleet import LOCAL_FLEET
from runbooks.core.knowledge import load_runbook
from runbooks.core.render import render
from tasks.context import utc_now
from tasks.host.probes import host_limits as probe
from tasks.report_store import save
from tasks.transport.open import HostPool

BOOT = "5d3a0c1e-8f0b-4d59-9e0b-7a1f0c2d3e4f 4242"
GROUP = "cgroup /sys/fs/cgroup/train.scope"


def night(folder: Path, monkeypatch: pytest.MonkeyPatch, refused: int, made: str) -> tuple[int | None, list[str]]:
    """One nightly's look at this machine, where that group has been refused so often; saved as a nightly saves it."""
    at = utc_now().timestamp()
    gauge = probe.gauge(GROUP, "threads", 12, 512, "its pids.max", refused=refused, made=made)
    got: dict[str, Any] = {group: [] for group in ("files", "locked", "shm", "inotify", "disks", "unread", "names", "failed")}
    got |= {"threads": [gauge], "jobs": 0, "began": at, "ended": at, "smart": {"asked": False, "why": "no disk"}, "kept": None}
    monkeypatch.setattr("tasks.host.read.run_probe", lambda *_args, **_more: got)
    spec = load_spec("host-limits")
    with HostPool() as pool:
        context = context_of(spec, LOCAL_FLEET, "local", folder, pool, sweep="nightly")
        evidence, diagnosis = observe(spec, context)
    report = report_of(spec, context, diagnosis, evidence, utc_now(), id=f"night-{refused}-{made}", trigger="nightly")
    save(report, render(report, load_runbook(spec.slug)), folder, keep=9)
    said = [c.slug for c in diagnosis.wrong] + [w for c in diagnosis.causes for w in c.evidence[1:]]
    return evidence.threads.value[0].refused_before, said


def test_a_refusal_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, said = night(tmp_path, monkeypatch, 7, BOOT)
    assert (before, "at a time that is not known" in said[-1]) == (None, True)
    assert night(tmp_path, monkeypatch, 7, BOOT) == (7, [])


@pytest.mark.parametrize(
    ("refused", "made", "expected"),
    [(9, BOOT, (7, "refused 2 times since")), (8, f"1{BOOT[1:]}", (0, "refused 8 times since")), (3, "", (None, "not known"))],
    ids=["again", "a new group of that name", "a group that cannot be told from another"],
)
def test_what_came_since_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: int, made: str, expected: tuple[int | None, str]
) -> None:
    night(tmp_path, monkeypatch, 7, BOOT)
    before, said = night(tmp_path, monkeypatch, refused, made)
    assert before == expected[0]
    assert expected[1] in said[-1]


def test_a_group_is_told_from_a_later_one_of_its_name(tmp_path: Path) -> None:
    folder = tmp_path / "train.scope"
    folder.mkdir()
    first = probe.made(str(folder))
    assert first == probe.made(str(folder)) != probe.made(str(tmp_path))
    assert probe.made(str(tmp_path / "gone")) == ""
