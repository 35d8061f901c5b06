"""Every situation of a node's limits: laid over a node on which all was read and nothing is near a limit."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from runbooks.core.knowledge import load_runbook
from runbooks.core.unread import readings_of
from runbooks.core.verdict import Diagnosis
from runbooks.host.diagnose import OF, Limits, diagnose
from runbooks.host.evidence import Evidence
from runbooks.triage.text import judge_text
from tests.support.yaml_file import read_yaml_all

BOOK = load_runbook("host-limits")
LIMITS = Limits(**BOOK.limit_values())
WELL: dict[str, Any] = {
    "files": [{"subject": "this machine", "of": "open files", "used": 900, "limit": 100000, "setting": "fs.file-max"}],
    "threads": [], "locked": [], "shm": [], "inotify": [], "clock": {"least_s": -0.2, "most_s": 0.3},
    "names": [{"name": "n1", "why": "launch train", "said": "resolved"}],
    "disks": [{"subject": "/", "of": "bytes", "used": 100 << 20, "limit": 100 << 30, "setting": "the size of /dev/vda (ext4)"}],
    "failed": [], "smart": [], "keeper": {"kept": True},
}  # fmt: skip
DOCS = read_yaml_all(Path(__file__).parent / "situations.yaml")


def judge(given: dict[str, Any]) -> Diagnosis:
    """The diagnosis of one situation."""
    return diagnose(evidence(given), LIMITS)


def evidence(given: dict[str, Any]) -> Evidence:
    """The evidence of one situation."""
    unread = given.get("unread", [])
    over = {k: v for k, v in given.items() if k in WELL}
    read: dict[str, Any] = {k: {"kind": "known", "value": v} for k, v in (WELL | over).items()}
    if "all" in given:
        read = {k: {"kind": "unknown", "reason": given["all"]} for k in WELL}
    at = datetime(2026, 5, 1, tzinfo=UTC)
    return Evidence.model_validate({"node": "a", "taken_at": at, "unread": unread, "before": given.get("before"), **read})


@pytest.mark.parametrize("doc", [pytest.param(d, id=d["title"]) for d in DOCS])
def test_situation(doc: dict[str, Any]) -> None:
    got, want = judge(doc.get("evidence", {})), doc["expect"]
    shown = got.model_dump_json(indent=1)
    assert got.state == want["state"], shown
    assert [f"{c.slug} {c.certainty}" for c in got.causes] == want.get("causes", []), shown
    assert got.must_not, shown
    assert set(want.get("unknowns", [])) <= set(got.unknowns), shown
    assert bool(got.unknowns) is bool(want.get("unknowns")), shown
    said = {"headline": [got.headline], "by_hand": got.by_hand, "must_not": got.must_not}
    said["findings"] = [f.issue for f in got.findings]
    said["says"] = [w for c in got.causes for w in c.evidence]
    assert [k for k, words in said.items() if want.get(k, "") not in "\n".join(words)] == [], shown
    assert sum("proof afterwards" in line for line in got.by_hand) == len(got.causes), shown


def test_the_situations_hold_every_cause() -> None:
    told = {c.split()[0] for d in DOCS for c in d["expect"].get("causes", []) if c.endswith("confirmed")}
    assert told == set(BOOK.causes)
    assert set(OF.values()) < set(BOOK.causes)
    assert set(WELL) == {x.path for x in readings_of(evidence({}))}


@pytest.mark.parametrize(
    ("line", "runbook"),
    [
        ("OSError: [Errno 24] Too many open files: '/dev/null'", "host-limits"),
        ("RuntimeError: can't start new thread", "host-limits"),
        ("RuntimeError: DataLoader worker (pid 42) is killed by signal: Bus error.", "host-limits"),
        ("libibverbs: Warning: RLIMIT_MEMLOCK is 65536 bytes.", "host-limits"),
        ("std::bad_alloc", "memory-pressure"),
        ("ModuleNotFoundError: No module named 'flash_attn'", ""),
    ],
)
def test_triage_of_a_text_points_to_the_runbook_that_can_decide_it(line: str, runbook: str) -> None:
    assert judge_text(line)[0].runbook == runbook


def test_forty_alike_are_told_as_five_and_the_rest() -> None:
    one = {"of": "open files", "used": 64, "limit": 64, "setting": "its soft limit"}
    got = judge({"files": [one | {"subject": f"pid {n} (x)", "pid": n} for n in range(2, 42)]})
    assert len(got.causes) == 5
    assert got.causes[-1].evidence[-1] == "and 35 more like it"
    same = {"subject": "user 7", "of": "threads", "used": 99, "limit": 100, "setting": "its soft limit"}
    assert len(judge({"threads": [same | {"pid": n} for n in range(2, 42)]}).causes) == 1
