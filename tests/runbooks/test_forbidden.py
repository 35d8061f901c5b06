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
from runbooks.gpu.plans import HARDWARE
from runbooks.triage.load import library
from tests.runbooks.every import situations
from tests.support.orders import ITS, KEEPS, NEVER, NO_STEP_DOES_SO, ORDERS, Used, named, orders

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
        told = Cause(slug="writing-checkpoint", certainty=Certainty.CONFIRMED, subject=subject, evidence=("it writes",), benign=True)
        kept = allowed(book, found.model_copy(update={"causes": (told,)})).plans
        assert any(s.kind == "terminate-processes" for p in kept for s in p.steps) is stays


def test_a_checkpoint_that_may_be_whole_is_not_set_aside() -> None:
    book = load_runbook("checkpoint-fallback")
    mine = [d for slug, d in offered() if slug == "checkpoint-fallback"]
    found = next(d for d in mine if any(s.kind == "quarantine-checkpoint" for p in d.plans for s in p.steps))
    name = next(s.args["name"] for p in found.plans for s in p.steps if s.kind == "quarantine-checkpoint")
    for subject, stays in ((f"/ckpt/{name}", False), ("/ckpt/another", True)):
        told = Cause(slug="parts-on-hosts", certainty=Certainty.LIKELY, subject=subject, evidence=("as read",))
        kept = allowed(book, found.model_copy(update={"causes": (told,)})).plans
        assert any(s.kind == "quarantine-checkpoint" for p in kept for s in p.steps) is stays


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


ONLY_FOR = {  # what a plan of that kind answers, whatever else is found
    "free-engine-space": {"disk-full"},
    "prune-checkpoints": {"disk-full", "inodes-full", "quota", "reserved-blocks"},
    "quarantine-node": set(HARDWARE),
    "reset-gpu": {"gpu-needs-reset"},
}


@cache
def by_judges() -> tuple[tuple[str, str, Diagnosis], ...]:
    """(runbook, prohibition, report) of what the judges' code forbids, beside what stands in runbook.yaml."""
    written = {slug: {m for c in load_runbook(slug).causes.values() for m in c.must_not} for slug in runbook_slugs()}
    judged = [(case.runbook, case.judge()) for case in situations()]
    return tuple((slug, m, found) for slug, found in judged for m in found.must_not if m not in written[slug])


def test_every_kind_has_an_order() -> None:
    """A new kind comes with the words by which a prohibition names it."""
    assert set(ORDERS) == set(ACTIONS)
    assert [kind for kind, rows in ORDERS.items() if set(rows) == {NEVER}] == []
    assert {*KEEPS, *ITS, *ONLY_FOR} <= set(ACTIONS)


def test_an_order_is_told_from_its_reason() -> None:
    assert orders("stop or resubmit a job: it may run on") == ["stop a job", "resubmit a job"]
    assert orders("Do not clean keys, and do not restart the job (why)") == ["clean keys", "restart the job"]
    used: Used = set()
    assert named("ray-job", "stop or resubmit a job: it may run on", used) == {"stop-ray-job", "restart-job"}
    assert named("memory-pressure", "kill other processes", used) == set()
    assert named("stale-rendezvous", "delete its keys, or only the rendezvous key", used) == set()
    assert {kind for kind, _ in used} == {"", "delete-run-keys"}


def test_a_prohibition_in_words_is_data_as_well() -> None:
    """What the words of any runbook or family forbid, of what any runbook can do, is data, or it stands here why no plan does it."""
    used: Used = set()
    missing = set()
    for rule in library().causes:
        known = rule.cause
        slug = rule.family if rule.family in runbook_slugs() else known.runbook
        kinds = {(kind, m) for m in known.must_not for kind in named(slug, m, used)}
        missing |= {(rule.family, rule.slug, kind, m) for kind, m in kinds if kind not in (*known.forbids, *known.forbids_on_it)}
    assert missing == set()
    for slug, words, _ in by_judges():
        named(slug, words, used)
    rows = {(kind, words) for kind, kept in KEEPS.items() for words, _ in kept} | {("", manner) for manner in NO_STEP_DOES_SO}
    assert used == rows, "a row that takes nothing away"


def test_no_plan_does_what_a_judge_forbids() -> None:
    """What the code of a judge says in words, in the same report: of exactly the processes that it names, where it names some."""
    wrong, seen = set(), Counter[str]()
    for slug, words, found in by_judges():
        kinds = named(slug, words, set())
        seen.update(kinds)
        for step in (s for plan in found.plans for s in plan.steps if s.kind in kinds):
            pids = re.search(r"\bpid (\d+(?:, \d+)*)", words)
            of_it = [is_about(_pid(p), step) for p in pids[1].split(", ")] if pids else [True]
            wrong |= {(slug, words, step.kind)} if any(of_it) else set()
    assert wrong == set()
    assert seen["terminate-processes"] >= 50, "prohibitions by code are looked at"


def _pid(pid: str) -> Cause:
    return Cause(slug="c", certainty=Certainty.CONFIRMED, subject=f"pid {pid}", evidence=())


def test_what_is_planned_for_one_thing_only() -> None:
    seen: Counter[str] = Counter()
    for _, found in offered():
        for plan in found.plans:
            for kind in {s.kind for s in plan.steps} & set(ONLY_FOR):
                seen[kind] += 1
                assert ONLY_FOR[kind] & set(plan.for_causes), (kind, plan.for_causes)
    assert set(seen) == set(ONLY_FOR)


def test_what_is_withheld_is_not_left_to_type() -> None:
    """The commands of a plan that is forbidden do not stand under "by hand" either, unless a plan that is offered has them."""
    book, seen = load_runbook("zombie-gpu"), 0
    told = Cause(slug="gpu-off-the-bus", certainty=Certainty.CONFIRMED, subject="GPU 3", evidence=("as read",))
    for found in (d for mine, d in offered() if mine == "zombie-gpu"):
        typed = {c for p in found.plans for s in p.steps if s.kind == "terminate-processes" for c in s.commands} & set(found.by_hand)
        after = allowed(book, found.model_copy(update={"causes": (told,)}))
        assert not typed & set(after.by_hand)
        assert set(found.by_hand) - set(after.by_hand) <= {c for p in found.plans for s in p.steps for c in s.commands}
        seen += bool(typed)
    assert seen >= 3


def test_what_a_text_says_of_another_subject_forbids_as_well() -> None:
    """The log of a job on a GPU node: a cause of another runbook, and one that only a family knows."""
    book = load_runbook("zombie-gpu")
    restart = [d for mine, d in offered() if mine == "zombie-gpu" and any(s.kind == "restart-job" for p in d.plans for s in p.steps)]
    found = next(d for d in restart if any(s.kind == "terminate-processes" for p in d.plans for s in p.steps))
    for category, gone in (
        ("ray-job/loss-nan", True), ("checkpoint/save-failed-writing", True), ("ray-job/nobody", False), ("History", False),
    ):  # fmt: skip
        said = Finding(priority="HIGH", category=category, issue="its log says so", action="look")
        kept = allowed(book, found.model_copy(update={"findings": (said,)})).plans
        assert any(s.kind == "restart-job" for p in kept for s in p.steps) is not gone, category
        assert any(s.kind == "terminate-processes" for p in kept for s in p.steps)


@pytest.mark.parametrize(
    ("subject", "is_it"), [("/ckpt/step-5.pt", True), ("s3://b/step-5.pt", True), ("/ckpt/step-50.pt", False), ("/mnt/nvme", False)]
)
def test_a_checkpoint_is_named_by_its_name_in_its_folder(subject: str, is_it: bool) -> None:
    args = {"node": "n1", "tier": "nvme", "name": "step-5.pt", "to": "step-5.pt.bad", "identity": "a", "keep": [{"name": "step-50.pt"}]}
    step = Step(kind="x", owner="n1", args=args, commands=(), effect="")
    assert is_about(Cause(slug="c", certainty=Certainty.CONFIRMED, subject=subject, evidence=()), step) is is_it
