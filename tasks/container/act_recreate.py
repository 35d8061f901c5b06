"""Changes containers: recreate one with the same configuration, restart its application, remove a kept one."""

import shlex
from typing import Any

from runbooks.container.backoff import delay_s, is_kept, recent
from runbooks.core.args.containers import RecreateContainer, RemoveKeptContainer, RestartApplication, StartContainer
from runbooks.core.containers_config import ManagedContainer
from runbooks.core.reading import Known
from tasks.arguments import takes
from tasks.clients.ray_join import ids_at, ray_container, wait_joined
from tasks.container.at_work import UNSEEN, nobody_else_at_work
from tasks.container.docker import read_siblings
from tasks.context import ActionResult, Context
from tasks.remote.changing import change


@takes(RecreateContainer)
def recreate_container(args: RecreateContainer, context: Context) -> ActionResult:
    """Create a container with the configuration of the dead one, under its name; keep the old one, unable to restart.

    One command on the node checks the identity, reads the configuration (secrets stay there) and does it. Raises ActionRefused;
    RuntimeError when a step failed.
    """
    host = context.host
    it = ray_container(context, args.name)
    before = ids_at(context, it)
    if args.running:
        nobody_else_at_work(context, args, it is not None)
    got = change(context, host, "recreate", _asked(args), 90 + inside_s(args))
    said = [*got["said"], f"new container {got['id'][:12]} runs as {args.name}",
            f"the old one is kept as {args.kept}, restart policy no"]  # fmt: skip
    said += _compared(context, got["differences"])
    said += ran_inside(context, got["ran"]) + ([UNSEEN] if args.running else [])
    return ActionResult(said=(*said, *wait_joined(context, it, before)), facts={"new_id": str(got["id"])})


@takes(RecreateContainer)
def recreation_wait(args: RecreateContainer, context: Context) -> tuple[float, str]:
    """(seconds to wait first, why): as the number of recent deaths asks for (`backoff_*` of the limits). Changes nothing."""
    it = ManagedContainer(name=args.name, node=context.target, engine=args.engine)
    found = read_siblings(context, context.host, it, args.id)
    kept = [s for s in found.value if is_kept(s.name, it.name)] if isinstance(found, Known) else []
    window = context.limit("deaths_window_s", "container-death")
    deaths = recent([s.finished_at for s in kept if s.finished_at], context.now(), window)
    base, cap = context.limit("backoff_base_s", "container-death"), context.limit("backoff_cap_s", "container-death")
    wait = delay_s(len(deaths) + 1, base, cap)
    return max(0.0, wait), f"waited {wait:.0f} s: {len(deaths) + 1} deaths within {window:.0f} s"


def _asked(args: RecreateContainer | RestartApplication) -> dict[str, Any]:
    """What the probe takes: who is at work was looked at before."""
    return {name: value for name, value in args.plain().items() if name != "moving"}


def _compared(context: Context, differences: list[str]) -> list[str]:
    if not differences:
        return ["configuration compared field by field: equal"]
    return [context.redactor.text(f"differs: {d}") for d in differences]


def inside_s(args: RecreateContainer | StartContainer) -> float:
    """Seconds that the commands inside may take together."""
    return args.setup_timeout_s * (len(args.setup) + len(args.mounts) + 1)


def ran_inside(context: Context, ran: list[dict[str, Any]]) -> list[str]:
    """What ran inside, each with its exit code. Raises RuntimeError when the last one failed."""
    lines = []
    for r in ran:
        argv = shlex.join(context.redactor.argv(r["argv"]))
        last = f": {context.redactor.text(r['last'])}" if r["last"] else ""
        lines.append(f"inside: {argv} -> exit {r['exit']} after {r['seconds']} s{last}")
    if ran and ran[-1]["exit"] != 0:
        raise RuntimeError(
            "the container is there, but a command inside failed and the rest was not run: " + "; ".join(lines)
        )
    return lines


@takes(RestartApplication)
def restart_application(args: RestartApplication, context: Context) -> ActionResult:
    """End what is left of the application inside a running container and start it again. Raises ActionRefused."""
    it = ray_container(context, args.name)
    before = ids_at(context, it)
    nobody_else_at_work(context, args, it is not None)
    got = change(context, context.host, "restart_application", _asked(args), 120)
    return ActionResult(said=(*got["said"], *ran_inside(context, got["ran"]), UNSEEN, *wait_joined(context, it, before)))


@takes(RemoveKeptContainer)
def remove_kept_container(args: RemoveKeptContainer, context: Context) -> ActionResult:
    """Remove a container that a recreation has set aside, by id; its volumes stay. Raises ActionRefused."""
    got = change(context, context.host, "remove_kept", args.plain(), 60)
    return ActionResult(said=tuple(got["said"]))
