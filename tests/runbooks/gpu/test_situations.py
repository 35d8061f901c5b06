"""Every situation file: evidence in, causes, plans, kill sets and warnings out."""

from pathlib import Path
from typing import Any

import pytest

from runbooks.core.knowledge import load_runbook
from runbooks.core.verdict import Diagnosis
from tests.runbooks.gpu.build import evidence, judge
from tests.support.yaml_file import read_yaml_all

HERE = Path(__file__).parent


def situations() -> list[Any]:
    """All documents of all files, named `file:title`."""
    found = []
    for path in sorted(HERE.glob("*.yaml")):
        for doc in read_yaml_all(path):
            found.append(pytest.param(doc, id=f"{path.stem}:{doc['title']}"))
    return found


def signalled(d: Diagnosis, kind: str) -> list[int]:
    """PIDs that the first plan with such a step would end, or let go on."""
    plans = [[s for s in p.steps if s.kind == kind] for p in d.plans]
    steps = next(filter(None, plans), [])
    return sorted(p["pid"] for s in steps for p in s.args["processes"])


def killed(d: Diagnosis) -> list[int]:
    """PIDs that would be ended."""
    return signalled(d, "terminate-processes")


@pytest.mark.parametrize("doc", situations())
def test_situation(doc: dict[str, Any]) -> None:
    """One situation."""
    d = judge(evidence(doc["evidence"]), **doc.get("limits", {}))
    want = doc["expect"]
    shown = d.model_dump_json(indent=1)
    assert d.state == want["state"], shown
    for i, line in enumerate(want.get("causes", [])):
        slug, certainty, *words = line.split(" ", 2)
        assert d.causes[i].slug == slug, shown
        assert d.causes[i].certainty == certainty, shown
        assert not words or words[0] in " | ".join(d.causes[i].evidence), shown
    for slug in want.get("not_causes", []):
        assert slug not in [c.slug for c in d.wrong], shown
    assert [p.name for p in d.plans] == want.get("plans", []), shown
    assert killed(d) == want.get("kill", []), shown
    assert signalled(d, "continue-processes") == want.get("continue", []), shown
    assert [p.name for p in d.knowingly] == want.get("knowingly", [p.name for p in d.knowingly]), shown
    moving = {m["pid"] for p in d.knowingly for s in p.steps for m in s.args.get("moving", ())}
    assert sorted(moving) == want.get("moving", []), shown
    steps = [s.kind for s in d.plans[-1].steps] if d.plans else []
    assert steps == want.get("steps", steps), shown
    for field in ("must_not", "do_now", "waiting_costs", "by_hand", "unknowns"):
        for words in want.get(field, []):
            assert words in " | ".join(getattr(d, field)), f"{field}: {words}\n{shown}"
    assert want.get("headline", "") in d.headline, shown
    assert d.must_not, "must_not is never empty"
    assert all(c.evidence for c in d.causes)


def test_every_cause_has_a_situation() -> None:
    """Each cause of runbook.yaml is expected at least once."""
    seen = {line.split(" ")[0] for p in situations() for line in p.values[0]["expect"].get("causes", [])}
    assert set(load_runbook("zombie-gpu").causes) - seen == set()


def test_causes_that_are_judged_are_explained() -> None:
    """A verdict's slug and its innocence agree with runbook.yaml."""
    known = load_runbook("zombie-gpu").causes
    for p in situations():
        for c in judge(evidence(p.values[0]["evidence"])).causes:
            assert known[c.slug].benign == c.benign, c.slug


def test_what_is_only_possible_is_to_be_asked_not_ended() -> None:
    """A process of no job that is idle may be somebody's service: its owner tells. One of a job is still to be ended."""
    held = {"gpus": [{"holders": {460: 8.5}}], "earlier": {"ago_s": 900, "processes": {460: None}}}
    (asked,) = judge(evidence(held | {"processes": [{"pid": 460, "command": "./sim"}]})).findings
    assert "its owner" in asked.action
    assert "End it" not in asked.action
    for alone in (True, False):
        job = {"processes": [{"pid": 460, "job": "train"}], "jobs": [{"single_node": alone}]}
        found = judge(evidence(held | job))
        (ended,) = found.findings
        assert ("End it" in ended.action) is alone, "ranks on other nodes may keep it waiting: it is not ended, in words as little"
        assert any("pid 460 is not ended from here" in line for line in found.do_now) is not alone
