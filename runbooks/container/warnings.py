"""What must not be done, and what a person must do, for the causes that were found; texts come from runbook.yaml."""

from functools import cache

from runbooks.container.evidence import ContainerFacts, Evidence
from runbooks.container.plans import first_read
from runbooks.container.words import known
from runbooks.core.knowledge import CauseKnowledge, load_runbook
from runbooks.core.verdict import Cause, Certainty

FIRST_BY_HAND = frozenset(
    [
        "image-gone",
        "mount-gone",
        "mount-point-in-the-way",
        "driver-changed",
        "ended-together",
        "failed-with-code-zero",
        "shm-full",
        "inodes-full",
        "bus-error",
        "bad-command",
        "start-refused",
        "daemon-stuck",
        "head-gone",
        "head-stuck",
        "head-unreachable",
        "dashboard-down",
        "fuse-hung",
        "restart-loop",
        "killed-by-probe",
        "container-missing",
        "too-many-deaths",
        "version-mismatch",
        "oom-container",
        "oom-child",
        "disk-full",
        "devices-lost",
    ]
)


@cache
def _knowledge() -> dict[str, CauseKnowledge]:
    return load_runbook("container-death").causes


def must_not(e: Evidence, c: ContainerFacts | None, causes: tuple[Cause, ...]) -> tuple[str, ...]:
    """Reasons that apply here, each once."""
    lines = [line for x in causes for line in _knowledge()[x.slug].must_not]
    if c is not None and c.exit_code == 137 and not any(x.slug.startswith("oom-") for x in causes):
        lines.append("raise the memory limit: 137 is SIGKILL, and no kernel line says that it was for memory")
    if any(m.state != "alive" for m in known(e.fuse) or ()):
        lines.append("write, mkdir or rm -rf below a mount path while it is down: it hits the folder underneath")
    lines.append(f"remove the container {e.name} or its volumes: its configuration and last words would be lost")
    if e.hands_off:
        lines.insert(0, f"touch {e.node}: the fleet file says hands off")
    return tuple(dict.fromkeys(lines))


def do_now(e: Evidence, c: ContainerFacts | None, causes: tuple[Cause, ...]) -> tuple[str, ...]:
    """What a person must do, in order of repair."""
    known_ = _knowledge()
    lines = [known_[x.slug].remedy for x in causes if x.slug in FIRST_BY_HAND and not x.innocent]
    lines += [f"decide {x.slug}: read {d}" for x in causes if x.certainty is Certainty.POSSIBLE for d in x.decides]
    if c is not None and c.auto_remove:
        lines.append(
            f"{e.name} has --rm: once it ends it cannot be recreated from its record; write its options down now"
        )
    unread = [name for name in first_read(e) if c is not None]
    if unread:
        lines.append(f"read {', '.join(unread)} first: nothing is offered before")
    for x in causes:
        if x.slug == "second-supervisor" and x.innocent:
            lines.append(f"leave the restart to {x.subject}, or take it away from there first")
    return tuple(dict.fromkeys(lines))
