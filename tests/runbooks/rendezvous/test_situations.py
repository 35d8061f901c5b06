"""Every situation file: what is judged, what is planned, and above all what is left alone."""

from pathlib import Path
from typing import Any

import pytest

from runbooks.core.knowledge import load_runbook
from runbooks.core.verdict import Diagnosis
from runbooks.rendezvous.diagnose import Limits, diagnose
from tests.runbooks.rendezvous.build import evidence
from tests.support.yaml_file import read_yaml_all

HERE = Path(__file__).parent
LIMITS = Limits(**load_runbook("stale-rendezvous").limit_values())


def situations() -> list[Any]:
    """All documents of all files, named `file:title`."""
    return [
        pytest.param(doc, id=f"{path.stem}:{doc['title']}")
        for path in sorted(HERE.glob("*.yaml"))
        for doc in read_yaml_all(path)
    ]


def deleted(d: Diagnosis) -> int:
    """Keys that the first plan deletes."""
    steps = d.plans[0].steps if d.plans else ()
    return sum(len(s.args["keys"]) for s in steps if s.kind == "delete-run-keys")


@pytest.mark.parametrize("doc", situations())
def test_situation(doc: dict[str, Any]) -> None:
    """One situation."""
    d, want = diagnose(evidence(doc["evidence"]), LIMITS), doc["expect"]
    shown = d.model_dump_json(indent=1)
    assert d.state == want["state"], shown
    for cause, line in zip(d.wrong, want.get("causes", []), strict=False):
        slug, certainty, *words = line.split(" ", 2)
        assert (cause.slug, cause.certainty) == (slug, certainty), shown
        assert not words or words[0] in " | ".join(cause.evidence), shown
    assert bool(d.wrong) == bool(want.get("causes")), shown
    assert [c.slug for c in d.causes if c.benign][:1] == want.get("benign", [])[:1] or "causes" in want, shown
    assert [p.name for p in d.plans] == want.get("plans", []), shown
    assert deleted(d) == want.get("deletes", 0), shown
    for words in want.get("decides", []):
        assert words in " | ".join(w for c in d.causes for w in c.decides), shown
    for field in ("must_not", "do_now", "by_hand", "unknowns"):
        for words in want.get(field, []):
            assert words in " | ".join(getattr(d, field)), f"{field}: {words}\n{shown}"
    assert not {c.slug for c in d.causes} & set(want.get("not_causes", [])), shown
    assert d.must_not or d.state == "not-applicable"
    known = load_runbook("stale-rendezvous").causes
    assert all(c.slug in known and c.benign == known[c.slug].benign for c in d.causes)


def test_every_cause_has_a_situation() -> None:
    """Each cause of runbook.yaml is expected at least once."""
    lines = [p.values[0]["expect"] for p in situations()]
    seen = {c.split(" ")[0] for e in lines for c in [*e.get("causes", []), *e.get("benign", [])]}
    assert set(load_runbook("stale-rendezvous").causes) - seen == set()


def test_the_store_goes_first_and_the_rendezvous_key_last() -> None:
    """Dying half-way must leave nothing worse than before."""
    for backend in ({}, {"backend": "etcd", "status": "closed"}):
        d = diagnose(evidence({"run": "job1", "runs": [{"id": "job1", "closed": True, **backend}]}), LIMITS)
        keys = [k for k, _ in d.plans[0].steps[0].args["keys"]]
        guard = d.plans[0].steps[0].args["guard"][0]
        store = [k for k in keys if "/store/" in k or "/kv/" in k]
        assert store
        assert max(keys.index(k) for k in store) < keys.index(guard)
        folders = [k for k, index in d.plans[0].steps[0].args["keys"] if index is None]
        assert all(keys.index(a) < keys.index(b) for a in folders for b in folders if a.startswith(b + "/"))
