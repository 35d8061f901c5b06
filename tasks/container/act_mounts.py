"""Changes FUSE mounts that are dead: unmounted, then mounted again by the fleet file's command."""

from runbooks.core.args.containers import RemountFuse
from tasks.arguments import takes
from tasks.context import ActionResult, Context
from tasks.remote.changing import change


@takes(RemountFuse)
def remount_fuse(args: RemountFuse, context: Context) -> ActionResult:
    """Unmount a dead FUSE mount and mount it again, on the host or in a running container, from its host.

    Refused if it answers, its process lives, or whether it does can't be told."""
    ask = args.plain("path", "mount", *(() if args.where == "host" else ("engine", "id")))
    got = change(context, context.host, "remount", ask, 150)
    return ActionResult(said=tuple(context.redactor.text(x) for x in got["said"]))
