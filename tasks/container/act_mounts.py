"""Changes FUSE mounts that are dead: unmounted, then mounted again by the fleet file's command."""

from runbooks.core.plan import Step
from tasks.context import ActionResult, Context
from tasks.remote.changing import change


def remount_fuse(step: Step, context: Context) -> ActionResult:
    """Unmount a dead FUSE mount and mount it again, on the host or in a running container, from its host.

    Refused if it answers, its process lives, or whether it does can't be told."""
    args = step.args
    ask = {"path": args["path"], "mount": args["mount"]}
    if args["where"] != "host":
        ask |= {"engine": args["engine"], "id": args["id"]}
    got = change(context, context.host, "remount", ask, 150)
    return ActionResult(said=tuple(context.redactor.text(x) for x in got["said"]))
