"""Any runbook on any fleet file through the engine, each run in a process of its own that may be killed at a point.

    w = RealWorld(rig, folder, "stale-rendezvous", "my-target", fleet_dict, kinds=("delete-run-keys",))
    w.arm("step-begins")            # SIGKILL when the next run gets there: see flows.engine.progress.Point
    run = w.run("auto")             # or "diagnose", "approve"; then w.approve(run)
    w.carry_on()                    # what reaper and workers do until nothing is left to do
    w.check(max_acts=1)             # every run ended, at most so many acts began, a report, the lock is free
"""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml

from flows import store
from flows.clock import server_now
from flows.engine.approval import answer_run
from flows.engine.lock import lock_all, release
from flows.engine.steps import began, unfinished
from flows.reaper import sweep
from runbooks.core.plan import Plan, Step
from tasks.context import utc_now
from tests.faults.fault import arm, struck
from tests.scorecard import notes
from tests.support.engine_rig import Rig

BEFORE_A_STEP = ("started", "gathered", "judged", "settled", "claimed", "gathered-again", "budgeted", "acting")
IN_A_STEP = ("step-begins",)
AFTER_A_STEP = ("step-done", "acted", "verified", "reported")
EVERY_POINT = (*BEFORE_A_STEP, *IN_A_STEP, *AFTER_A_STEP)


def killed_at(*always: str) -> list[Any]:
    """Every point as a test's parameter: all of them in the soak, the named ones in every test run."""
    return [p if p in always else pytest.param(p, marks=pytest.mark.soak) for p in EVERY_POINT]


def policy_of(kinds: tuple[str, ...]) -> dict[str, Any]:
    """A policy under which these kinds of act go by themselves, without waiting.

    A container that a test kills is seconds old: whether it counts as young, and is recreated at once, would hang on the machine. So
    nothing is started again as it is, unless that kind is one of them."""
    each = {"mode": "auto", "cooldown_s": 0, "attempts": 1000, "approval_ttl_s": 3600}
    return {
        "mode": "auto",
        "kinds": {"start-container": {"mode": "diagnose"}} | dict.fromkeys(kinds, each),
        "budget": {"nodes": 100, "window_s": 3600},
        "storm": {"settle_s": 0.05, "alike": 1000},
    }


class RealWorld:
    """Runs of one runbook on one target of one fleet."""

    def __init__(
        self,
        rig: Rig,
        folder: Path,
        slug: str,
        target: str,
        fleet: dict[str, Any],
        kinds: tuple[str, ...] = (),
        env: dict[str, str] | None = None,
        policy: dict[str, Any] | None = None,
    ) -> None:
        self.rig, self.folder, self.slug, self.target, self.env = rig, folder, slug, target, env or {}
        self.name = f"f-{uuid4().hex[:8]}"
        self.out, self.fault = folder / "out", folder / "fault"
        self._write("fleet.yaml", fleet | {"name": self.name})
        self._write("policy.yaml", policy or policy_of(kinds))
        notes.world(slug, self.acts)

    def _write(self, name: str, data: dict[str, Any]) -> None:
        (self.folder / name).write_text(yaml.safe_dump(data), encoding="utf-8")

    def run(self, mode: str = "auto", slug: str = "", target: str = "", **more: Any) -> str:
        """Runs to the end of the process, however it ends; the run's id, "" if it was never created."""
        pid, id_file = self.start(mode, slug, target, **more)
        self.rig.wait(pid)
        return id_file.read_text() if id_file.exists() else ""

    def start(self, mode: str = "auto", slug: str = "", target: str = "", **more: Any) -> tuple[int, Path]:
        """Starts a run; returns its pid and the file that will hold the run's id."""
        id_file = self.folder / f"{uuid4().hex[:6]}.id"
        given = {
            "target": target or self.target,
            "mode": mode,
            "fleet": str(self.folder / "fleet.yaml"),
            "policy": str(self.folder / "policy.yaml"),
            "out": str(self.out),
        }
        job = {"do": "run", "slug": slug or self.slug, "parameters": given | more, "id_file": str(id_file)}
        return self.rig.start(job | {"env": self.env | {"FAULT": str(self.fault)}}), id_file

    def work(self, fault: bool = False) -> None:
        """What a worker does: every scheduled run, in a process of its own."""
        env = self.env | {"FAULT": str(self.fault) if fault else ""}
        self.rig.wait(self.rig.start_work(self.folder / "fleet.yaml", **env))

    def approve(self, run: str, fault: bool = False, **more: str) -> None:
        """A person says yes, and a worker carries on."""
        assert answer_run(run, {"decision": "approve", "who": "ana"} | more) == ""
        self.work(fault)

    def arm(self, point: str, sig: str = "SIGKILL", pid: int | None = None, nth: int = 1) -> None:
        """Plants a fault: strikes once, at the `nth` time that a run gets to `point`."""
        arm(self.fault, point, sig, pid, nth)
        notes.fault(f"{sig} of {'another process' if pid else 'the run'}", point)

    def struck(self) -> bool:
        """True once the fault has struck."""
        return struck(self.fault)

    def carry_on(self, rounds: int = 8) -> None:
        """What reaper and workers do until nothing is left to do. Time is passed on, more in each round: nothing is waited
        for, and where only a step's time frees an owner (a pod, a row), that time comes.
        """
        for i in range(rounds):
            sweep(utc_now() + timedelta(seconds=200 * (i + 1)))
            self.work()
            if all(r.state and (r.state.is_final() or r.state.is_paused()) for r in self.runs() + self.acts()):
                return

    def runs(self) -> list[Any]:
        """The runbook runs on this fleet."""
        path = str(self.folder / "fleet.yaml")
        return [r for r in store.find_runs([store.RUNBOOK_TAG]) if r.parameters.get("fleet") == path]

    def acts(self) -> list[Any]:
        """Their act runs."""
        mine = {f"run:{r.id}" for r in self.runs()}
        return [a for a in store.find_runs([store.ACT_TAG]) if mine & set(a.tags)]

    def reports(self) -> list[dict[str, Any]]:
        """Every report, newest last."""
        found = [json.loads(p.read_text()) for p in self.out.rglob("2*.json")]
        return sorted(found, key=lambda r: str(r["started_at"]))

    def report(self) -> dict[str, Any]:
        """The newest report."""
        found = self.reports()
        assert found, (self.rig.home / "children.log").read_text()[-3000:]
        return found[-1]

    def check(self, max_acts: int) -> None:
        """The engine's promises, whatever was killed. What the world must look like is the caller's to check."""
        everything = self.runs() + self.acts()
        states = [(r.name, r.state.name if r.state else None) for r in everything]
        assert all(r.state and (r.state.is_final() or r.state.is_paused()) for r in everything), states
        begun = [a.name for a in self.acts() if began(a)]
        assert len(begun) <= max_acts, f"acted {len(begun)} times: {begun}"
        self.report()
        self.usable()

    def usable(self) -> None:
        """Every lock that was taken can be taken again, now or when the time of a step whose end nobody saw has passed."""
        later = server_now() + timedelta(hours=6)
        assert [left for a in self.acts() if (left := unfinished(a, later))] == []
        open_ = {str(a.parameters["owner"]) for a in self.acts() if unfinished(a, server_now())}
        for owner in sorted({str(a.parameters["owner"]) for a in self.acts()} - open_):
            step = Step(kind="toy-fix", owner=owner, args={}, commands=(), effect="")
            locks = lock_all(
                Plan(name="again", steps=(step,), for_causes=("c",)), {"runbook_run": "test", "target": "-"}
            )
            release(locks, "only a test")



def outcome(run_id: str) -> str:
    """How a run ended, as its label says."""
    return str(store.read_run(run_id).labels.get("outcome"))
