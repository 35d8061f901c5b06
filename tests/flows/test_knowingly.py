"""A plan that would end a mate of somebody at work: a person may choose it by its name and with a reason, and nobody else."""

import os
import signal
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from deployments.cli.approve import _choice
from deployments.errors import CommandError
from flows.engine.answer_form import answer_form
from flows.engine.approval import answer_run
from flows.engine.gate import Decision, Gate, decide
from flows.engine.knowingly import NONE_NAMED, choices, named, unknowing, ways
from flows.engine.open_question import open_question
from runbooks.core.plan import Plan, Risk, Step, plan_digest
from runbooks.core.policy import KindPolicy, Mode, Policy
from runbooks.core.verdict import Cause, Certainty, Diagnosis, State
from tests.faults.real import outcome
from tests.support.engine_rig import Rig

WHO = "pid 7 belongs to job x, of which pid 8 is at work: it writes step-70.pt"
RISKS = {"end": Risk.DISRUPTIVE}
POLICY = Policy(mode=Mode.AUTO, kinds={"end": KindPolicy(mode=Mode.AUTO)})


def plan(name: str, despite: str = "") -> Plan:
    step = Step(kind="end", owner="n", args={"pid": 7}, commands=("kill 7",), effect="gone")
    return Plan(name=name, steps=(step,), for_causes=("c",), despite=despite)


def gate(mode: Mode, free: tuple[Plan, ...], choice: str = "") -> Gate:
    cause = Cause(slug="c", certainty=Certainty.CONFIRMED, subject="s", evidence=("e",))
    sick = Diagnosis(state=State.UNHEALTHY, headline="", causes=(cause,), plans=free, knowingly=(plan("end it", WHO),))
    return decide(sick, mode, POLICY, RISKS, (), datetime.now(UTC), "", choice)


@pytest.mark.parametrize("choice", ["", "end it", "clean"])
def test_where_it_is_offered(choice: str) -> None:
    """Last beside another; alone only where the run was asked for it by its name; in auto and diagnose mode never."""
    both = gate(Mode.APPROVE, (plan("clean"),), choice)
    assert (both.decision, [p.name for p in both.plans]) == (Decision.ASK, ["clean", "end it"])
    alone = gate(Mode.APPROVE, (), choice)
    asked = choice == "end it"
    assert alone.decision is (Decision.ASK if asked else Decision.NOTHING)
    assert asked or any("end it" in str(line) for line in alone.why)
    auto = gate(Mode.AUTO, (plan("clean"),), choice)
    assert [p.name for p in auto.plans] == ["clean"]
    assert auto.decision is (Decision.ASK if choice == "end it" else Decision.ACT)
    for mode in (Mode.AUTO, Mode.DIAGNOSE):
        assert gate(mode, (), choice).decision is Decision.NOTHING


def test_what_counts_as_choosing_it() -> None:
    free, held = plan("clean"), plan("end it", WHO)
    assert unknowing(free, {}) == ""
    assert WHO in unknowing(held, {"choice": "end it", "why": "  "})
    assert "choose it by name" in unknowing(held, {"why": "it blocks the others"})
    assert unknowing(held, {"choice": "end it", "why": "it blocks the others"}) == ""
    assert named((held, free), "").name == "clean"
    assert choices((free, held)) == ("clean", "end it")
    assert choices((held,)) == (NONE_NAMED, "end it")
    assert answer_form(choices((held,))).model_fields["choice"].default == NONE_NAMED
    assert ways("r1", (held,)) == ("gpu-runbooks approve r1 --choice 'end it' --why REASON",)
    assert ways("r1", (free,)) == ("gpu-runbooks approve r1",)


def test_who_allowed_it_while_nobody_was_at_work_did_not_know() -> None:
    assert plan("end it", WHO).digest != plan("end it").digest
    assert plan("end it", WHO).digest == plan("end it", "pid 9 is at work").digest, "what was read moves"
    assert plan_digest((plan("end it"),)) == plan("end it").digest


def test_the_command_line_wants_the_name_and_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flows.engine.open_question.open_question", lambda _run: SimpleNamespace(plans=(plan("end it", WHO),)))
    for given in (("", "reason"), ("end it", ""), ("other", "reason")):
        with pytest.raises(CommandError, match="end it"):
            _choice("r1", "approve", *given)
    assert _choice("r1", "approve", "end it", "reason") == "end it"
    assert _choice("r1", "reject", "", "") == ""


@pytest.fixture
def job() -> Iterator[tuple[int, int]]:
    """Two processes of one group: one is stopped, its mate runs."""
    script = "sleep 600 & echo $!; exec sleep 601"
    mate = subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert mate.stdout is not None
    victim = int(mate.stdout.readline())
    os.kill(victim, signal.SIGSTOP)
    yield victim, mate.pid
    for pid in (victim, mate.pid):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    mate.wait()
    mate.stdout.close()


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def test_one_of_a_real_group_is_ended_only_by_a_person_who_knows(rig: Rig, job: tuple[int, int]) -> None:
    victim, mate = job
    w = rig.world(sick=False, job={"victim": victim, "mate": mate})
    assert outcome(w.run("auto", choice="end it")) == "sick"
    assert outcome(w.run("approve")) == "sick", "nobody is asked about what nobody asked for"
    assert any("choose it by name" in line for line in w.reports()[-1]["guards"])
    run = w.run("approve", choice="end it")
    assert outcome(run) == "waiting"
    asked = open_question(run)
    assert asked is not None
    assert f"pid {mate} is at work" in asked.text
    assert "Withheld, because part of the job is active" in asked.text
    assert answer_run(run, {"decision": "approve", "who": "ana", "choice": "end it"}) == ""
    w.work()
    assert outcome(run) == "waiting", "no reason was typed"
    assert lives(victim)
    assert answer_run(run, {"decision": "approve", "who": "ana", "choice": "end it", "why": "it blocks the others"}) == ""
    w.work()
    assert outcome(run) == "fixed"
    assert not lives(victim)
    assert lives(mate)
    report = w.reports()[-1]
    assert (report["permission"]["who"], report["permission"]["said"]) == ("ana", "it blocks the others")


def test_who_approved_while_nobody_was_at_work_is_asked_again(rig: Rig, job: tuple[int, int]) -> None:
    """A reason that was typed for another question is none for this one."""
    victim, mate = job
    w = rig.world(sick=False, job={"victim": victim, "mate": 2**22 + 1})
    run = w.run("approve", choice="end it")
    assert outcome(run) == "waiting"
    assert answer_run(run, {"decision": "approve", "who": "ana", "choice": "end it", "why": "it is stopped"}) == ""
    rig.worlds.joinpath(f"{w.name}.json").write_text(
        f'{{"sick": false, "identity": "x", "job": {{"victim": {victim}, "mate": {mate}}}}}'
    )
    w.work()
    assert outcome(run) == "waiting"
    assert lives(victim)
    assert answer_run(run, {"decision": "reject", "who": "ana"}) == ""
    w.work()
    assert outcome(run) == "rejected"
