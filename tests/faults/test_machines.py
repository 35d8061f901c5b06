"""Runs on other machines, clones among them, whose clocks are wrong by an hour: alive while they beat, counted by one
clock with all others."""

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
import yaml
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.client.schemas.objects import State as PrefectState

from flows import reaper, store
from flows.clock import server_now
from flows.engine import liveness
from flows.engine.liveness import owner_gone
from flows.engine.ownership import BEAT, SIGNED
from flows.reaper import sweep
from tasks import this_machine
from tasks.this_machine import Owner, boot_id, is_gone, machine_name, this_process
from tests.faults.elsewhere import machine
from tests.faults.fault import HOLD, let_go, struck
from tests.faults.real import outcome
from tests.support.engine_rig import Rig, World, fresh_budget, kill_and_wait
from tests.support.toy import acts_done, read_world, write_world

pytestmark = pytest.mark.scored(fault="clocks apart, another machine", point="the whole run")

HOUR = 3600.0
NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(liveness, "PULSES", {})
    monkeypatch.setattr(liveness, "_ROUNDS", [])


# -- what one round can say of one run ---------------------------------------------------------------------------------


def run_of(owner: Owner, beat: object, state: UUID, signed: UUID | None = None, kind: StateType = StateType.RUNNING) -> FlowRun:
    labels: dict[str, Any] = owner.labels() | {BEAT: str(beat), SIGNED: str(signed or state)}
    found = PrefectState(id=state, type=kind, timestamp=NOW)
    return FlowRun(id=UUID(int=7), flow_id=uuid4(), state=found, labels=labels)


ELSEWHERE = Owner(host="other", pid=1, start_ticks=1, boot_id="b")


@pytest.mark.parametrize("behind_s", [-HOUR, -120.0, 0.0, 120.0, HOUR])
def test_a_beat_that_moves_is_alive_whatever_time_it_says(behind_s: float) -> None:
    state = uuid4()
    for k in range(60):
        at = NOW + timedelta(seconds=15 * k)
        assert owner_gone(run_of(ELSEWHERE, at - timedelta(seconds=behind_s), state), at) is False


@pytest.mark.parametrize("beat", [NOW + timedelta(hours=1), NOW - timedelta(hours=1), "no time at all"])
def test_a_beat_that_stands_still_is_dead_after_its_time(beat: object) -> None:
    run = run_of(ELSEWHERE, beat, uuid4())
    said = [owner_gone(run, NOW + timedelta(seconds=s)) for s in (0, 15, 100, 101)]
    assert said == [False, False, False, True]


def test_a_resumed_run_has_no_owner_until_its_new_process_signs() -> None:
    dead = this_process().model_copy(update={"start_ticks": 1})
    old, new = uuid4(), uuid4()
    assert owner_gone(run_of(dead, 1, new, signed=old), NOW) is None
    assert owner_gone(run_of(this_process(), 1, new, signed=old), NOW) is None, "it may be a server that lives on"
    assert owner_gone(run_of(this_process(), 2, new, signed=old), NOW) is False, "it beats in this state: it runs it"
    assert owner_gone(run_of(dead, 1, new, signed=new), NOW) is True


def test_a_state_set_by_hand_ends_no_living_run() -> None:
    """The new state was never signed, but its process beats."""
    signed, by_hand = uuid4(), uuid4()
    said = [owner_gone(run_of(ELSEWHERE, k, by_hand, signed=signed), NOW + timedelta(seconds=15 * k)) for k in range(9)]
    assert said == [None, *[False] * 8]


@pytest.mark.parametrize("away_s", [61, 3600, -3600])
def test_silence_while_the_server_was_away_is_no_silence(monkeypatch: pytest.MonkeyPatch, away_s: int) -> None:
    """Nobody could beat while it was down, nobody heard it while this machine slept, a clock that is set is no time."""
    clock = [NOW]
    monkeypatch.setattr(reaper, "server_now", lambda: clock[0])
    monkeypatch.setattr(store, "find_runs", lambda *_, **__: [])
    monkeypatch.setattr(reaper, "retry_pending", lambda _now: [])
    run = run_of(ELSEWHERE, 1, uuid4())
    for seconds in (0, 15, 15, away_s, 15, 15):
        clock[0] += timedelta(seconds=seconds)
        sweep()
        assert owner_gone(run, clock[0]) is False
    for seconds in (15,) * 5:
        clock[0] += timedelta(seconds=seconds)
        sweep()
    assert owner_gone(run, clock[0]) is True


def test_only_this_boot_of_this_machine_proves_a_death(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clone has our host name and machine id, and a boot of its own: so had we before the last restart."""
    me, dead = this_process(), this_process().model_copy(update={"start_ticks": 1})
    assert (is_gone(me), is_gone(dead)) == (False, True)
    clone = dead.model_copy(update={"boot_id": "another"})
    assert clone.host == machine_name()
    assert is_gone(clone) is None
    monkeypatch.setattr(this_machine, "machine_name", lambda: "other")
    assert is_gone(dead) is None
    assert dead.boot_id == boot_id()


# -- processes -----------------------------------------------------------------------------------------------------------


def started(w: World, env: dict[str, str], mode: str = "auto") -> tuple[int, str]:
    """A run that begins on that machine and is held where its fault says; its pid and id."""
    id_file = w.rig.home / f"{w.name}-{uuid4().hex[:6]}.id"
    job = {"do": "run", "slug": "zombie-gpu", "parameters": w.parameters(mode), "id_file": str(id_file)}
    pid = w.rig.start(job | {"env": {"FAULT": str(w.fault)} | env})
    wait_for(lambda: struck(w.fault))
    return pid, id_file.read_text()


def wait_for(true: Any, limit_s: float = 40.0) -> None:
    until = time.monotonic() + limit_s
    while not true():
        assert time.monotonic() < until, "did not happen in time"
        time.sleep(0.02)


def beat_of(run: str) -> str:
    return str(store.read_run(run).labels.get(BEAT))


def rounds_while_it_beats(w: World, run: str, rounds: int = 12) -> list[str]:
    """What the reaper does in so many rounds of 15 s, between which the run was heard."""
    said, begin = [], server_now()
    for k in range(rounds):
        last = beat_of(run)
        wait_for(lambda last=last: beat_of(run) != last)
        said += [line for line in sweep(begin + timedelta(seconds=15 * k)) if w.name in line]
    return said


@pytest.mark.parametrize(("name", "off_s"), [("elsewhere", -HOUR), ("=", HOUR)])
def test_a_living_run_elsewhere_is_left_alone(rig: Rig, name: str, off_s: float) -> None:
    """For three minutes of rounds in the middle of its work; the second one is a clone of this machine."""
    w = rig.world()
    w.arm("claimed", HOLD)
    pid, run = started(w, machine(name, off_s))
    labels = store.read_run(run).labels
    assert (labels["owner.host"] == machine_name()) is (name == "=")
    assert labels["owner.boot"] != boot_id()
    assert rounds_while_it_beats(w, run) == []
    let_go(w.fault)
    rig.wait(pid)
    assert outcome(run) == "fixed"
    assert len(acts_done(rig.worlds, w.name)) == 1


def test_a_run_elsewhere_that_fell_silent_is_ended_in_time(rig: Rig) -> None:
    w = rig.world()
    w.arm("claimed", HOLD)
    pid, run = started(w, machine(off_s=HOUR))
    assert rounds_while_it_beats(w, run, 2) == []
    kill_and_wait(pid)
    rig.wait(pid)
    begin = server_now() + timedelta(seconds=60)
    said = [line for s in (0, 50, 99, 102) for line in sweep(begin + timedelta(seconds=s)) if w.name in line]
    assert any("its process is gone; ended" in line for line in said), said
    state = store.read_run(run).state
    assert state is not None
    assert state.is_crashed()


# -- one clock for all -----------------------------------------------------------------------------------------------------


class Several:
    """Targets of one fleet, each run in a process of its own on a machine of its own."""

    def __init__(self, rig: Rig, folder: Path, policy: dict[str, Any], many: int) -> None:
        self.rig, self.folder = rig, folder
        self.names = [f"n{uuid4().hex[:10]}" for _ in range(many)]
        fleet = {"name": f"f-{self.names[0]}", "nodes": [{"name": n, "local": True} for n in self.names]}
        (folder / "fleet.yaml").write_text(yaml.safe_dump(fleet), encoding="utf-8")
        (folder / "policy.yaml").write_text(yaml.safe_dump(policy), encoding="utf-8")
        for name in self.names:
            self.sicken(name)

    def sicken(self, name: str) -> None:
        write_world(self.rig.worlds, name, sick=True, identity=f"pid of {name}")

    def run(self, name: str, off_s: float, mode: str = "auto") -> str:
        id_file = self.folder / f"{uuid4().hex[:6]}.id"
        given = {"target": name, "mode": mode, "fleet": str(self.folder / "fleet.yaml")}
        given |= {"policy": str(self.folder / "policy.yaml"), "out": str(self.folder / "out")}
        job = {"do": "run", "slug": "zombie-gpu", "parameters": given, "id_file": str(id_file)}
        self.rig.wait(self.rig.start(job | {"env": machine(f"m{off_s}", off_s)}))
        return id_file.read_text()


def policy(**more: Any) -> dict[str, Any]:
    fix = {"mode": "auto", "cooldown_s": 0, "attempts": 100, "approval_ttl_s": 1800} | more.pop("fix", {})
    facts = {"mode": "auto", "kinds": {"toy-fix": fix}, "budget": {"nodes": 100, "window_s": HOUR}}
    return facts | {"storm": {"settle_s": 0.05, "alike": 1000}} | more


def test_a_budget_is_counted_by_one_clock(rig: Rig, tmp_path: Path) -> None:
    """Places are taken by machines an hour and a minute apart, in both directions: two of two, then no more."""
    several = Several(rig, tmp_path, policy(budget={"nodes": 2, "window_s": HOUR}), 3)
    first, second, third = several.names
    fresh_budget(f"f-{first}")
    assert outcome(several.run(first, -61 * 60)) == "fixed"
    assert outcome(several.run(second, 61 * 60)) == "fixed"
    assert outcome(several.run(third, 122 * 60)) == "refused"
    assert acts_done(rig.worlds, third) == []


def test_a_cooldown_is_counted_by_one_clock(rig: Rig, tmp_path: Path) -> None:
    several = Several(rig, tmp_path, policy(fix={"cooldown_s": 1200}), 1)
    (name,) = several.names
    assert outcome(several.run(name, 0.0)) == "fixed"
    several.sicken(name)
    assert outcome(several.run(name, HOUR)) == "waiting", "its own clock says that the cooldown is over"
    assert len(acts_done(rig.worlds, name)) == 1


@pytest.mark.parametrize("off_s", [-HOUR, HOUR])
def test_an_approval_lives_by_one_clock(rig: Rig, tmp_path: Path, off_s: float) -> None:
    """It lives for half an hour, and the machine that asks is an hour off."""
    several = Several(rig, tmp_path, policy(), 1)
    (name,) = several.names
    run = several.run(name, off_s, "approve")
    expires = datetime.fromisoformat(str(store.read_run(run).labels["approval.expires"]))
    assert abs((expires - server_now()).total_seconds() - 1800) < 60
    assert read_world(name)["sick"]
    assert not [line for line in sweep() if name in line]
    late = sweep(server_now() + timedelta(seconds=1900))
    assert [line for line in late if "no decision" in line]
