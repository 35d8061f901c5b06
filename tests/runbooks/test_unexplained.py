"""Healthy beside an error that nothing explains is not healthy: every place where a runbook reads words is tried."""

import re
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel, ValidationError

from runbooks.core.knowledge import load_runbook, runbook_slugs
from runbooks.core.reading import Known
from runbooks.core.unexplained import NOT_USED
from runbooks.core.verdict import Diagnosis, State
from runbooks.host.evidence import DiskFault
from runbooks.triage.failing import FailureWords, reporting
from runbooks.triage.probe import Raw
from runbooks.triage.text import failures
from runbooks.triage.words import spelled
from tests.runbooks.every import Situation, situations
from tests.support.cost import cpu_seconds

ROOT = Path(__file__).resolve().parents[2]
DATA, KNOWLEDGE = ROOT / "tests/data", ROOT / "runbooks/knowledge"
FAILS = (
    "CRITICAL engine dead: a worker process died unexpectedly", "thread 'main' panicked at src/main.rs:4:5:",
    "Worker process died unexpectedly", "No such file or directory: 'conf.yaml'", "Error: No such file or directory",
    "could not save checkpoint", "nan loss detected, stopping", "NaN or Inf found in input tensor", "step 40 loss: nan",
    "Process finished with exit code 1", "child exited with status 139", "worker 2 terminated unexpectedly", "core dumped",
    "level=fatal msg=bye", "F1127 09:14:52.113 12 x.cc:12] bye", "error: no space left on device", "can't reach the coordinator",
    "bash: torchrun: command not found", "lost connection to rank 3", "missed heartbeat from 10.0.0.7", "checksum mismatch for shard 7",
    "giving up after 5 attempts", "marked node 10.0.0.7 as dead", "bind: Address already in use", "unexpected EOF", "12 errors, 3 failed",
    "retry 3 of 3 did not succeed, request failed", "DEBUG tunnel failed",
)  # fmt: skip
FINE = (
    "0 errors", "no errors in 24 h", "error_rate=0.0", "error rate: 0.00%", "no error", "errors: 0, failed: 0", "exit code 0", "rc=0",
    "the job ended with exit status 0", "retrying after connection reset: succeeded", "upload failed once, retry 2 of 5 succeeded",
    "0 workers died, 12 completed", "number of nan iterations:   0", "no NaN or Inf found", "unreachable=0    failed=0",
    "worker terminated gracefully", "shutdown as planned", "on_error: stop", "--max-restarts-on-failure=3", "error handler registered",
    "check_for_nan_in_loss_and_grad ....................... True", "will retry if the upload fails", "log level: CRITICAL",
    "cache.json: No such file or directory (optional)", "config not found, using defaults", "loss 2.1, grad norm 0.7", "failed: false",
    '{"error": null, "status": "ok"}', "nothing failed", "dead letter queue is empty", "0 core dumps", "set timeout to 600 s",
    "FATAL:  terminating connection due to administrator command",
)  # fmt: skip
LOUD_BEFORE = 143  # lines of tests/data/{healthy,fine,at_work} that reported a failure by the words of 2026-11-28
ERROR = "2026-05-01 12:00:00 ERROR flux: calibration of the frobnicator failed: fatal error 17"
NAMED = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 60.00 MiB (GPU 0; 11.17 GiB total capacity)"
QUIET = "2026-05-01 12:00:00 INFO epoch 3, loss 2.1"
PLACES = [(slug, path) for slug in runbook_slugs() for path in load_runbook(slug).speaks]


def spoken(value: Any, path: list[str], line: str) -> Any:
    """The evidence with that line at the path; None where this situation has nothing there to write on."""
    if isinstance(value, Known):
        inner = spoken(value.value, path, line)
        return None if inner is None else value.model_copy(update={"value": inner})
    if not path:
        return (*value, line) if isinstance(value, tuple) else f"{value}\n{line}".strip() if isinstance(value, str) else None
    if isinstance(value, tuple):
        first = spoken(value[0], path, line) if value else None
        return None if first is None else (first, *value[1:])
    if not isinstance(value, BaseModel) or path[0] not in type(value).model_fields:
        return None
    inner = spoken(getattr(value, path[0]), path[1:], line)
    return value.model_copy(update={path[0]: inner}) if inner is not None else _read(value, path, line)


def _read(value: BaseModel, path: list[str], line: str) -> Any:
    """The same with a reading that this situation did not have."""
    for text in (line, [line]):
        try:
            new = value.model_dump() | {path[0]: {"kind": "known", "value": text}}
            return type(value).model_validate(new) if len(path) == 1 else None
        except ValidationError:
            continue
    return None


def worlds(slug: str, path: str, line: str) -> list[tuple[Situation, BaseModel]]:
    """Healthy situations of a runbook, each with that line at the place; at most four."""
    mine = [c for c in situations() if c.runbook == slug and c.judge().state is State.HEALTHY]
    said = [(c, spoken(c.evidence, path.split("."), line)) for c in mine]
    return [(c, e) for c, e in said if e is not None][:4]


@pytest.mark.parametrize(("slug", "path"), PLACES, ids=[f"{s}/{p}" for s, p in PLACES])
def test_an_error_that_nothing_explains_is_told_first(slug: str, path: str) -> None:
    tried = worlds(slug, path, ERROR)
    assert len(tried) >= 2
    for case, evidence in tried:
        d = case.judge(evidence)
        if "frobnicator" in str(d.causes):  # the engine's own error about a start is a cause of its own
            assert "frobnicator" in d.headline
            assert d.plans == ()
            continue
        assert d.state is State.CANNOT_TELL, (case.title, d.headline)
        assert "frobnicator" in d.unknowns[0]
        assert "frobnicator" in d.headline
        assert d.plans == ()


@pytest.mark.parametrize(("slug", "path"), PLACES, ids=[f"{s}/{p}" for s, p in PLACES])
def test_ordinary_words_change_nothing(slug: str, path: str) -> None:
    for case, evidence in worlds(slug, path, QUIET):
        if path == "container.error" and case.judge(evidence).causes:
            continue  # the engine writes there only that a start failed, in whatever words
        assert case.judge(evidence).state is State.HEALTHY, case.title


@pytest.mark.parametrize(("slug", "path"), PLACES, ids=[f"{s}/{p}" for s, p in PLACES])
def test_every_form_of_failure_is_told_at_every_place(slug: str, path: str) -> None:
    case, _ = worlds(slug, path, ERROR)[0]
    for line in FAILS:
        d = case.judge(spoken(case.evidence, path.split("."), line))
        assert d.state is not State.HEALTHY, (line, case.title)
        assert d.plans == (), line


@pytest.mark.parametrize(("slug", "path"), PLACES, ids=[f"{s}/{p}" for s, p in PLACES])
def test_benign_lines_with_the_same_words_change_nothing(slug: str, path: str) -> None:
    if path == "container.error":
        return  # the engine writes there only that a start failed, in whatever words
    case, evidence = worlds(slug, path, "\n".join(FINE))[0]
    assert case.judge(evidence).state is State.HEALTHY, case.judge(evidence).headline


@pytest.mark.parametrize("line", FINE)
def test_a_benign_line_reports_nothing(line: str) -> None:
    assert failures(line) == ((), False)


WORDS = FailureWords.model_validate(yaml.safe_load(spelled((KNOWLEDGE / "failure.yaml").read_text(encoding="utf-8"))))


@pytest.mark.parametrize(("name", "line"), [(n, line) for n, r in WORDS.says.items() for line in r.lines])
def test_each_row_of_the_table_finds_its_lines(name: str, line: str) -> None:
    assert re.search(WORDS.says[name].pattern, line)
    assert failures(line)[0]


@pytest.mark.parametrize(("name", "line"), [(n, line) for n, r in WORDS.denies.items() for line in r.lines])
def test_each_row_that_takes_back_finds_its_lines(name: str, line: str) -> None:
    assert re.search(WORDS.denies[name].pattern, line)
    assert [said for slug, said in failures(line)[0] if not slug] == []


def test_false_alarms_on_the_files_of_what_is_well_do_not_rise() -> None:
    """Line by line, as nothing around it would have told: the recordings and texts of tests/data that show no fault."""
    reports = reporting(*WORDS.patterns)
    says = [re.compile(r.pattern) for r in WORDS.says.values()]
    files = [f for room in ("healthy", "fine", "at_work") for f in (DATA / room).rglob("*") if f.is_file()]
    raws = [Raw("", 0, 0, line) for f in files for line in f.read_bytes().splitlines()]
    loud = [r.certain for r in raws if not r.frame and any(p.search(r.certain) for p in says) and reports(r.certain)]
    assert len(raws) > 3000
    assert len(loud) <= LOUD_BEFORE


def test_a_real_failure_among_many_benign_lines_of_its_kind_is_found() -> None:
    calm = [f"step {n}: errors: 0, failed: 0" for n in range(200)]
    assert failures("\n".join((*calm, "the third request failed", *calm)))[0] == (("", "the third request failed"),)


SHOWN_OF = [(3, ""), (4, "and 1 more line of"), (8, "and 5 more lines of"), (30, "and at least 13 more lines of")]


@pytest.mark.parametrize(("count", "words"), SHOWN_OF)
def test_beside_a_fault_the_lines_not_shown_are_counted(count: int, words: str) -> None:
    said = "\n".join(f"ERROR flux: frobnicator {chr(97 + n // 6)}{chr(97 + n % 6)} failed" for n in range(count))
    seen = []
    sick = [c for c in situations() if c.runbook == "zombie-gpu" and c.judge().state is State.UNHEALTHY]
    for case in sick:
        if (new := spoken(case.evidence, ["log"], said)) is not None:
            left = [f.issue for f in case.judge(new).findings if f.category == NOT_USED]
            mine = [x for x in left if "frobnicator" in x]
            if mine:
                seen.append((len(mine), [x for x in left if "more line" in x]))
    assert seen
    for shown, rest in seen:
        assert shown == 3
        assert len(rest) == bool(words)
        assert all(words in x for x in rest)


def test_an_error_that_only_the_knowledge_base_names_is_told_as_well() -> None:
    """Known to another runbook, and no cause of this judgment."""
    seen = Counter(case.judge(evidence).state for case, evidence in worlds("data-check", "log", NAMED))
    assert set(seen) == {State.CANNOT_TELL}


def test_beside_a_named_error_another_one_is_told_as_well() -> None:
    """Healthy is neither; of a fault the second line is read and not used."""
    for case, evidence in worlds("data-check", "log", f"{NAMED}\n{ERROR}"):
        d = case.judge(evidence)
        assert d.state is State.CANNOT_TELL
        assert [words for words in ("CUDA out of memory", "frobnicator") if not any(words in u for u in d.unknowns)] == [], case.title
    listed = []
    for case in [c for c in situations() if c.runbook == "zombie-gpu" and c.judge().state is State.UNHEALTHY]:
        if (new := spoken(case.evidence, ["log"], f"{NAMED}\n{ERROR}")) is not None:
            d = case.judge(new)
            assert [(c.slug, c.certainty) for c in d.causes] == [(c.slug, c.certainty) for c in case.judge().causes]
            listed.append(any("frobnicator" in f.issue for f in d.findings if f.category == NOT_USED))
    assert listed
    assert all(listed)


def test_the_runbooks_that_read_words_say_where() -> None:
    assert {slug for slug, _ in PLACES} >= {
        "container-death", "ray-job", "stuck-spawning", "checkpoint-fallback", "data-check", "memory-pressure", "stale-rendezvous",
    }  # fmt: skip


JUDGED = [  # words that are never handed to the knowledge base: whatever they say is a cause or an unknown of its own
    ("distributed-setup", "nodes.facts.versions_error"),
    ("distributed-setup", "nodes.facts.peers.error"),
    ("host-limits", "names.said"),
]


@pytest.mark.parametrize(("slug", "path"), JUDGED, ids=[f"{s}/{p}" for s, p in JUDGED])
def test_words_with_a_judge_of_their_own_are_never_healthy(slug: str, path: str) -> None:
    tried = worlds(slug, path, ERROR)
    assert len(tried) >= 2
    for case, evidence in tried:
        _told(case.judge(evidence), case.title)


@pytest.mark.parametrize("reading", ["failed", "smart"])
def test_a_disk_s_own_words_are_never_healthy(reading: str) -> None:
    for case in [c for c in situations() if c.runbook == "host-limits" and c.judge().state is State.HEALTHY][:4]:
        said = Known[tuple[DiskFault, ...]](value=(DiskFault(subject="/data", said=ERROR),))
        _told(case.judge(case.evidence.model_copy(update={reading: said})), case.title)


def _told(d: Diagnosis, title: str) -> None:
    assert d.state is not State.HEALTHY, title
    assert "frobnicator" in str((d.causes, d.unknowns)), title


LONG_LINES = ["a" * 8000, "0" * 8000, "a.b." * 2000, "a=0 " * 2000, " " * 8000, "(" * 8000] + [
    word * (8000 // len(word)) for word in ("error ", "no ", "queue ", "no error, ", "level=", "exit code ", "error: 0 ", "lost count ")
]


def test_no_word_of_the_table_takes_long_on_a_long_line() -> None:
    """A row whose time grows with the square of the line takes seconds here."""
    slow = {
        (name, line[:10])
        for name, row in (*WORDS.says.items(), *WORDS.denies.items())
        for line in LONG_LINES
        if cpu_seconds(partial(re.sub, row.pattern, " ", line), enough=0.3) > 1.5
    }
    assert slow == set()
