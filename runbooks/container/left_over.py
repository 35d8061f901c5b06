"""What was read about the container and no cause uses: told all the same, so that a person can hold it against the verdict."""

from collections.abc import Iterator, Sequence

from runbooks.container.evidence import ContainerFacts, Evidence
from runbooks.container.others import mate, pod_mates
from runbooks.container.shared_end import made_effective, said
from runbooks.container.words import clock
from runbooks.core.reading import value_of
from runbooks.core.unexplained import not_used
from runbooks.core.verdict import Cause, Finding


def left_over(e: Evidence, c: ContainerFacts | None, causes: Sequence[Cause]) -> tuple[Finding, ...]:
    """Facts about this container that no cause cites. Its error and its log are told by the rule for all runbooks."""
    told = " ".join(line for x in causes for line in x.evidence)
    return tuple(not_used(f"{what}: {words}") for what, key, words in _facts(e, c) if c is not None and key not in told)


def _facts(e: Evidence, c: ContainerFacts | None) -> Iterator[tuple[str, str, str]]:
    """(where it was read, what of it stands in a cause that uses it, the whole)."""
    if c is None:
        return
    host = value_of(e.host)
    for kill in value_of(e.ooms) or ():
        if c.id[:12] in kill.cgroup and (c.started_at is None or kill.at >= c.started_at):
            yield "kernel log", kill.text, f"{clock(kill.at)}: {kill.text}"
    for u in made_effective(host, c.started_at, e.taken_at) if host and c.started_at else ():
        yield "package log", f"{u.package} {u.what}", said(u)
    for check in c.health_log[-1:]:
        if check.exit and check.output:
            yield "health check", check.output, check.output
    for f in host.faults if host and c.started_at else ():
        if c.started_at and c.started_at <= f.at <= (c.finished_at or e.taken_at):
            yield "kernel log", f.text, f"{clock(f.at)}: {f.text} (the container is not named)"
    for s in pod_mates(e, c):
        if s.status in ("exited", "dead"):
            yield "its pod", s.role, mate(s)
