"""What would be done about a container's death, step by step, from the causes. Identities and commands only."""

import json
import shlex
from collections.abc import Sequence

from runbooks.container.alive import steady_for
from runbooks.container.backoff import KEPT, kept_name
from runbooks.container.company import moving
from runbooks.container.evidence import ContainerFacts, Evidence, WantedContainer
from runbooks.container.keepalive import keep_alive
from runbooks.container.kept import removals
from runbooks.container.others import PROJECT
from runbooks.container.start_again import NAME, against, answers, not_offered, start
from runbooks.container.stops import stop_loops, stop_units
from runbooks.container.typed import starting_again
from runbooks.container.words import Limits, deaths
from runbooks.core.args.containers import (
    FreeEngineSpace,
    RecreateContainer,
    RemountFuse,
    RestartApplication,
    StartEngine,
)
from runbooks.core.plan import Plan, Step
from runbooks.core.reading import Known, value_of
from runbooks.core.verdict import Cause, Certainty

DEAD = frozenset(
    [
        "keep-alive-ended", "main-exited-error", "oom-container", "oom-host", "killed-from-outside",
        "killed-through-engine", "crashed", "host-rebooted", "daemon-restarted", "daemon-upgraded",
    ]
)  # fmt: skip # what a recreation answers
INSIDE = frozenset(("application-dead", "raylet-gone", "application-stuck", "head-replaced"))
NEEDED = ("daemon", "siblings", "supervisors")  # an engine that hangs leaves it half done; one not seen would fight
SETTLE_MORE_S = 0.5  # design: the look comes after the last moment that counts, not at it


def first_read(e: Evidence) -> tuple[str, ...]:
    """What must be read before anything is planned."""
    return tuple(name for name in NEEDED if not isinstance(getattr(e, name), Known))


def plans_for(e: Evidence, causes: Sequence[Cause], limits: Limits) -> tuple[Plan, ...]:
    """The plans on offer, or none. Only confirmed causes count."""
    sure = [c for c in causes if c.certainty is Certainty.CONFIRMED]
    slugs = {c.slug for c in sure if not c.benign}
    w, c = e.wanted, value_of(e.container)
    if w is None or e.hands_off or KEPT in e.name:  # one that was set aside never runs again beside its successor
        return ()
    if slugs == {"kept-container"}:
        return (_plan("remove the kept containers", tuple(removals(e, w, limits)), slugs, limits),)
    if {"daemon-down", "daemon-upgraded"} & slugs and value_of(e.daemon) is None:
        why = not_offered("its engine does not run") if answers(slugs) else ""
        return (_plan("start the engine", (start_daemon(e, w),), slugs, limits, why),)
    units = stop_units(e)
    if first_read(e):
        return ()
    if c is None or len(units) < _in_charge(causes):
        return ()
    steps = [*units, *stop_loops(e), *free_space(e, w, slugs), *remounts(e, c, w)]
    plans = [
        p for p in _restore(e, c, w, slugs, limits, steps, _failed_after_a_kill(causes)) if p.steps != tuple(units)
    ]  # a unit alone is left alone
    return tuple(p.model_copy(update={"settle_s": _settle(e, limits)}) for p in plans)


def _settle(e: Evidence, limits: Limits) -> float:
    """Longer than the fault's own period: after several short lives, longer than the longest of them."""
    return steady_for(e, limits, len(deaths(e, limits))) + SETTLE_MORE_S


def _failed_after_a_kill(causes: Sequence[Cause]) -> bool:
    """A process in it was killed for memory, and the main one ended with an error beside that."""
    sure = {c.slug: c.certainty for c in causes}
    return sure.get("oom-child") is Certainty.CONFIRMED and sure.get("main-exited-error") in (Certainty.CONFIRMED, Certainty.LIKELY)


def _restore(e: Evidence, c: ContainerFacts, w: WantedContainer, slugs: set[str], limits: Limits,
             steps: list[Step], failed: bool) -> tuple[Plan, ...]:  # fmt: skip
    dead, mild = c.status in ("exited", "dead", "created"), answers(slugs)
    objection = against(c, limits) if mild else ""
    why = not_offered(objection) if objection else ""
    serves = "main-exited-zero" in slugs and bool(w.start or w.ray_ip or w.match)
    stale = "stale-fuse" in slugs and any(m.where == "host" and m.state == "dead" for m in value_of(e.fuse) or ())
    host = value_of(e.host)
    lost = "devices-lost" in slugs and host is not None and not host.missing_devices
    if dead and "devices-lost" in slugs and host is not None and host.missing_devices:
        return ()  # the host itself lacks them: a new container could not be started either
    if dead and (DEAD & slugs or failed or serves or stale):
        if c.auto_remove:
            return ()
        again = [_plan(NAME, (*steps, start(e, c, w)), slugs, limits)] if mild and not why else []
        return (*again, _plan("recreate", (*steps, recreate(e, c, w)), slugs, limits, why))
    if not dead and (lost or (stale and _binds_stale(e, c))) and not c.auto_remove:
        return (_plan("replace the running container", (*steps, recreate(e, c, w)), slugs, limits, why),)
    if not dead and INSIDE & slugs and w.start:
        return (_plan("restart the application", (*steps, restart_application(e, c, w)), slugs, limits),)
    return (_plan("repair around it", tuple(steps), slugs, limits, why),) if steps else ()


def _plan(name: str, steps: tuple[Step, ...], slugs: set[str], limits: Limits, why: str = "") -> Plan:
    restores = any(s.kind in ("recreate-container", "restart-application", "start-container") for s in steps)
    return Plan(name=name, steps=steps, for_causes=tuple(sorted(slugs)), settle_s=limits.steady_s, why=why,
                also_gone=tuple(sorted(INSIDE)) if restores else ())  # fmt: skip


def _in_charge(causes: Sequence[Cause]) -> int:
    """How many others than an old loop restart it; an orchestrator, cron, a queued start and a unit of an old id can't be stopped."""
    return sum(c.slug == "second-supervisor" and c.benign for c in causes)


def _binds_stale(e: Evidence, c: ContainerFacts) -> bool:
    """True if a dead host mount is bound into the container: that bind stays dead after a new mount."""
    dead = [m.path for m in value_of(e.fuse) or () if m.where == "host" and m.state == "dead"]
    return any(m.type == "bind" and any(_inside(m.source, d) for d in dead) for m in c.mounts)


def _inside(path: str, top: str) -> bool:
    return path == top or path.startswith(top.rstrip("/") + "/")


def recreate(e: Evidence, c: ContainerFacts, w: WantedContainer) -> Step:
    """A new container of the same configuration; the old one stays under another name."""
    alive = keep_alive((*c.entrypoint, *c.command))
    old, engine = kept_name(c.name, c.id), shlex.join(w.engine)
    inside = [m for m in w.mounts if m[1] == "container"]
    exec_ = [f"{engine} exec {c.name} {shlex.join(a)}" for a in (*w.setup, *(m[2] for m in inside))]
    start = [f"{engine} exec {'-d ' if w.start_detached else ''}{c.name} {shlex.join(w.start)}"] if w.start else []
    return Step(
        kind="recreate-container",
        owner=e.node,
        args=RecreateContainer(
            engine=w.engine, socket=w.socket, name=c.name, id=c.id, kept=old,
            started_at=c.started_at.isoformat() if c.started_at else "", running=c.status in ("running", "restarting"),
            sleep=(alive.at, alive.length) if alive and alive.seconds else (), setup=w.setup, setup_timeout_s=w.setup_timeout_s,
            mounts=tuple((m[0], m[2]) for m in inside), start=w.start, detached=w.start_detached, moving=moving(e),
        ).plain(),
        commands=(
            _create(c, w),
            f"{engine} update --restart=no {c.id[:12]}",
            *([f"{engine} stop {c.id[:12]}"] if c.status in ("running", "restarting") else []),
            f"{engine} rename {c.id[:12]} {old}",
            f"{engine} rename {c.name}.new-{c.id[:12]} {c.name}",
            f"{engine} start {c.name}", *exec_, *start,
        ),
        effect=f"{c.name} runs again as a new container with the same configuration; the old one is kept as {old}",
        loses="what runs inside now" if c.status == "running" else "nothing: the old container and its volumes stay" + (
            "; until it is removed `compose up` on its project would take it for the service and remove the new one"
            if c.labels.get(PROJECT) else ""),
        of=c.name,
    )  # fmt: skip


CREATE = """\
.HostConfig as $h | ([$h.Binds[]? | split(":")[1]] + [$h.Mounts[]?.Target]) as $have
| [.Mounts[] | select(.Type == "volume" and (.Destination as $d | $have | index($d) | not)) | "\\(.Name):\\(.Destination)"] as $more
| (.Config | if .Hostname == $id then del(.Hostname) else . end) + {HostConfig: ($h + {Binds: (($h.Binds // []) + $more)})}
+ {NetworkingConfig: {EndpointsConfig: (.NetworkSettings.Networks | map_values({IPAMConfig, Links, DriverOpts}))}}"""


def _create(c: ContainerFacts, w: WantedContainer) -> str:
    """The same configuration given back to the engine under a passing name; a sleep that ends becomes one that does not."""
    alive = keep_alive((*c.entrypoint, *c.command))
    endless = alive.endless if alive and alive.seconds else ()
    words = {"Entrypoint": endless[: len(c.entrypoint)], "Cmd": endless[len(c.entrypoint) :]} if endless else {}
    made = CREATE.replace("\n", " ") + "".join(f" | .{k} = {json.dumps(list(v) or None)}" for k, v in words.items())
    api = f"curl -sSf --unix-socket {shlex.quote(w.socket)}"
    take = f"jq --arg id {c.id[:12]} {shlex.quote(made)}"
    new = shlex.quote(f"http://engine/containers/create?name={c.name}.new-{c.id[:12]}")
    return f"{api} http://engine/containers/{c.id[:12]}/json | {take} | {api} -H 'Content-Type: application/json' -d @- {new}"


def restart_application(e: Evidence, c: ContainerFacts, w: WantedContainer) -> Step:
    """The application inside a container that runs: its leftovers ended, then started again."""
    args = RestartApplication(
        engine=w.engine, socket=w.socket, name=c.name, id=c.id, match=w.match or r"(^|/)raylet(\s|$)",
        started_at=c.started_at.isoformat() if c.started_at else "", start=w.start, detached=w.start_detached, moving=moving(e),
    )  # fmt: skip
    return Step(
        kind="restart-application", owner=e.node, args=args.plain(), commands=starting_again(args),
        effect="the application runs again inside the same container", loses="what is left of the application inside",
        of=c.name,
    )  # fmt: skip


def remounts(e: Evidence, c: ContainerFacts, w: WantedContainer) -> list[Step]:
    """Dead FUSE mounts that the fleet file says how to mount: unmounted, then mounted. Inside only while it runs."""
    how = {(m[0], m[1]): m[2] for m in w.mounts}
    steps = []
    for m in value_of(e.fuse) or ():
        argv = how.get((m.path, m.where))
        if m.state != "dead" or argv is None or (m.where == "container" and c.status != "running"):
            continue
        run = f"{shlex.join(w.engine)} exec {c.id[:12]} " if m.where == "container" else ""
        steps.append(
            Step(
                kind="remount-fuse", owner=e.node,
                args=RemountFuse(
                    path=m.path, where="container" if m.where == "container" else "host", mount=argv, type=m.type,
                    engine=w.engine, id=c.id if m.where == "container" else "",
                ).plain(),
                commands=(f"{run}umount -l {shlex.quote(m.path)}", f"{run}{shlex.join(argv)}"),
                effect=f"{m.path} is mounted again and can be read", loses="nothing: its process is gone already",
            )
        )  # fmt: skip
    return steps


def start_daemon(e: Evidence, w: WantedContainer) -> Step:
    """The engine's daemon, which is proven down."""
    return Step(
        kind="start-engine", owner=e.node,
        args=StartEngine(engine=w.engine, start=w.daemon_start, pidfile=w.daemon_pidfile).plain(),
        commands=(shlex.join(w.daemon_start),),
        effect="the engine answers; containers with a restart policy come back by themselves",
    )  # fmt: skip


def free_space(e: Evidence, w: WantedContainer, slugs: set[str]) -> list[Step]:
    """Disk space that only nameless images and the build cache hold. Never volumes."""
    daemon = value_of(e.daemon)
    if "disk-full" not in slugs or daemon is None:
        return []
    engine = shlex.join(w.engine)
    return [
        Step(
            kind="free-engine-space", owner=e.node, args=FreeEngineSpace(engine=w.engine).plain(),
            commands=(f"{engine} image prune --force", f"{engine} builder prune --force"),
            effect="space of images without a name and of the build cache is free",
            loses="images without a name and the build cache; no volume, no container, no named image",
        )
    ]  # fmt: skip
