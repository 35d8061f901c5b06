"""What must not be done about one verdict, with the number or name that makes it wrong here."""

from collections.abc import Callable

from runbooks.core.distinct import capital
from runbooks.core.verdict import Certainty
from runbooks.gpu.verdicts import GpuVerdict
from runbooks.gpu.view import GpuView


def cautions(view: GpuView, v: GpuVerdict) -> tuple[str, ...]:
    """Sentences of the form "do not … : …". Empty for what is ruled out."""
    if v.certainty is Certainty.RULED_OUT:
        return (f"do not act on {v.slug} ({v.subject}). {capital(v.evidence[-1])}",)
    if v.benign:
        return _benign(v)
    found = _RULES.get(v.slug)
    return found(view, v) if found else ()


def _pids(v: GpuVerdict) -> str:
    return ", ".join(map(str, v.pids))


def _benign(v: GpuVerdict) -> tuple[str, ...]:
    if v.pids:
        return (f"do not kill pid {_pids(v)} for low GPU use. {capital(v.evidence[0])}",)
    return (f"do not reset {v.subject} and kill nothing by name because its table is empty. {capital(v.evidence[0])}",)


def _off_the_bus(_: GpuView, v: GpuVerdict) -> tuple[str, ...]:
    return (
        f"do not run `nvidia-smi --gpu-reset` on {v.subject}: it is gone from the bus, only a reboot brings it back",
        "do not kill -9 in a loop: a process that waits in the driver for a lost GPU can't end",
        f"do not give the node new work before a soak test. {capital(v.evidence[0])}",
    )


def _needs_reset(view: GpuView, v: GpuVerdict) -> tuple[str, ...]:
    users = sorted(p for p, held in view.holdings.items() if any(h.gpu.uuid in v.gpus for h in held))
    found = [f"do not put new work on {v.subject}. {capital(v.evidence[0])}"]
    if users:
        found.append(
            f"do not reset {v.subject} while pid {', '.join(map(str, users))} is on it: it would lose its work"
        )
    if view.in_container:
        found.append("do not try to reset from inside a container: it has not the right, and the GPU has other users")
    return tuple(found)


def _driver_stuck(_: GpuView, v: GpuVerdict) -> tuple[str, ...]:
    return (
        f"do not kill -9 pid {_pids(v)}: in state D it takes no signal",
        "do not run more nvidia-smi: each call can join the pile in state D",
        "do not restart Docker or reload the driver: both wait for the same lock",
    )


def _cut_off(_: GpuView, v: GpuVerdict) -> tuple[str, ...]:
    return (
        f"do not reset the GPU or reinstall the driver for {v.subject}: only the container lost its device nodes",
        "do not restart the container while a process in it still works: open device files keep working",
    )


def _together(_: GpuView, v: GpuVerdict) -> tuple[str, ...]:
    return (f"do not clean up node by node: {v.evidence[0]}. That is one incident at the leader or in the network",)


def _stopped(_: GpuView, v: GpuVerdict) -> tuple[str, ...]:
    return (
        f"do not rely on SIGTERM for pid {_pids(v)}: a stopped process acts on it only after SIGCONT",
        f"do not end pid {_pids(v)} before asking who stopped it: a person or a scheduler may want it back",
    )


def _defunct(view: GpuView, v: GpuVerdict) -> tuple[str, ...]:
    p = view.processes[v.pids[0]]
    found = [f"do not kill -9 pid {p.pid}: it is defunct (Z) and dead already; its parent pid {p.ppid} has to reap it"]
    found += (
        [f"do not kill -9 its live threads blindly: {p.threads - 1} of them may still write"] if p.threads > 1 else []
    )
    return tuple(found)


def _collective(_: GpuView, v: GpuVerdict) -> tuple[str, ...]:
    return (
        f"do not kill pid {_pids(v)} alone: the other ranks would wait for it until they time out",
        "do not leave it because it reads 100 %: waiting in a collective reads as busy",
        "do not reset or drain the GPUs as faulty, and do not raise the NCCL time-out: nothing here is broken hardware",
    )


def _device_spin(_: GpuView, v: GpuVerdict) -> tuple[str, ...]:
    return (
        f"do not take {v.subject} for healthy because it reads 100 %. {capital(v.evidence[0])}",
        f"do not end pid {_pids(v)} if it is one rank of a job on several nodes: stop the whole job",
    )


def _idle(view: GpuView, v: GpuVerdict) -> tuple[str, ...]:
    others = sorted(p.pid for p in view.processes.values() if p.pid not in v.pids and p.job and p.state not in "ZX")
    hit = (
        f": it would hit pid {', '.join(map(str, others))} too"
        if others
        else ": it hits whatever matches at that moment"
    )
    found = [f"do not use `pkill -f` for pid {_pids(v)}{hit}"]
    if not v.confirmed:
        found.append(f"do not kill pid {_pids(v)} yet: {v.decides[0] if v.decides else 'not proven'}")
    return tuple(found)


def _memory(_: GpuView, v: GpuVerdict) -> tuple[str, ...]:
    return (
        f"do not reset {v.subject}, and kill nothing by name, because no holder is listed. {capital(v.evidence[-1])}",
        "do not change batch sizes or allocator settings for it: the memory is held outside the job that fails",
    )


def _registered(_: GpuView, v: GpuVerdict) -> tuple[str, ...]:
    return (
        f"do not kill anything on {v.subject} for this: {v.evidence[0]}",
        "do not reset the count by a node that is not the leader: it would be overwritten",
    )


def _latched(_: GpuView, v: GpuVerdict) -> tuple[str, ...]:
    return (f"do not kill or drain anything for {v.subject}: no process is on it, only its counter sticks",)


def _nobody(_: GpuView, v: GpuVerdict) -> tuple[str, ...]:
    return (
        f"do not take {v.subject} for healthy because it is busy. {capital(v.evidence[0])}, and nobody is listed on it",
        f"do not reset {v.subject} before its user was looked for from the host",
    )


def _event(_: GpuView, v: GpuVerdict) -> tuple[str, ...]:
    return (f"do not ignore repeats on {v.subject}: {v.evidence[0]}",)


def _application(_: GpuView, v: GpuVerdict) -> tuple[str, ...]:
    return (f"do not reset or replace {v.subject} for one application fault. {capital(v.evidence[0])}",)


_RULES: dict[str, Callable[[GpuView, GpuVerdict], tuple[str, ...]]] = {
    "gpu-off-the-bus": _off_the_bus,
    "gpu-needs-reset": _needs_reset,
    "gpu-unreadable": _event,
    "driver-stuck": _driver_stuck,
    "container-lost-devices": _cut_off,
    "all-peers-at-once": _together,
    "gpu-application-fault": _application,
    "gpu-event": _event,
    "stopped": _stopped,
    "defunct-parent-live-children": _defunct,
    "defunct-unreaped": _defunct,
    "defunct-keeps-memory": _defunct,
    "busy-without-holder": _nobody,
    "collective-spin": _collective,
    "device-spin": _device_spin,
    "orphan-idle": _idle,
    "idle-process": _idle,
    "memory-without-holder": _memory,
    "holder-in-other-namespace": _memory,
    "job-without-process": _registered,
    "latched-counter": _latched,
}
