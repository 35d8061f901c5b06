"""Reports made up for the tests of rendering, storing and replaying."""

from datetime import UTC, datetime, timedelta
from typing import Any

from runbooks.core.outcome import Outcome
from runbooks.core.plan import Plan, Step
from runbooks.core.report import ActionRecord, Event, Permission, Report
from runbooks.core.verdict import Cause, Certainty, Diagnosis, Finding, State

T0 = datetime(2026, 3, 7, 3, 12, 5, tzinfo=UTC)
SOURCE = {
    "command": "nvidia-smi --query-compute-apps=pid,used_memory --format=csv",
    "host": "node-a",
    "taken_at": "2026-03-07T03:12:06Z",
    "excerpt": "pid, used_gpu_memory [MiB]\n4242, 8192 MiB",
}
PLAN = Plan(
    name="clean up only",
    for_causes=("stopped-process",),
    why="No restart command is configured for this job.",
    settle_s=5,
    steps=(
        Step(
            kind="terminate-processes",
            owner="node-a",
            args={
                "boot_id": "b1", "processes": [{"pid": 4242, "start_ticks": 99, "command": "python train.py", "uid": 0}], "cgroup": "",
                "sid": 4242, "gpu_uuids": [], "expect_freed_bytes": 0, "grace_s": 10,
            },
            commands=("kill -CONT 4242", "kill -TERM 4242"),
            effect="PID 4242 is gone and GPU 0 has 8.0 GiB more free",
            loses="whatever the process had in memory: 340 steps since its last checkpoint",
        ),
    ),
)
DIAGNOSIS = Diagnosis(
    state=State.UNHEALTHY,
    headline="GPU 0 is held by a stopped process (pid 4242); nothing computes",
    symptom="GPU 0 has 8.0 GiB in use and 0 % busy in all of 12 samples over 24 s.",
    causes=(
        Cause(
            slug="stopped-process",
            certainty=Certainty.CONFIRMED,
            subject="pid 4242 on GPU 0",
            evidence=("state T in all 12 looks", "CPU time stood still: 61.2 s then, 61.2 s now"),
        ),
        Cause(
            slug="data-loader-starved",
            certainty=Certainty.RULED_OUT,
            subject="pid 4242",
            evidence=("no child process",),
        ),
    ),
    must_not=("Do not reset GPU 0: pid 977 on it is another tenant's.",),
    plans=(PLAN,),
    waiting_costs=("1 GPU idle since 02:10 UTC: about 2.40 per hour",),
    findings=(Finding(priority="HIGH", category="GPU", issue="GPU 0 held, idle", action="end pid 4242"),),
    by_hand=("ps -o pid,stat,wchan:32,cmd -p 4242",),
)
WELL = Diagnosis(state=State.HEALTHY, headline="GPU 0 is free", symptom="")


def report(**changes: Any) -> Report:
    """A waiting zombie-GPU report, with `changes`."""
    base: dict[str, Any] = {
        "id": "r-0001",
        "runbook": "zombie-gpu",
        "title": "Zombie GPU",
        "target": "node-a",
        "fleet": "lab",
        "mode": "approve",
        "outcome": Outcome.WAITING,
        "headline": DIAGNOSIS.headline,
        "started_at": T0,
        "ended_at": T0 + timedelta(seconds=31.5),
        "diagnosis": DIAGNOSIS,
        "evidence": {
            "node": "node-a",
            "gpus": {"kind": "known", "value": {"gpus": [{"index": 0}]}, "source": SOURCE},
            "leader": {"kind": "absent", "proof": "the fleet file names no leader", "source": None},
            "kernel": {
                "kind": "unknown",
                "reason": "denied",
                "detail": "dmesg: read kernel buffer failed: Operation not permitted",
                "source": {"command": "dmesg --notime", "host": "node-a", "taken_at": None, "excerpt": ""},
            },
        },
        "limits": {"idle_s": 600},
        "risks": {"terminate-processes": "disruptive"},
        "timeline": (Event(at=T0, what="read node-a"), Event(at=T0 + timedelta(seconds=30), what="judged")),
        "connection": ("host key seen for the first time: SHA256:abc",),
        "approve_command": "gpu-runbooks approve lucky-otter",
        "links": {"run": "http://127.0.0.1:4200/runs/flow-run/1"},
    }
    return Report.model_validate(base | changes)


def fixed() -> Report:
    """The same incident after a person allowed the plan."""
    return report(
        outcome=Outcome.FIXED,
        headline="GPU 0 is free again",
        chosen=PLAN,
        permission=Permission(
            allowed=True,
            by="person",
            who="Ann",
            at=T0 + timedelta(minutes=3),
            choice="clean up only",
            said="nobody owns it",
        ),
        acts=(
            ActionRecord(
                owner="node-a",
                kinds=("terminate-processes",),
                act_run="7c1d",
                digest=PLAN.digest,
                started_at=T0 + timedelta(minutes=3),
                outcome="done",
                said=("sent SIGCONT and SIGTERM to 4242", "gone after 0.4 s"),
            ),
        ),
        after=WELL,
        after_evidence={"gpus": {"kind": "known", "value": [], "source": SOURCE}},
    )
