"""Which processes belong to what is ended: all of them listed, none of them at work, or nothing is ended."""

from dataclasses import dataclass

from runbooks.zombie_gpu.activity import activity
from runbooks.zombie_gpu.evidence import Process
from runbooks.zombie_gpu.innocents import supervisor
from runbooks.zombie_gpu.verdicts import Verdict
from runbooks.zombie_gpu.view import View


@dataclass(frozen=True)
class Family:
    """One kill set: the members share a session or a cgroup, and the fault."""

    members: tuple[Process, ...]
    sid: int
    cgroup: str
    gpus: tuple[str, ...]
    bytes: int
    slugs: tuple[str, ...]
    container: str = ""  # its first process is a container's: that is restarted instead, and nothing is signalled


def families(
    view: View, verdicts: tuple[Verdict, ...], hardware: tuple[Verdict, ...]
) -> tuple[list[Family], list[str]]:
    """Kill sets for the confirmed causes whose remedy is to end processes, and why others get none."""
    sets: dict[tuple[int, str], tuple[dict[int, Process], set[str]]] = {}
    notes: list[str] = []
    for v in (v for v in verdicts if v.kill and v.confirmed and not v.innocent):
        for root in (view.processes[pid] for pid in v.pids):
            members, why_not = _members(view, root, v, verdicts, hardware)
            if why_not:
                notes.append(f"pid {root.pid} is not ended from here: {why_not}")
                continue
            kept, slugs = sets.setdefault((root.sid, root.cgroup), ({}, set()))
            kept.update({p.pid: p for p in members})
            slugs.add(v.slug)
    return [_family(view, kept, slugs) for _, (kept, slugs) in sorted(sets.items())], notes


def _family(view: View, kept: dict[int, Process], slugs: set[str]) -> Family:
    members = tuple(kept[k] for k in sorted(kept))
    gpus = sorted({h.gpu.uuid for p in members for h in view.holdings.get(p.pid, ())})
    total = sum(view.held_bytes(p.pid) or 0 for p in members)
    first = members[0]
    return Family(members, first.sid, first.cgroup, tuple(gpus), total, tuple(sorted(slugs)))


def _members(
    view: View, root: Process, v: Verdict, verdicts: tuple[Verdict, ...], hardware: tuple[Verdict, ...]
) -> tuple[list[Process], str]:
    """Root, its descendants, and idle kin of the same job and session; or why nothing may be ended."""
    why_not = _forbidden(view, root, v, verdicts, hardware)
    if why_not:
        return [], why_not
    innocent = {pid for w in verdicts if w.innocent for pid in w.pids}
    guarded = innocent | {a for pid in innocent for a in view.ancestors(pid)}
    below = [q for q in view.family_down(root.pid) if q.state not in "ZX"]
    members = [root, *below, *_kin(view, root, guarded)]
    for q in members:
        why_not = _not_this_one(view, root, q, guarded)
        if why_not:
            return [], why_not
    return members, ""


def _forbidden(
    view: View, root: Process, v: Verdict, verdicts: tuple[Verdict, ...], hardware: tuple[Verdict, ...]
) -> str:
    """What stands above this cause: hardware, a supervisor, ranks elsewhere."""
    for h in hardware:
        if not h.gpus or set(h.gpus) & set(v.gpus) or h.slug in ("gpu-off-the-bus", "driver-stuck"):
            return f"{h.slug} ({h.subject}) comes first; signals may not end a process that waits in the driver"
    unit = supervisor(root)
    if unit:
        return f"{unit} supervises it and may start it again: `systemctl stop {unit}`"
    if any(w.slug == "all-peers-at-once" and w.credible for w in verdicts) and v.slug in (
        "idle-process",
        "orphan-idle",
    ):
        return "all peers look idle at once: the leader or the network first"
    job = view.jobs.get(root.job)
    whole = job is not None and job.single_node
    if v.slug == "collective-spin" and not whole:
        return "ranks on other nodes would be left waiting: stop the whole job by its launcher"
    mates = [
        w for w in verdicts if w.slug == "collective-spin" and any(view.processes[p].job == root.job for p in w.pids)
    ]
    if v.slug == "stopped" and root.job and mates and not whole:
        return f"other ranks of {root.job} wait for it: `kill -CONT {root.pid}` first, else stop the whole job"
    return ""


def _kin(view: View, root: Process, guarded: set[int]) -> list[Process]:
    """Same job, same session or container, not below root, doing nothing: launchers and siblings."""
    below = {q.pid for q in view.family_down(root.pid)} | {root.pid}
    found = []
    for q in view.processes.values():
        near = q.sid == root.sid or bool(root.container and q.container == root.container)
        if q.pid in below or q.pid in guarded or not (root.job and q.job == root.job and near) or q.state in "ZXDt":
            continue
        launcher = q.pid in view.ancestors(root.pid) and q.pid not in view.holdings
        if launcher and not activity(view, q).moves and not _feeds_others(view, q, below):
            found.append(q)
    return found


def _feeds_others(view: View, launcher: Process, below: set[int]) -> bool:
    """It has live descendants that are not in this kill set."""
    return any(
        q.pid not in below and q.state not in "ZX" and q.pid not in view.ancestors(next(iter(below)))
        for q in view.family_down(launcher.pid)
    )


def _not_this_one(view: View, root: Process, q: Process, guarded: set[int]) -> str:
    """Why a member forbids the whole set; "" if it may be ended."""
    if q.pid <= 1 or q.start_ticks <= 0:
        return f"pid {q.pid} has no identity that could be checked"
    if q.pid in guarded:
        return f"pid {q.pid} of its family works (or another innocent process depends on it)"
    if q.state == "D":
        return f"pid {q.pid} of its family is in uninterruptible sleep"
    if q.tracer or q.state == "t":
        return f"pid {q.pid} of its family is being debugged"
    if q.sid != root.sid and (not root.cgroup or q.cgroup != root.cgroup):
        return f"pid {q.pid} left its session and its cgroup: whose it is is not sure"
    if view.held_bytes(q.pid) is None:
        return f"how much GPU memory pid {q.pid} holds is not known, so its release could not be proven"
    spinning = q.pid == root.pid or q.pid in view.holdings
    if not spinning and q.state != "T" and activity(view, q).moves:
        return f"pid {q.pid} of its family is at work: {activity(view, q).moves[0]}"
    return ""
