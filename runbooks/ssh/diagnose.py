"""Judges one log-in: the stage at which it stops and the one thing that is wrong. Pure."""

from runbooks.core.judgment import SURE, credible, findings
from runbooks.core.reading import Absent
from runbooks.core.rules import by_the_rules
from runbooks.core.verdict import Diagnosis, State
from runbooks.ssh import story
from runbooks.ssh.behind_key import judge_behind_key, root_notes
from runbooks.ssh.evidence import Auth, Evidence, Stage
from runbooks.ssh.far_side import judge_far_side
from runbooks.ssh.limits import Limits
from runbooks.ssh.on_the_wire import judge_wire
from runbooks.ssh.own_side import judge_own_side
from runbooks.ssh.plans import offer
from runbooks.ssh.view import SshView

__all__ = ["Limits", "diagnose"]


@by_the_rules("ssh-auth-failure")
def diagnose(evidence: Evidence, limits: Limits) -> Diagnosis:
    """The whole judgment of one log-in."""
    if isinstance(evidence.wire, Absent):
        return _not_applicable(evidence.wire.proof)
    v = SshView(evidence, limits)
    judge_own_side(v)
    judge_wire(v)
    judge_behind_key(v)
    judge_far_side(v)
    _rollout(v)
    v.sort()
    state = _state(v)
    plans, withheld = offer(v)
    return v.diagnosis(
        state=state,
        headline=story.headline(v, state),
        symptom=story.symptom(v),
        must_not=story.ALWAYS,
        plans=plans,
        before=story.before(v, withheld),
        after=story.after(v, state, withheld),
        findings=(*findings(v.slug, v.causes, "SSH"), *root_notes(v)),
        unknowns=v.open,
        by_hand=story.by_hand(v),
    )


def _not_applicable(proof: str) -> Diagnosis:
    return Diagnosis(
        state=State.NOT_APPLICABLE,
        headline=proof,
        must_not=("do not read this as a proof about any other node's SSH",),
    )


def _rollout(v: SshView) -> None:
    """Many nodes that refuse the same key at once are one change that went wrong."""
    refused = v.wire is not None and v.wire.auth is Auth.REFUSED
    if refused and len(v.e.alike) + 1 >= v.limits.rollout_nodes:
        said = f"{len(v.e.alike)} other nodes refuse the same key: {', '.join(v.e.alike)}"
        v.say("bad-key-rollout", SURE, said, about="the fleet", decides=("what changed the keys of these nodes",))


def _state(v: SshView) -> State:
    done = v.wire is not None and v.wire.stage is Stage.DONE
    if credible(v.causes):
        return State.UNHEALTHY
    return State.HEALTHY if done else State.CANNOT_TELL
