"""Prohibitions as data: over every situation, no report offers what one of its own causes forbids."""

import re
from collections import Counter
from functools import cache

import pytest

from flows.engine.actions import ACTIONS
from runbooks.core.forbidden import allowed, is_about, objection
from runbooks.core.knowledge import load_runbook, runbook_slugs
from runbooks.core.plan import Step
from runbooks.core.verdict import Cause, Certainty, Diagnosis, Finding
from tests.runbooks.every import situations

FORBIDDING = [(slug, name) for slug in runbook_slugs() for name, c in load_runbook(slug).causes.items() if c.forbids or c.forbids_on_it]


@cache
def offered() -> tuple[tuple[str, Diagnosis], ...]:
    """(runbook, diagnosis without its causes and findings) of every situation with a plan."""
    judged = [(case.runbook, case.judge()) for case in situations()]
    return tuple((slug, d.model_copy(update={"causes": (), "findings": ()})) for slug, d in judged if d.plans)


def test_what_is_forbidden_is_an_action() -> None:
    for slug in runbook_slugs():
        for name, cause in load_runbook(slug).causes.items():
            assert {*cause.forbids, *cause.forbids_on_it} <= set(ACTIONS), (slug, name)


def test_no_report_offers_what_it_forbids() -> None:
    withheld: Counter[str] = Counter()
    books = {slug: load_runbook(slug) for slug in runbook_slugs()}
    for case in situations():
        found, book = case.judge(), books[case.runbook]
        assert [p.name for p in found.plans if objection(book, found, p)] == [], (case.runbook, case.title)
        withheld[case.runbook] += any(" forbids " in line for line in found.do_now)
    assert len(offered()) >= 100
    assert withheld["container-death"] >= 5, "the rule is met by situations that would offer something"
    assert withheld["stuck-spawning"] >= 1


@pytest.mark.parametrize(("slug", "name"), FORBIDDING, ids=[f"{s}/{n}" for s, n in FORBIDDING])
def test_each_prohibition_takes_the_plan_away(slug: str, name: str) -> None:
    """That cause beside any plan of its runbook: every plan with such a step goes and is named, every other stays."""
    book = load_runbook(slug)
    known = book.causes[name]
    for found in (d for mine, d in offered() if mine == slug):
        told = Cause(slug=name, certainty=Certainty.LIKELY, subject="something else", evidence=("as read",))
        after = allowed(book, found.model_copy(update={"causes": (told,)}))
        kept = tuple(p for p in found.plans if not {s.kind for s in p.steps} & set(known.forbids))
        assert after.plans == kept
        assert all(any(p.name in line and known.title in line for line in after.do_now) for p in found.plans if p not in kept)
        ruled_out = told.model_copy(update={"certainty": Certainty.RULED_OUT})
        assert allowed(book, found.model_copy(update={"causes": (ruled_out,)})).plans == found.plans
        said = Finding(priority="HIGH", category=f"{slug}/{name}", issue="its log says so", action="look")
        assert allowed(book, found.model_copy(update={"causes": (), "findings": (said,)})).plans == kept


def test_a_prohibition_of_one_thing_leaves_the_others() -> None:
    book = load_runbook("zombie-gpu")
    mine = [d for slug, d in offered() if slug == "zombie-gpu"]
    found = next(d for d in mine if any(s.kind == "terminate-processes" for p in d.plans for s in p.steps))
    pid = next(p["pid"] for plan in found.plans for s in plan.steps for p in s.args.get("processes", ()))
    for subject, stays in ((f"pid {pid} on GPU 0", False), ("pid 99999 on GPU 0", True)):
        told = Cause(slug="writing-checkpoint", certainty=Certainty.CONFIRMED, subject=subject, evidence=("it writes",), innocent=True)
        kept = allowed(book, found.model_copy(update={"causes": (told,)})).plans
        assert any(s.kind == "terminate-processes" for p in kept for s in p.steps) is stays


def test_a_step_is_about_what_its_arguments_name() -> None:
    step = Step(kind="x", owner="pod:p1", args={"pod": "p1", "n": [{"pid": 46}], "argv": ["kill", "460"]}, commands=(), effect="")
    for subject, is_it in (("pod p1", True), ("pid 46 on GPU 0", True), ("pid 460", False), ("pid 4", False), ("worker w1", False)):
        cause = Cause(slug="c", certainty=Certainty.CONFIRMED, subject=subject, evidence=())
        assert is_about(cause, step) is is_it, subject


@pytest.mark.parametrize(("args", "is_it"), [({"backend": "etcd-v2"}, True), ({"backend": "etcd"}, False), ({}, True)])
def test_a_step_on_a_namesake_of_the_subject_is_not_about_it(args: dict[str, str], is_it: bool) -> None:
    cause = Cause(
        slug="c", certainty=Certainty.CONFIRMED, subject="run job (etcd-v2)", evidence=(), told_apart=(("backend", "etcd-v2"),)
    )
    step = Step(kind="x", owner="t", args={"run": "job"} | args, commands=(), effect="")
    assert is_about(cause, step) is is_it


def test_each_run_of_a_rendezvous_is_told_from_its_namesake_by_its_backend() -> None:
    causes = {c for case in situations() if case.runbook == "stale-rendezvous" for c in case.judge().causes}
    found = {(c.subject, c.told_apart) for c in causes if c.subject.startswith("run ") and c.subject.endswith(")")}
    assert len(found) > 3
    assert {(s, a) for s, a in found if a != (("backend", s.rpartition("(")[2].rstrip(")")),)} == set()


ORDERS = {  # kind -> how a prohibition that names it begins
    "recreate-container": r"recreate\b",
    "restart-container": r"restart (?:the|a|that|its) container",
    "restart-application": r"restart (?:the|its) application",
    "delete-run-keys": r"delete (?:(?:its|the|rendezvous|the shared id's) )?keys|delete anything|delete a run\b",
    "terminate-pod": r"(?:terminate|end|delete) (?:the|its|a|that|any)(?: \w+)? pods?\b",
    "stop-pod": r"stop (?:the|its|a|that|any)(?: \w+)? pods?\b",
    "stop-ray-job": r"stop (?:the|its|that) job",
    "restart-raylet": r"(?:re)?start (?:the|a|another|its) raylet",
    "reset-gpu": r"reset (?:the|that|a|its) gpu|reset (?:it|or drain|because the table)\b",
    "quarantine-checkpoint": r"(?:quarantine|rename|set aside|set it aside)\b",
    "prune-checkpoints": r"(?:delete|prune)\b.*\bcheckpoints?\b",
    "terminate-processes": r"(?:kill|end|terminate) (?:it|its|the process|the job|that process|them|the holder|the worker|anything)\b",
    "mark-worker-row": r"mark (?:the|its) row|set the row",
    "start-worker": r"start (?:it|the worker|another|a worker)\b",
}
AGED = "it is not pruned by age: those that must stay are proven again"
TO_ITS_NAME = "quarantine renames aside, never to a name that a loader takes"
SHARERS = "no reset is planned while a process has device files open, or while that could not be read"
ALL_DEAD = "keys are only deleted where everything that holds the run is proven dead"
NOT_THAT = {  # (cause, kind): what the plan of that kind does instead, so that the prohibition is kept
    ("truncated-by-full-disk", "prune-checkpoints"): AGED,
    ("killed-mid-save", "quarantine-checkpoint"): TO_ITS_NAME,
    ("pointer-wrong", "quarantine-checkpoint"): TO_ITS_NAME,
    ("copy-unfinished", "quarantine-checkpoint"): TO_ITS_NAME,
    ("defunct-keeps-memory", "reset-gpu"): SHARERS,
    ("memory-without-holder", "reset-gpu"): SHARERS,
    ("master-wrong", "delete-run-keys"): ALL_DEAD,
    ("worker-not-started", "start-worker"): "it is planned only where the pod's own processes were watched and none is at work",
}


def test_a_prohibition_in_words_is_data_as_well() -> None:
    """Whatever a cause's words forbid, of what its runbook can do, no plan beside it does; or it stands here why not."""
    named: set[tuple[str, str]] = set()
    for slug in runbook_slugs():
        book = load_runbook(slug)
        pairs = ((n, k) for n, c in book.causes.items() for k in ORDERS if any(re.match(ORDERS[k], m, re.IGNORECASE) for m in c.must_not))
        named |= {(n, k) for n, k in pairs if k in book.actions and k not in (*book.causes[n].forbids, *book.causes[n].forbids_on_it)}
    assert named == set(NOT_THAT)
