"""Ends listed processes of a node and proves that the GPU memory which they held came back; or lets stopped ones go on."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from runbooks.core.args.nodes import ContinueProcesses, TerminateProcesses
from runbooks.core.gpu_set import GpuSet
from runbooks.core.plan import Step
from runbooks.core.reading import Known, Unknown, UnknownReason, value_or
from tasks.arguments import arguments
from tasks.context import ActionResult, Context
from tasks.remote.changing import change
from tasks.remote.gpus import Gpus, read_gpus, read_presence
from tasks.transport.base import TransportError

TOLERANCE = 64 << 20  # bytes: a context's own overhead and rounding to MiB
LOOK_EVERY_S = 1.0  # at the memory, until it is back or the limit is over
WATCH_S = 3.0  # how long it is watched after SIGCONT


def terminate_processes(step: Step, context: Context) -> ActionResult:
    """TERM, then KILL, to exactly the listed (pid, start) pairs; says which ended how and how much memory came back.

    On the node that owns the step: the target of a run may be a rendezvous, which has many.
    Refused when the boot id, a start time, user, program, session or cgroup changed, or when a process outside the list
    belongs to it. A stopped process keeps TERM pending and is ended by KILL; it is not continued here (SIGCONT would let
    it run on with what it holds): `continue_processes` does that.
    """
    args = arguments(step, TerminateProcesses)
    context = replace(context, target=step.owner)
    before = _gpus(context) if args.gpu_uuids else None
    ask = args.plain("boot_id", "processes", "cgroup", "sid", "grace_s") | _clients(before, args.gpu_uuids)
    got = change(context, context.host, "terminate", ask, timeout_s=args.grace_s + 40)
    said = [_outcome(one) for one in got["ended"]]
    said += [f"appeared meanwhile, left alone: {one}" for one in got["appeared"]]
    lasting = [one for one in got["ended"] if "survives" in one["outcome"]]
    memory, proven = _memory(context, args, before) if before is not None else ([], True)
    said += memory
    if lasting or got["appeared"] or not proven:
        raise TransportError(UnknownReason.FAILED, "; ".join(said))  # no later step may build on it
    return ActionResult(said=tuple(said))


def continue_processes(step: Step, context: Context) -> ActionResult:
    """SIGCONT to exactly the listed (pid, start) pairs, and the proof: each runs at the end of WATCH_S, and what it did meanwhile.

    Refused when the boot id, a start time, user or program changed, when one has ended or runs already, and when a debugger
    holds it. Raises TransportError where one was stopped again or ended.
    """
    ask = arguments(step, ContinueProcesses).plain() | {"watch_s": WATCH_S}
    context = replace(context, target=step.owner)
    got = change(context, context.host, "go_on", ask, timeout_s=WATCH_S + 40)
    said = tuple(_went_on(one) for one in got["continued"])
    if any(one["outcome"] != "runs" for one in got["continued"]):
        raise TransportError(UnknownReason.FAILED, "; ".join(said))
    return ActionResult(said=said)


def _went_on(one: Mapping[str, Any]) -> str:
    if one["outcome"] == "ended":
        return f"pid {one['pid']} ended {one['seconds']} s after it was continued"
    if one["outcome"] == "stopped again":
        return f"pid {one['pid']} is stopped again: whoever stopped it does so again, or it waits for a terminal's input"
    did = [] if one["cpu_s"] is None else [f"{one['cpu_s']:.2f} s of CPU"]
    did.append("its I/O was not readable" if one["io_bytes"] is None else f"{one['io_bytes']} bytes of I/O")
    still = "" if one["cpu_s"] or one["io_bytes"] else "; it has not worked yet: what it waits for was not read"
    return f"pid {one['pid']} runs again (state {one['state']}): {', '.join(did)} in {WATCH_S:.0f} s{still}"


def _gpus(context: Context) -> Gpus:
    presence = read_presence(context)
    return presence if isinstance(presence, Unknown) else read_gpus(context, presence, 0, 1)


def _clients(gpus: Gpus | None, uuids: tuple[str, ...]) -> dict[str, list[int]]:
    """PIDs that the driver lists now, on the plan's GPUs and on others."""
    found: dict[str, list[int]] = {"on_these": [], "on_others": []}
    for gpu in value_or(gpus, GpuSet(gpus=())).gpus if gpus is not None else ():
        here = "on_these" if gpu.uuid in uuids else "on_others"
        found[here] += [p.pid for p in value_or(gpu.processes, ())]
    return {"on_these": found["on_these"], "on_others": sorted(set(found["on_others"]) - set(found["on_these"]))}


def _outcome(one: Mapping[str, Any]) -> str:
    text = f"pid {one['pid']}: {one['outcome']}"
    text += f" after {one['seconds']} s" if one.get("seconds") is not None else ""
    if one.get("kept_pending"):
        text += " (it was stopped: TERM stays pending for a stopped process, so KILL followed)"
    if "survives" in one["outcome"]:
        text += "; it waits in the kernel and can't be ended: only a reset of the GPU or a reboot frees it"
    return text


def _memory(context: Context, args: TerminateProcesses, before: Gpus) -> tuple[list[str], bool]:
    """What became of the memory, in words, and whether its return is proven."""
    if not isinstance(before, Known):
        return ["GPU memory could not be read before, so that its return is not proven"], False
    used = _used(before, args.gpu_uuids)
    want = args.expect_freed_bytes
    after, waited = before, 0.0
    within_s = context.limit("vanish_s", "zombie-gpu")
    while waited <= within_s:
        now = _gpus(context)
        if not isinstance(now, Known):
            return ["GPU memory could not be read after, so that its return is not proven"], False
        after = now
        if used - _used(after, args.gpu_uuids) >= want - TOLERANCE:
            return [_freed(used, _used(after, args.gpu_uuids), want)], True
        context.sleep(LOOK_EVERY_S)
        waited += LOOK_EVERY_S
    back = used - _used(after, args.gpu_uuids)
    missing = f"only {_mib(back)} of {_mib(want)} came back within {within_s:.0f} s: something else still holds it"
    return [missing], False


def _used(gpus: Known[GpuSet], uuids: tuple[str, ...]) -> int:
    return sum(g.memory_used_bytes for g in gpus.value.gpus if g.uuid in uuids)


def _freed(before: int, after: int, want: int) -> str:
    back = f"{_mib(before - after)} of GPU memory came back ({_mib(want)} expected)"
    return f"{back}: {_mib(before)} used before, {_mib(after)} now"


def _mib(size: int) -> str:
    return f"{size / (1 << 20):.0f} MiB"
