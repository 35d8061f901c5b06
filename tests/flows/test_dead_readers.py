"""No verdict outlives its reading: readers hang, go blank or freeze, or the sweep stands still, while everything else lives.

Of each outage: nothing would be done, nothing is called healthy or wrong by what the dead reader said, and what came from it is
shown as unread or stale within two periods of the schedule, on the page, in its headline and in `status`.
"""

import random
import re
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from flows.engine.actions import risks
from flows.engine.gate import Decision, decide
from runbooks.container.parsers import docker
from runbooks.core.confirmed import OWN
from runbooks.core.knowledge import CauseKnowledge, load_runbook
from runbooks.core.outcome import Outcome
from runbooks.core.policy import KindPolicy, Mode, Policy
from runbooks.core.reading import Unknown
from runbooks.core.unread import Lost, unread
from runbooks.core.verdict import Cause, Certainty, Diagnosis, State
from tasks.rendezvous.etcd import parse_facts
from tests.runbooks.test_raw_answers import CONTEXT, LISTS, PLACE, _got, _inspected, _of_engine, _smi
from tests.support.outages import DEATHS, Fleetlet, Look, a_fleet, a_place, alive, seen_at
from tests.support.soak import record

SHORT, LONG = 24, 1000
SEED = 20261130
PART = re.compile(r"^## (.+)$", re.M)
FREE = Policy(mode=Mode.AUTO, kinds={kind: KindPolicy(mode=Mode.AUTO, cooldown_s=0) for kind in risks()})
"""Every kind is automatic: what is not done is left out for want of a reading, and for nothing else."""
SECOND = timedelta(seconds=1)
BLANK_IS_AN_ANSWER = {
    "docker events": "it prints nothing where nothing happened",
    "docker system df": "it prints nothing where the engine has nothing",
}
"""Readers whose empty answer is a true one, and why: these alone cannot be told from a reader that went blank."""
NOT_RECOGNISED = (
    "an old answer under a new time: our reader asks anew, but the other side (a dashboard with a cache, a database replica that lags) "
    "says what it said before, and its answer names no time of its own that could be compared"
)
"""The one way of freezing that no look can tell from a world in which nothing has changed."""


def parts(page: str) -> dict[str, str]:
    """The page's parts by their headings."""
    _, *found = PART.split(page)
    return dict(zip(found[::2], found[1::2], strict=True))


def rows(node: str, part: str) -> list[str]:
    return [line for line in part.splitlines() if line.startswith(f"| {node} |")]


def acts(found: Diagnosis, f: Fleetlet) -> bool:
    """Whether the gate would let a plan be carried out with nobody asked."""
    return decide(found, Mode.AUTO, FREE, risks(), (), f.now).decision is Decision.ACT


def needs(known: CauseKnowledge, plan: bool) -> tuple[str, ...]:
    return (*known.rests_on, *known.excluded_by.values(), *(known.plan_needs if plan else ()))


def rests_on(lost: tuple[Lost, ...], cause: Cause, groups: tuple[str, ...]) -> Iterator[str]:
    """Of what the cause needs, what the dead reader alone would have told. "a or b": one is enough."""
    for group in groups:
        dead = [any(_same(x, path, cause) for x in lost) for path in group.split(" or ")]
        if all(dead):
            yield group


def _same(lost: Lost, path: str, cause: Cause) -> bool:
    one_of_many = OWN in path or lost.path.count("[]") < len(lost.items)
    return lost.path == path.replace(OWN, "[]") and (not one_of_many or any(item in cause.subject for item in lost.items))


def wrongly_judged(f: Fleetlet, look: Look, whole: bool) -> Iterator[str]:
    """What the look says that only the dead reader could have told."""
    found, before = look.found, look.before
    if whole:
        if look.result.outcome is not Outcome.CANNOT_TELL or found.plans or found.causes:
            yield f"the whole target gave no answer: {look.result.outcome}, {found.plans}"
        return
    full = {(x.path, x.items) for x in unread(f.world(look.result.node))}
    lost = tuple(x for x in unread(look.evidence) if (x.path, x.items) not in full)
    if not lost:
        yield "the dead reader is not noticed"
    book = load_runbook(look.result.runbook)
    if found.state is State.NOT_APPLICABLE and before.state is not State.NOT_APPLICABLE:
        yield "not applicable by a dead reader"
    if found.state is State.HEALTHY:
        covers = [book.may_be_unread.get(x.path) for x in lost]
        blind = {x.path for x in unread(look.evidence)}
        if not all(c and not c.if_not_asked and not blind & set(c.covered_by) for c in covers):
            yield f"healthy, though {[x.path for x in lost]} is dead and nothing covers it"
        if not all(any(x.why in u for u in found.unknowns) for x in lost):
            yield "healthy, and the dead reader is not named"
    for cause in found.causes:
        known = book.causes.get(cause.slug)
        if cause.certainty is Certainty.CONFIRMED and known and (gap := list(rests_on(lost, cause, needs(known, plan=False)))):
            yield f"{cause.slug} is confirmed, and rests on {gap}"
        credible = cause in found.wrong and cause.certainty is not Certainty.POSSIBLE
        if before.state is State.HEALTHY and credible and not _silence(cause, lost):
            yield f"{cause.slug} is new, and does not tell of the silence"
    for plan in found.plans:
        for cause in (c for c in found.causes if c.slug in plan.for_causes and c.certainty is not Certainty.RULED_OUT):
            if gap := list(rests_on(lost, cause, needs(book.causes[cause.slug], plan=True))):
                yield f"plan {plan.name} is offered, and rests on {gap}"


def _silence(cause: Cause, lost: tuple[Lost, ...]) -> bool:
    """The silence itself is the symptom: it is cited, and confirms nothing."""
    return cause.certainty is not Certainty.CONFIRMED and any(x.reading.detail in " ".join(cause.evidence) for x in lost)


def wrongly_shown(f: Fleetlet, node: str) -> Iterator[str]:
    """Where the page, its headline or `status` still show as known what came from the dead reader of that node."""
    page = f.page()
    found = parts(page)
    if rows(node, found.get("What is well", "")):
        yield "the page calls it well"
    if rows(node, found["What is wrong now"]):
        yield "the page calls it wrong now"
    if not rows(node, found["What has not been read"]):
        yield "the page does not say that it is not read"
    counted = re.search(r"(\d+) (?:that could not be judged|not read any more)", page)
    if not counted:
        yield "the headline does not count it"
    mine = [line for line in f.status() if line.strip().startswith(f"{node} (")]
    if not mine or not all("cannot tell" in line.lower() or "not read since" in line for line in mine):
        yield f"status says {mine}"


def truly_shown(f: Fleetlet, node: str) -> Iterator[str]:
    """The living ones go on being shown as they are: a page that calls everything stale proves nothing."""
    outcome = f.looks[node].result.outcome
    part = "What is well" if not outcome.exit_code else "What is wrong now" if outcome.row.wrong else "What has not been read"
    line = "".join(rows(node, parts(f.page())[part]))
    if f"| {outcome.row.name.lower()} |" not in line or "not read since" in line:
        yield f"{node} lives and is {outcome}, but the page says {line!r}"


def told(f: Fleetlet, node: str, message: str) -> Iterator[str]:
    """What the night's message and its comparison say of the node whose reader is dead."""
    still = [t for t in f.nights[0].troubles if t.node == node and t.change in ("new", "persisting", "flapping", "first", "gone")]
    if still:
        yield f"compared as if it had been read: {still}"
    if f"{node}: " not in message:
        yield f"the message does not name it: {message}"


def outage(seed: int, folder: Path, count: Counter[str]) -> list[str]:
    """One outage, from the last living sweep to the first one after it. Returns what was wrong."""
    dice = random.Random(seed)
    with a_fleet(dice, folder) as f:
        f.sweep_all()
        dead, others = (names := dice.sample(sorted(f.cases), len(f.cases)))[0], names[1:]
        case = f.cases[dead]
        death = dice.choice([*DEATHS, "stands still", "is slow"])
        count[death] += 1
        wrong = [*_living(f, names)]
        if death in DEATHS:
            place = a_place(dice, f.last[dead])
            count["of the whole target" if not place else "of one reading"] += 1
            f.readers[dead] = DEATHS[death](place)
            for _ in range(dice.randint(1, 3)):
                f.now += f.every
                message = f.sweep_all()
                look = f.looks[dead]
                count["looks by a dead reader"] += 1
                count[f"{look.result.outcome}"] += 1
                count["actions"] += not place and acts(look.found, f)
                wrong += wrongly_judged(f, look, whole=not place)
                wrong += _living(f, others)
                f.now += dice.random() * f.every * 0.9
                if look.result.outcome is Outcome.CANNOT_TELL:
                    wrong += [*wrongly_shown(f, dead), *told(f, dead, "; ".join(message.do_now))]
                f.now = f.nights[0].started_at
        elif death == "is slow":  # the sweep looks at each node, then hangs: what it says is as old as its looks
            f.now += f.every
            f.sweep_all(takes=f.every * dice.randint(2, 9) + SECOND)
            wrong += [line for node in names for line in wrongly_shown(f, node)]
        else:
            f.now = f.nights[0].started_at + 2 * f.every + SECOND + dice.random() * 40 * f.every
            wrong += [line for node in names for line in wrongly_shown(f, node)]
        f.readers[dead] = alive
        f.now += f.every
        f.sweep_all()
        wrong += _living(f, names)
    return [f"outage {seed}: {case.runbook} on {dead} {death}, in {case.title!r}: {line}" for line in wrong]


def _living(f: Fleetlet, nodes: list[str]) -> Iterator[str]:
    for node in nodes:
        yield from truly_shown(f, node)


@pytest.mark.parametrize("outages", [SHORT, pytest.param(LONG, marks=[pytest.mark.soak, pytest.mark.timeout(7200)])])
def test_no_verdict_outlives_its_reading(outages: int, tmp_path: Path) -> None:
    count: Counter[str] = Counter()
    wrong = [line for seed in range(SEED, SEED + outages) for line in outage(seed, tmp_path, count)]
    assert wrong == [], f"{len(wrong)} in {outages} outages"
    assert count["actions"] == 0
    assert min(count[death] for death in (*DEATHS, "stands still", "is slow", "of one reading", "of the whole target")) > 0, count
    if outages == LONG:
        kinds = {death.replace(" ", "_"): count[death] for death in (*DEATHS, "stands still", "is slow")}
        found = {"actions": count["actions"], "verdicts_from_a_dead_reader": len(wrong), "shown_as_stale_within_periods": 2}
        record("dead_readers", {"outages": outages, **kinds, "looks": count["looks by a dead reader"], **found})


def _blank() -> Iterator[tuple[str, Any]]:
    """Each raw reader that the tests have a host for, which prints nothing."""
    yield "docker inspect", _inspected("")
    yield "docker events", _of_engine(docker.parse_events, "")
    yield "docker system df", _of_engine(docker.parse_df, "")
    yield "docker version", _of_engine(docker.parse_version, "")
    for field, parser in LISTS.values():
        yield f"Ray, {field}", _got(parser, "")
    yield "etcd", parse_facts({name: {"status": 200, "body": ""} for name in ("health", "version", "status")}, PLACE, CONTEXT)
    yield "nvidia-smi", _smi(dict.fromkeys(("gpu", "apps", "pmon", "table"), ""))


def test_an_empty_answer_is_no_reading() -> None:
    given = dict(_blank())
    said = {name for name, reading in given.items() if not isinstance(reading, Unknown)}
    assert said == set(BLANK_IS_AN_ANSWER), {name: given[name] for name in said}


def test_what_freezes_on_the_other_side_is_not_recognised(tmp_path: Path) -> None:
    """Listed, so that it is known: where this fails, a way was found, and the list and this test go."""
    dice = random.Random(SEED)
    with a_fleet(dice, tmp_path) as f:
        f.sweep_all()
        (node,) = dice.sample(sorted(f.cases), 1)
        first = f.looks[node].result.outcome
        f.readers[node] = lambda _now, last, _context: seen_at(last, timedelta(0), f.now).model_copy(update={"taken_at": f.now})
        f.now += f.every
        f.sweep_all()
        assert f.looks[node].result.outcome is first, NOT_RECOGNISED
