"""Report files: whole or not there, found again, pruned, and a bad disk never loses the report."""

import errno
import json
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from runbooks.core.fleet import Node
from runbooks.core.orchestrator_config import PodSsh
from runbooks.core.report import Report
from tasks.approvers.secrets import approvers_file
from tasks.clients.pod_trust import trust_path
from tasks.container.watch_record import record_path
from tasks.installation import state_folder
from tasks.report_store import earlier_evidence, history, latest, prune, report_folder, reports_root, save, save_nightly
from tasks.ssh.host_key import known_hosts_path
from tests.core.nights import TONIGHT
from tests.core.samples import T0, report


def at(minutes: float, **more: Any) -> Report:
    """A report made `minutes` after T0."""
    when = T0 + timedelta(minutes=minutes)
    evidence = {"node": "node-a", "taken_at": when.isoformat()}
    return report(id=f"r{minutes:g}", started_at=when, ended_at=when, **{"evidence": evidence} | more)


PLACES: list[Callable[[], Path]] = [
    state_folder,
    lambda: reports_root("reports"),
    lambda: reports_root("~/reports"),
    lambda: report_folder("reports", "zombie-gpu", "n"),
    lambda: record_path("n", "c"),
    lambda: trust_path(PodSsh.model_construct(trust_file="keys.json")),
    lambda: known_hosts_path(Node(name="n", local=True, known_hosts="known_hosts")),
    approvers_file,
]


@pytest.mark.parametrize("given", [{}, {"XDG_STATE_HOME": "s"}, {"GPU_RUNBOOKS_HOME": "h", "GPU_RUNBOOKS_APPROVERS": "a.json"},
                                   {"GPU_RUNBOOKS_HOME": "~/h", "GPU_RUNBOOKS_REPORTS": "r"}])  # fmt: skip
def test_no_path_depends_on_the_folder_of_the_process(
    given: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker runs each flow in a temporary folder: what is kept must not lie there, whatever the settings say."""
    for name in ("XDG_STATE_HOME", "GPU_RUNBOOKS_HOME", "GPU_RUNBOOKS_REPORTS", "GPU_RUNBOOKS_APPROVERS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in (given | {"HOME": str(tmp_path / "home")}).items():
        monkeypatch.setenv(name, value)
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    found = [place() for place in PLACES]
    monkeypatch.chdir("/")
    assert [place() for place in PLACES] == found
    assert all(p.is_relative_to(tmp_path / "home") for p in found), found


def test_saved_and_found(tmp_path: Path) -> None:
    saved = save(report(), "# text\n", tmp_path)
    assert saved.problems == ()
    assert saved.record == tmp_path / "zombie-gpu/node-a/20260307T031205Z-r-0001.json"
    assert saved.markdown is not None
    assert saved.markdown.read_text() == "# text\n"
    assert Report.model_validate(latest(tmp_path, "zombie-gpu", "node-a")) == report()
    assert (tmp_path / "zombie-gpu/node-a/latest.json").resolve() == saved.record.resolve()
    assert latest(tmp_path, "zombie-gpu", "other") is None


def test_the_same_run_replaces_its_own_report(tmp_path: Path) -> None:
    save(report(headline="waiting"), "a", tmp_path)
    save(report(headline="fixed"), "b", tmp_path)
    assert [r["headline"] for r in history(tmp_path, "zombie-gpu", "node-a")] == ["fixed"]


def test_nightly_and_sweep_have_their_own_folders(tmp_path: Path) -> None:
    save_nightly(TONIGHT, "n", tmp_path)
    save_nightly(TONIGHT.model_copy(update={"kind": "sweep"}), "s", tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["nightly", "sweep"]
    assert latest(tmp_path, "nightly", "lab") is not None


def test_targets_that_look_alike_do_not_share_a_folder(tmp_path: Path) -> None:
    names = ["a/b", "a-b", "A-B", "../a", "a b", "root@a-b", "a" * 300, "a" * 301, "ünï"]
    places = {report_folder(tmp_path, "zombie-gpu", n) for n in names}
    assert len(places) == len(names)
    assert all(p.parent == tmp_path / "zombie-gpu" for p in places)


def test_damaged_files_are_passed_over(tmp_path: Path) -> None:
    save(at(1), "x", tmp_path)
    place = report_folder(tmp_path, "zombie-gpu", "node-a")
    (place / "20990101T000000Z-x.json").write_text('{"half": ')
    (place / "20990102T000000Z-x.json").write_bytes(b"\xff\xfe")
    (place / "20990103T000000Z-x.json").write_text("[]")
    (place / ".tmp-1-ab").write_text("{}")
    found = latest(tmp_path, "zombie-gpu", "node-a")
    assert found is not None
    assert found["id"] == "r1"


def test_prune_keeps_the_newest_and_clears_stale_leftovers(tmp_path: Path) -> None:
    for i in range(6):
        save(at(i), "x", tmp_path)
    place = report_folder(tmp_path, "zombie-gpu", "node-a")
    for name, age in ((".tmp-1-old", 7200), (".tmp-2-new", 0)):
        (place / name).touch()
        os.utime(place / name, ((place / name).stat().st_mtime - age,) * 2)
    assert prune(tmp_path, "zombie-gpu", "node-a", 2) == 4
    assert [r["id"] for r in history(tmp_path, "zombie-gpu", "node-a")] == ["r5", "r4"]
    assert len(list(place.glob("*.md"))) == 2
    assert [p.name for p in place.glob(".tmp-*")] == [".tmp-2-new"]
    save(at(9), "x", tmp_path, keep=2)
    assert [r["id"] for r in history(tmp_path, "zombie-gpu", "node-a")] == ["r9", "r5"]


@pytest.mark.parametrize(
    ("lookback_s", "found"), [(0, None), (60, "r8"), (120, "r8"), (150, "r5"), (300, "r5"), (600, "r0"), (9000, "r0")]
)
def test_the_newest_reading_old_enough_bridges_a_limit(tmp_path: Path, lookback_s: float, found: str | None) -> None:
    for minutes in (0, 5, 8, 60):  # 60: from the future, the clock was set back
        save(at(minutes), "x", tmp_path)
    save(at(9, evidence={}), "x", tmp_path)  # a run that read nothing
    earlier = earlier_evidence(tmp_path, "zombie-gpu", "node-a", lookback_s, T0 + timedelta(minutes=10))
    assert (earlier and earlier["id"]) == found


def test_bytes_that_were_no_text_do_not_stop_the_report(tmp_path: Path) -> None:
    saved = save(report(evidence={"name": b"a\xff".decode("utf-8", "surrogateescape")}), "m\udcff", tmp_path)
    assert saved.problems == ()
    found = latest(tmp_path, "zombie-gpu", "node-a")
    assert found is not None
    assert found["evidence"] == {"name": "a?"}


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "zombie-gpu").write_text("")
    saved = save(report(), "x", tmp_path)
    assert saved.record is None
    assert "a file stands where a folder is needed; choose another folder with --out" in saved.problems[0]


@pytest.mark.parametrize(
    ("code", "says"),
    [(errno.ENOSPC, "the disk is full"), (errno.EROFS, "read-only"), (errno.EACCES, "permission denied")],
)
def test_bad_disk_leaves_nothing_half_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, says: str
) -> None:
    def fail(_fd: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", fail)
    saved = save(report(), "x", tmp_path)
    assert (saved.record, saved.markdown) == (None, None)
    assert all(says in p for p in saved.problems)
    assert len(saved.problems) == 2
    assert list(report_folder(tmp_path, "zombie-gpu", "node-a").iterdir()) == []


def test_many_writers_one_target(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        saved = list(pool.map(lambda i: save(at(i), "x" * 1000, tmp_path, keep=10), range(40)))
    assert not [s for s in saved if s.problems]
    kept = list(history(tmp_path, "zombie-gpu", "node-a"))
    assert len(kept) >= 10
    assert json.loads((report_folder(tmp_path, "zombie-gpu", "node-a") / "latest.json").read_text())
