"""Changes a Ray cluster: stop a job that holds resources after its own failure, start a dead raylet again."""

import shlex

from runbooks.core.args.nodes import RestartRaylet, StopRayJob
from runbooks.core.plan import Step
from runbooks.core.reading import UnknownReason
from runbooks.core.refusal import RefusalCode
from tasks.arguments import arguments, takes
from tasks.clients.ray_join import nodes_at, wait_for_new
from tasks.context import ActionRefused, ActionResult, Context
from tasks.remote.changing import change, command
from tasks.remote.probe import run_probe
from tasks.remote.unseen import UNSEEN
from tasks.transport.base import TransportError


def stop_ray_job(step: Step, context: Context) -> ActionResult:
    """Stop a job by submission id through the head's dashboard, only in the state it was judged in. Raises ActionRefused."""
    host = context.open_host(context.fleet.node(step.owner))
    return ActionResult(said=(*change(context, host, "ray_stop_job", arguments(step, StopRayJob).plain(), 60)["said"], UNSEEN))


@takes(RestartRaylet)
def restart_raylet(args: RestartRaylet, context: Context) -> ActionResult:
    """Start a node's raylet by the fleet file's command, only while none runs there; waits for its new node. Raises ActionRefused."""
    ray = context.fleet.ray
    if ray is None or args.start != ray.restart_raylet.get(args.node):
        raise ActionRefused(RefusalCode.CONFIG, "the fleet file no longer says so")
    host = context.open_host(context.fleet.node(args.node))
    ip = next((k for k, v in ray.nodes.items() if v == args.node), "")
    ask = {"temp_dir": ray.temp_dir, "window_s": 0, "tail": 0, "logs": 0, "pids": [], "driver": "", "ip": ip}
    try:
        before = frozenset(n.node_id for n in nodes_at(context, ip))
        if run_probe(host, "ray_node", ask, timeout_s=30)["raylet_alive"]:  # last of all
            raise ActionRefused(RefusalCode.IN_USE, f"a raylet runs on {args.node}")
        done = command(context, host, args.start, 120)
    except TransportError as e:
        raise RuntimeError(e.why) from e
    if done.exit != 0:
        raise RuntimeError(f"{shlex.join(args.start)}: exit {done.exit}: {done.err.strip()[-200:]}")
    joined = wait_for_new(context, ip, before)
    new = [n.node_id[:12] for n in nodes_at(context, ip) if n.alive and n.node_id not in before]
    if len(new) > 1:
        both = f"somebody else started one in this very moment: {', '.join(new)} are ALIVE at {ip}"
        raise TransportError(UnknownReason.FAILED, f"{shlex.join(args.start)}: exit 0; {both}")
    return ActionResult(said=(f"{shlex.join(args.start)}: exit 0", UNSEEN, *joined))
