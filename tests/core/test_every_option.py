"""Every option that a runbook declares, given where it can decide nothing: the report names it, or the run is about what it names."""

from pathlib import Path

import pytest

from deployments.cli.run_offline import run_offline
from flows.specs import load_spec
from runbooks.container.diagnose import Limits, diagnose
from runbooks.container.evidence import Evidence as ContainerEvidence
from runbooks.core.fleet import Fleet, Node
from runbooks.core.knowledge import load_runbook, runbook_slugs
from runbooks.core.report import Report
from runbooks.core.verdict import State
from tasks.container.read import subject
from tasks.context import Context
from tasks.transport.local import LocalHost
from tests.incidents.unseen import _megatron
from tests.runbooks.container import test_situations as containers
from tests.support.situations import merge

HERE = Fleet(nodes=(Node(name="a", local=True),))
UNUSED, NO_ADVICE = "was given but not used", "given, and they decided nothing"
EVERY = {(slug, name) for slug in runbook_slugs() for name in load_runbook(slug).options}
BARE = {  # on a machine of which the fleet file names nothing: what the report says of the option
    **dict.fromkeys([("checkpoint-fallback", "log"), ("checkpoint-fallback", "finite"), ("checkpoint-fallback", "load")], UNUSED),
    ("data-check", "data"): "/no/such.jsonl: it is not there",
    **dict.fromkeys([("data-check", "vocabulary"), ("data-check", "text_key"), ("data-check", "log")], UNUSED),
    ("host-limits", "names"): "no.such.example: ",
    ("memory-pressure", "log"): "/no/such.log",
    **dict.fromkeys([("memory-pressure", n) for n in ("batch", "gpus", "accumulation", "checkpointing")], NO_ADVICE),
    ("ray-job", "job"): UNUSED,
    **dict.fromkeys([("stale-rendezvous", "run"), ("stale-rendezvous", "restore"), ("stale-rendezvous", "symptom")], UNUSED),
    ("stuck-spawning", "wait"): UNUSED,
}
ELSEWHERE = {("container-death", "container"), ("container-death", "remove_kept")}  # tests of their own below
VALUES = {"data": "/no/such.jsonl", "log": "/no/such.log", "names": "no.such.example"}


def value(slug: str, name: str) -> str:
    option = load_runbook(slug).options[name]
    return VALUES.get(name) or (option.choices[0] if option.choices else option.example or "some words")


def told(report: Report) -> str:
    """Headline, findings, and what was not read or used. This machine may have a worse fault at the moment, which leads then."""
    d = report.diagnosis
    return "\n".join((d.headline, *(f.issue for f in d.findings), *d.unknowns))


def run(slug: str, folder: Path, **options: str) -> Report:
    return run_offline(load_spec(slug), HERE, "a", folder, options=dict(options))[0]


def test_every_option_is_tried() -> None:
    assert {*BARE, *ELSEWHERE} == EVERY


@pytest.mark.parametrize(("slug", "name"), list(BARE))
def test_an_option_that_decides_nothing_is_named(slug: str, name: str, tmp_path: Path) -> None:
    report = run(slug, tmp_path, **{name: value(slug, name)})
    words = BARE.get((slug, name), UNUSED)
    lines = [line for line in told(report).splitlines() if words in line]
    assert [line for line in lines if name in line or words not in (UNUSED, NO_ADVICE)]
    assert report.diagnosis.state is not State.HEALTHY


def data(folder: Path, **options: str) -> Report:
    """One of an index and of lines of JSON, both whole."""
    _megatron(folder / "tokens.bin", lengths=[3, 3], documents=[0, 1, 2])
    (folder / "rows.jsonl").write_text('{"text": "a"}\n{"text": "b"}\n')
    return run("data-check", folder / "reports", **options)


def test_a_vocabulary_without_tokens(tmp_path: Path) -> None:
    report = data(tmp_path, data=str(tmp_path / "rows.jsonl"), vocabulary="50257")
    assert f"option vocabulary {UNUSED}" in told(report)
    assert report.diagnosis.state is State.CANNOT_TELL
    assert UNUSED not in told(data(tmp_path, data=str(tmp_path / "tokens.idx"), vocabulary="50257"))


def test_a_text_field_without_rows(tmp_path: Path) -> None:
    assert f"option text_key {UNUSED}" in told(data(tmp_path, data=str(tmp_path / "tokens.idx"), text_key="text"))


def test_a_text_field_with_rows(tmp_path: Path) -> None:
    assert UNUSED not in told(data(tmp_path, data=str(tmp_path / "rows.jsonl"), text_key="text"))


def test_a_container_that_is_named_is_what_the_run_is_about(tmp_path: Path) -> None:
    given = Context(fleet=HERE, target="a", options={"container": "trainer"}, open_host=lambda n: LocalHost(n.name))
    assert subject(given).name == "trainer"


def test_a_removal_of_kept_containers_where_none_is_kept() -> None:
    """What else may keep it from being offered: the situations `kept-*.yaml` of container-death."""
    found = diagnose(
        ContainerEvidence.model_validate(merge(containers.BASE, {"remove_kept": True})),
        Limits(**load_runbook("container-death").limit_values()),
    )
    assert any("remove_kept was given and decides nothing: no replaced container" in f.issue for f in found.findings)
