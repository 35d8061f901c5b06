"""Who is at work in a container: watched for the judgment, and once more right before anything in it is ended. Changes nothing."""

from collections.abc import Sequence
from typing import Any

from runbooks.container.evidence import ContainerFacts, Mover
from runbooks.core.args.containers import Moving, RecreateContainer, RestartApplication
from runbooks.core.containers_config import ManagedContainer
from runbooks.core.reading import ODD_ANSWER, Absent, Known, Source, Unknown, UnknownReason
from runbooks.core.refusal import RefusalCode
from tasks.context import ActionRefused, Context
from tasks.diagnostic import diagnostic
from tasks.remote.probe import run_probe
from tasks.transport.base import Host, TransportError

PROBE = "at_work_inside"
UNSEEN = "its processes were watched right before; work that began in it after that could not be seen"
NONE_SEEN = "none of its processes could be seen"
# Ray's own programs serve its node and go with its raylet; its workers (ray::NAME, default_worker.py) are at work when they move
RAY_SERVICES = (
    r"/ray/(?:core/src|dashboard|autoscaler|_private/(?:log_monitor|runtime_env))\b|(?:^|/)ray start\b|-m ray\.util\.client\b|"
    r"^ray::(?:Dashboard|RuntimeEnv)Agent|^ray-dashboard-"
)


@diagnostic("work inside {it.name} · {context.target}")
def read_work(context: Context, host: Host, it: ManagedContainer, c: ContainerFacts | None) -> Known[tuple[Mover, ...]] | Absent | Unknown:
    """Its processes over a window, whoever started them."""
    if c is None or c.status != "running":
        return Absent(proof="the container does not run")
    source = Source(command="top -b -d 5 -n 2; cat /proc/PID/io", host=host.name, taken_at=context.now())
    try:
        got = _watch(context, host, c.id, (), bool(it.ray_ip))
        if "refused" in got or not got["seen"]:
            return Unknown(reason=UnknownReason.DENIED, detail=str(got.get("refused") or NONE_SEEN), source=source)
        movers = tuple(Mover(**one | {"says": context.redactor.text(one["says"])}) for one in got["at_work"])
        return Known[tuple[Mover, ...]](value=movers, source=source)
    except TransportError as e:
        return Unknown(reason=e.reason, detail=e.detail, source=source)
    except ODD_ANSWER as e:
        return Unknown(reason=UnknownReason.UNPARSABLE, detail=f"{type(e).__name__}: {e}", source=source)


def nobody_else_at_work(context: Context, args: RecreateContainer | RestartApplication, ray: bool) -> None:
    """The same look; `ray`: it is a node of a cluster.

    Raises ActionRefused where somebody is at work of whom nobody knew, or none could be seen."""
    got = _watch(context, context.host, args.id, args.moving, ray)
    refuse_at_work(context, got, args.name, f"{args.name}: {NONE_SEEN}: it ended meanwhile, or may not be looked into")


def refuse_at_work(context: Context, got: dict[str, Any], box: str, unseen: str) -> None:
    """Raises ActionRefused where a look found somebody at work in container `box`, or nobody at all (with the words `unseen`)."""
    if "refused" in got:
        raise ActionRefused(RefusalCode(str(got["code"])), context.redactor.text(str(got["refused"])))
    if not got["seen"]:
        raise ActionRefused(RefusalCode.CANNOT_CHECK, unseen)
    if got["at_work"]:
        says = "; ".join(one["says"] for one in got["at_work"][:3])
        raise ActionRefused(RefusalCode.IN_USE, context.redactor.text(f"in container {box} {says}"))


def watch_s(context: Context) -> float:
    """Seconds that a look takes at most."""
    return _limit(context, "work_window_s") + 40


def _watch(context: Context, host: Host, ident: str, known: Sequence[Moving], ray: bool) -> dict[str, Any]:
    bytes_per_s = _limit(context, "work_bytes_per_s")
    ask = {
        "container": ident, "boot_id": "", "moving": [m.plain() for m in known], "window_s": _limit(context, "work_window_s"),
        "cpu_percent": _limit(context, "work_cpu_percent"), "io_bytes_per_s": bytes_per_s, "socket_bytes_per_s": bytes_per_s,
        "service": RAY_SERVICES if ray else "",
    }  # fmt: skip
    return run_probe(host, PROBE, ask, timeout_s=watch_s(context))


def _limit(context: Context, name: str) -> float:
    return context.limit(name, "container-death")
