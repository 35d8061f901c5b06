"""Healthy beside an error that nothing explains is not healthy: every place where a runbook reads words is tried."""

from collections import Counter
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from runbooks.core.knowledge import load_runbook, runbook_slugs
from runbooks.core.reading import Known
from runbooks.core.verdict import Diagnosis, State
from runbooks.host.evidence import DiskFault
from tests.runbooks.every import Situation, situations

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


def test_an_error_that_only_the_knowledge_base_names_is_told_as_well() -> None:
    """Known to another runbook, and no cause of this judgment."""
    seen = Counter(case.judge(evidence).state for case, evidence in worlds("data-check", "log", NAMED))
    assert set(seen) == {State.CANNOT_TELL}


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
