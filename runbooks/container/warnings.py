"""What must not be done, and what a person must do, besides what runbook.yaml says of the causes that were found."""

from runbooks.container.evidence import ContainerFacts, Evidence
from runbooks.container.plans import first_read
from runbooks.core.judgment import tier
from runbooks.core.reading import value_of
from runbooks.core.verdict import Cause


def must_not(e: Evidence, c: ContainerFacts | None, causes: tuple[Cause, ...]) -> tuple[str, ...]:
    """Reasons that apply here besides those of the causes."""
    lines = []
    if c is not None and c.exit_code == 137 and not any(x.slug.startswith("oom-") and tier(x) < 3 for x in causes):
        lines.append("raise the memory limit: 137 is SIGKILL, and no kernel line says that it was for memory")
    if any(m.state != "alive" for m in value_of(e.fuse) or ()):
        lines.append("write, mkdir or rm -rf below a mount path while it is down: it hits the folder underneath")
    lines.append(f"remove the container {e.name} or its volumes: its configuration and last words would be lost")
    if e.hands_off:
        lines.insert(0, f"touch {e.node}: the fleet file says hands off")
    return tuple(lines)


def besides(e: Evidence, c: ContainerFacts | None, causes: tuple[Cause, ...]) -> tuple[str, ...]:
    """What a person must do besides the remedies."""
    lines = []
    if c is not None and c.auto_remove:
        lines.append(
            f"{e.name} has --rm: once it ends it cannot be recreated from its record; write its options down now"
        )
    unread = [name for name in first_read(e) if c is not None]
    if unread:
        lines.append(f"read {', '.join(unread)} first: nothing is offered before")
    for x in causes:
        if x.slug == "second-supervisor" and x.benign:
            lines.append(f"leave the restart to {x.subject}, or take it away from there first")
    return tuple(dict.fromkeys(lines))
