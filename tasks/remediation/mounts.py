"""Changes FUSE mounts that are dead: unmounted, then mounted again by the fleet file's command."""

import shlex

from runbooks.core.plan import Step
from tasks.context import ActResult, Context, Refused
from tasks.remediation.changing_probe import change
from tasks.transport.base import Host, TransportError


def remount_fuse(step: Step, context: Context) -> ActResult:
    """Unmount a dead FUSE mount and mount it again, on the host or in a container. Raises Refused if it is alive."""
    args = step.args
    if args["where"] == "host":
        got = change(context.host, "remount", {"path": args["path"], "mount": args["mount"]}, 150)
        return ActResult(said=tuple(context.redactor.text(x) for x in got["said"]))
    return _inside(context.host, args["engine"], args["id"], args["path"], args["mount"])


def _inside(host: Host, engine: list[str], ident: str, path: str, mount: list[str]) -> ActResult:
    """The same with the tools of a running container."""
    run = (*engine, "exec", ident)
    try:
        alive = host.run(("timeout", "5", *run, "ls", path), timeout_s=10)
        if alive.exit == 0:
            raise Refused(f"{path} inside {ident[:12]} answers: it is not dead")
        gone = host.run((*run, "umount", "-l", path), timeout_s=20)
        done = host.run((*run, *mount), timeout_s=60)
        seen = host.run(("timeout", "5", *run, "ls", path), timeout_s=10)
    except TransportError as e:
        raise RuntimeError(f"{e.reason}: {e.detail}") from e
    said = (f"umount -l {path}: exit {gone.exit}", f"{shlex.join(mount)}: exit {done.exit}")
    if done.exit != 0 or seen.exit != 0:
        raise RuntimeError("; ".join(said) + f"; the mount can't be read: {seen.err.strip()[:200]}")
    return ActResult(said=(*said, f"{path} is mounted and can be listed"))
