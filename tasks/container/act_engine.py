"""Changes an engine as a whole: its daemon from down to up, its disk space, another supervisor of its containers."""

import time

from runbooks.core.args.containers import FreeEngineSpace, StartEngine, StopSupervisor, StopUnit
from tasks.arguments import takes
from tasks.context import ActionResult, Context
from tasks.remote.changing import change, command
from tasks.remote.unseen import UNSEEN
from tasks.transport.base import TransportError

KEPT_OF_A_COMMAND = 500  # characters of a supervisor's command line, as its reading keeps them


@takes(StartEngine)
def start_engine(args: StartEngine, context: Context) -> ActionResult:
    """Start the engine's daemon, only if its process is gone. Raises ActionRefused while it runs."""
    got = change(context, context.host, "start_engine", args.plain("pidfile", "start"), 100)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            if (
                context.host.run((*args.engine, "version", "--format", "{{.Server.Version}}"), timeout_s=10).exit
                == 0
            ):
                return ActionResult(said=(*got["said"], "the engine answers"))
        except TransportError:
            pass
        context.sleep(0.5)
    raise RuntimeError("; ".join(got["said"]) + "; it does not answer after 60 s")


@takes(FreeEngineSpace)
def free_engine_space(args: FreeEngineSpace, context: Context) -> ActionResult:
    """Remove images without a name and the build cache. Never volumes, containers or named images."""
    engine, said = args.engine, list[str]()
    for words in (("image", "prune", "--force"), ("builder", "prune", "--force")):
        try:
            done = command(context, context.host, (*engine, *words), 300)
        except TransportError as e:
            raise TransportError(e.reason, "; ".join((*said, e.detail)), e.command) from e
        last = (done.out.strip() or done.err.strip()).splitlines()[-1:] or [""]
        said.append(f"{' '.join(words)}: exit {done.exit}, {last[0][:200]}")
    told = "whatever had no name and no container at that moment went, also what lost its name since the judgment"
    return ActionResult(said=(*said, told))


@takes(StopUnit)
def stop_unit(args: StopUnit, context: Context) -> ActionResult:
    """Stop a systemd unit that restarts a container, in the life it was judged in. Raises ActionRefused after another start."""
    ask = {"unit": args.unit, "life": args.life, "uid": args.uid}
    return ActionResult(said=(*change(context, context.host, "stop_unit", ask, 230)["said"], UNSEEN))


@takes(StopSupervisor)
def stop_supervisor(args: StopSupervisor, context: Context) -> ActionResult:
    """End an old retry loop by pid, start time, boot id and program, SIGTERM only. Raises ActionRefused if it is another process."""
    ask = args.plain("pid", "start_ticks", "boot_id", "command") | {"kept": KEPT_OF_A_COMMAND}
    return ActionResult(said=tuple(change(context, context.host, "stop_process", ask, 20)["said"]))
