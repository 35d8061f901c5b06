"""Starts a container that has ended, as it is, and runs in it what the fleet file says."""

from runbooks.container.parsers.docker import parse_time
from runbooks.container.words import clock
from runbooks.core.args.containers import StartContainer
from tasks.arguments import takes
from tasks.clients.ray_join import ids_at, ray_container, wait_joined
from tasks.container.act_recreate import inside_s, ran_inside
from tasks.context import ActionResult, Context
from tasks.remote.changing import change


@takes(StartContainer)
def start_container(args: StartContainer, context: Context) -> ActionResult:
    """Start exactly that container, only in the life that was judged; say its start times and what ran inside.

    Raises ActionRefused where it runs again, is gone, or ended once more meanwhile; TransportError when it did not start or
    did not stay up; RuntimeError when a command inside failed.
    """
    it = ray_container(context, args.name)
    before = ids_at(context, it)
    got = change(context, context.host, "start_container", args.plain(), 90 + inside_s(args))
    now, before_that = (clock(parse_time(str(got[name]))) for name in ("started", "before"))
    said = f"container {args.name} ({args.id[:12]}) was started at {now}, before that at {before_that}"
    return ActionResult(said=(said, *ran_inside(context, got["ran"]), *wait_joined(context, it, before)))
