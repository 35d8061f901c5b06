"""A healthy verdict says what it covers, over every runbook; an option that decided nothing is named."""

import re
from pathlib import Path

import pytest

from deployments.cli.run_offline import run_offline
from flows.specs import load_spec
from runbooks.core.covers import with_unused
from runbooks.core.fleet import Fleet, Node
from runbooks.core.knowledge import load_runbook, runbook_slugs
from runbooks.core.outcome import Outcome
from runbooks.core.reading import Known
from runbooks.core.reading_words import label
from runbooks.core.render import render
from runbooks.core.rendezvous_config import Rendezvous
from runbooks.core.verdict import Diagnosis, State
from tasks.context import TrackedOptions
from tests.runbooks.every import situations

ROOT = Path(__file__).resolve().parents[2]
WELL = Diagnosis(state=State.HEALTHY, headline="all is well")


@pytest.mark.parametrize("slug", runbook_slugs())
def test_a_healthy_verdict_names_what_was_read(slug: str) -> None:
    mine = [(c, d) for c in situations() if c.runbook == slug and (d := c.judge()).state is State.HEALTHY]
    assert mine
    for case, found in mine:
        kind = type(case.evidence)
        read = [label(kind, n) for n in kind.model_fields if isinstance(getattr(case.evidence, n), Known)]
        assert re.match(r"read: \w", found.covers), case.title
        assert all(name in found.covers for name in read), case.title
    sick = [d for c in situations() if c.runbook == slug and (d := c.judge()).state is State.UNHEALTHY]
    assert all(d.covers == "" for d in sick)


def test_options_remember_what_was_read() -> None:
    given = TrackedOptions({"a": "1", "b": "2", "c": "3", "d": "", "e": "5"})
    assert given.get("a") == "1"
    assert given["b"] == "2"
    assert given.pop("e") == "5"
    assert given.unread() == ("c",), "what is empty was not given"
    part = given | {"container": "x"}
    assert part["c"] == "3"
    assert given.unread() == ()
    assert part.unread() == ("container",)


def test_an_option_that_decided_nothing_is_named_and_nothing_is_called_healthy() -> None:
    assert with_unused(WELL, ()) == WELL
    found = with_unused(WELL, ("log",))
    assert found.state is State.CANNOT_TELL
    assert "option log was given but not used" in found.headline
    sick = with_unused(WELL.model_copy(update={"state": State.UNHEALTHY}), ("log",))
    assert sick.state is State.UNHEALTHY
    assert "option log" in sick.unknowns[0]


def test_in_a_report(tmp_path: Path) -> None:
    """The target names a run, and the option another: one of the two was dropped."""
    place = Rendezvous(name="etcd-a", endpoints=("127.0.0.1:29499",), backends=("c10d",), nodes=("a",))
    fleet = Fleet(nodes=(Node(name="a", local=True),), rendezvous=(place,))
    spec = load_spec("stale-rendezvous")
    report, _ = run_offline(spec, fleet, "etcd-a/job-1", tmp_path, options={"run": "job-2"})
    assert any("option run was given but not used" in x for x in report.diagnosis.unknowns)
    assert report.diagnosis.state is not State.HEALTHY
    report, _ = run_offline(spec, fleet, "etcd-a", tmp_path, options={"run": "job-2"})
    assert not any("option" in x for x in report.diagnosis.unknowns)
    report, _ = run_offline(load_spec("ray-job"), fleet, "a", tmp_path, options={"job": "raysubmit_1"})
    assert any("option job was given but not used" in x for x in report.diagnosis.unknowns)


def test_the_report_says_what_it_covers(tmp_path: Path) -> None:
    report, _ = run_offline(load_spec("ray-job"), Fleet(nodes=(Node(name="a", local=True),)), "a", tmp_path)
    well = report.model_copy(update={"outcome": Outcome.HEALTHY, "diagnosis": WELL.model_copy(update={"covers": "read: nodes (1 of 1)"})})
    assert "Covers what was read: nodes (1 of 1)." in render(well, load_runbook("ray-job"))
    assert "Covers what was" not in render(report, load_runbook("ray-job"))


def test_every_limit_that_a_file_may_set_decides_something() -> None:
    """A number that nobody reads is an option that is dropped in silence. The engine reads how old an earlier look must be."""
    code = "\n".join(p.read_text(encoding="utf-8") for room in ("runbooks", "tasks") for p in sorted((ROOT / room).rglob("*.py")))
    unread = [f"{slug}: {name}" for slug in runbook_slugs() for name in load_runbook(slug).limits
              if name not in (load_spec(slug).lookback, load_spec(slug).window)
              and not re.search(rf"\.{name}\b|[\"']{name}[\"']|\b{name}=", code)]  # fmt: skip
    assert unread == []
