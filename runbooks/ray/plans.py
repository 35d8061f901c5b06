"""What would be done about a Ray job: continue what was stopped, end its own leftover, restart a dead raylet. A start that
moves is left alone."""

import shlex
from collections.abc import Sequence

from runbooks.core.args.nodes import RestartRaylet, StopRayJob
from runbooks.core.plan import Plan, Step
from runbooks.core.reading import value_of
from runbooks.core.verdict import Cause, Certainty
from runbooks.ray.cluster import NAME
from runbooks.ray.evidence import Evidence
from runbooks.ray.going_on import going_on


def plans_for(e: Evidence, causes: Sequence[Cause]) -> tuple[tuple[Plan, ...], tuple[str, ...]]:
    """The plans of the confirmed causes that this engine can answer, and why what is stopped is not continued."""
    continuing, withheld = going_on(e, causes)
    return (*continuing, *_restores(e, causes)), withheld


def _restores(e: Evidence, causes: Sequence[Cause]) -> tuple[Plan, ...]:
    sure = {c.slug for c in causes if c.certainty is Certainty.CONFIRMED and not c.benign}
    steps = []
    if "supervisor-left" in sure:
        steps += _leftovers(e)
    if "raylet-dead" in sure:
        other = {c.subject for c in causes if c.slug == "version-mismatch"}  # the same version would be refused again
        steps += _raylets(e, [c.subject for c in causes if c.slug == "raylet-dead" and c.subject not in other])
    if not steps:
        return ()
    causes_ = tuple(sorted(sure & {"supervisor-left", "raylet-dead"}))
    return (Plan(name="free and restart", steps=tuple(steps), for_causes=causes_, settle_s=10.0),)


def _leftovers(e: Evidence) -> list[Step]:
    job = value_of(e.job)
    url = shlex.quote(f"{e.dashboard}/api/jobs/{e.submission_id}")
    left = [a for a in value_of(e.actors) or () if job and a.name == NAME + job.submission_id and a.state == "ALIVE"]
    return [
        Step(
            kind="stop-ray-job", owner=e.cluster,
            args=StopRayJob(
                dashboard=e.dashboard, submission_id=e.submission_id, state="FAILED", actor_id=a.actor_id
            ).plain(),
            commands=(f"curl -sSf {url} | grep -q '\"status\": *\"FAILED\"' && curl -sSf -X POST {url}/stop",),
            effect="the failed job's own supervisor is gone and what it held is free",
        )
        for a in left
    ]  # fmt: skip


def _raylets(e: Evidence, nodes: Sequence[str]) -> list[Step]:
    return [
        Step(
            kind="restart-raylet", owner=node,
            args=RestartRaylet(node=node, start=e.restart_raylet[node], head=e.cluster).plain(),
            commands=(shlex.join(e.restart_raylet[node]),), effect=f"{node} is ALIVE at the head with a new node id",
        )
        for node in nodes
        if node in e.restart_raylet
    ]  # fmt: skip
