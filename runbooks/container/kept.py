"""Replaced containers that were set aside: whether a daemon start could revive one, and which may be removed by now."""

import shlex
from collections.abc import Sequence

from runbooks.container.backoff import is_kept, kept_name
from runbooks.container.evidence import Evidence, Sibling, WantedContainer
from runbooks.container.words import Limits, cause, span
from runbooks.core.args.containers import RemoveKeptContainer
from runbooks.core.plan import Step
from runbooks.core.reading import value_of
from runbooks.core.verdict import Cause, Certainty, Finding

STILL = ("exited", "dead", "created")


def set_aside(e: Evidence) -> list[Sibling]:
    """Every replaced container of this name that is still there."""
    return [s for s in value_of(e.siblings) or () if is_kept(s.name, e.name)]


def old_ones(e: Evidence, limits: Limits) -> list[Sibling]:
    """Those that ended longer ago than they must be kept, and are what their name says."""
    return [
        s for s in set_aside(e)
        if s.status in STILL and s.name == kept_name(e.name, s.id) and s.finished_at is not None
        and (e.taken_at - s.finished_at).total_seconds() > limits.keep_old_s
    ]  # fmt: skip


def judge_kept(e: Evidence, limits: Limits) -> list[Cause]:
    """Only when the run was asked to remove them: each is a container that nobody needs any more."""
    old = old_ones(e, limits) if e.remove_kept else []
    words = [f"{s.name} ended {span((e.taken_at - s.finished_at).total_seconds())} ago" for s in old if s.finished_at]
    return [cause("kept-container", Certainty.CONFIRMED, f"kept containers of {e.name}", *words)] if old else []


def removals(e: Evidence, w: WantedContainer, limits: Limits) -> list[Step]:
    """One step for each, by full id."""
    engine = shlex.join(w.engine)
    return [
        Step(
            kind="remove-kept-container", owner=e.node, args=RemoveKeptContainer(socket=w.socket, id=s.id, kept=s.name).plain(),
            commands=(f"{engine} rm {s.id[:12]}",), effect=f"{s.name} is gone; its volumes stay",
            loses="its log, what it wrote outside volumes, and its configuration",
        )
        for s in old_ones(e, limits)
    ]  # fmt: skip


def kept_findings(e: Evidence, limits: Limits, causes: Sequence[Cause]) -> list[Finding]:
    """What a person should know of them."""
    found = [
        Finding(
            priority="HIGH", category="container", action=f"update --restart=no {s.id[:12]}",
            issue=f"the kept container {s.name} has restart policy {s.restart_policy}: a daemon start revives it",
        )
        for s in set_aside(e)
        if s.restart_policy != "no"
    ]  # fmt: skip
    old = old_ones(e, limits)
    if old and not e.remove_kept:
        how = f"gpu-runbooks run container-death {e.node} --option container={e.name} --option remove_kept=yes --mode approve"
        issue = f"{len(old)} replaced containers are kept for longer than {span(limits.keep_old_s)}: {old[0].name}"
        found.append(Finding(priority="LOW", category="container", issue=issue, action=how))
    if e.remove_kept and not any(x.slug == "kept-container" for x in causes):
        why, then = _nothing_to_remove(e, limits)
        issue = f"option remove_kept was given and decides nothing: {why}"
        found.append(Finding(priority="LOW", category="container", issue=issue, action=then))
    return found


def _nothing_to_remove(e: Evidence, limits: Limits) -> tuple[str, str]:
    """Why no removal is offered although it was asked for, and what then."""
    kept, old = set_aside(e), old_ones(e, limits)
    if value_of(e.siblings) is None:
        return "whether replaced containers are kept was not read", "make the list of containers readable, and ask again"
    if old:
        return f"{len(old)} could be removed, once {e.name} itself is well", "ask again then"
    if kept:
        return f"{len(kept)} kept ({kept[0].name}), none that ended longer than {span(limits.keep_old_s)} ago", "ask again later"
    return f"no replaced container of {e.name} is kept", "leave the option out"
