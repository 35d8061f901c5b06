"""A container that has only ended is started again, which loses nothing, where the cause lies outside of it and is over.

Which causes those are stands in runbook.yaml (`mildest`), and so do those beside which a start does not help (`forbids`).
"""

import shlex
from collections.abc import Collection

from runbooks.container.evidence import ContainerFacts, Evidence, WantedContainer
from runbooks.container.keepalive import keep_alive
from runbooks.container.words import Limits, life_s, span
from runbooks.core.args.containers import StartContainer
from runbooks.core.plan import Step
from runbooks.core.rules import book

KIND = "start-container"
NAME = "start it again"


def answers(slugs: Collection[str]) -> bool:
    """Whether a start is the mildest repair of one of these causes."""
    causes = book("container-death").causes
    return any(KIND in causes[slug].mildest for slug in slugs)


def not_offered(why: str) -> str:
    """The sentence of a report, in the words of `mildest`."""
    return f"“{NAME}” is not offered: {why}"


def against(c: ContainerFacts, limits: Limits) -> str:
    """What of the container itself speaks against a start of it as it is; "" if nothing does."""
    alive, life = keep_alive((*c.entrypoint, *c.command)), life_s(c)
    if c.status != "exited":
        return f"the engine says that it is {c.status}"
    if alive and alive.seconds:
        return f"its main process is a sleep that ends after {span(alive.seconds)}"
    if life is None:
        return "how long it ran before is not known"
    if life < limits.young_life_s:
        return f"it ran for {span(life)} only, so that it may end at once again"
    return ""


def start(e: Evidence, c: ContainerFacts, w: WantedContainer) -> Step:
    """The same container once more, and in it what the fleet file says: set-up, mounts, application."""
    inside = tuple((m[0], m[2]) for m in w.mounts if m[1] == "container")
    engine, ident = shlex.join(w.engine), c.id[:12]
    then = [f"{engine} exec {ident} {shlex.join(argv)}" for argv in (*w.setup, *(argv for _, argv in inside))]
    then += [f"{engine} exec {'-d ' if w.start_detached else ''}{ident} {shlex.join(w.start)}"] if w.start else []
    args = StartContainer(
        engine=w.engine, socket=w.socket, name=c.name, id=c.id, started_at=c.started_at.isoformat() if c.started_at else "",
        setup=w.setup, setup_timeout_s=w.setup_timeout_s, mounts=inside, start=w.start, detached=w.start_detached,
    )  # fmt: skip
    more = ", and the fleet file's commands have run in it" if then else ""
    besides = "; the set-up commands find it there" if w.setup else ""
    return Step(
        kind=KIND, owner=e.node, args=args.plain(), commands=(f"{engine} start {ident}", *then), of=c.name,
        effect=f"{c.name} runs again, as the same container{more}",
        loses=f"nothing: what it wrote, its volumes, its name and its id stay{besides}",
    )  # fmt: skip
