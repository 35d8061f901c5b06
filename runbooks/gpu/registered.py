"""Judges what the leader believes against what runs: an inflated job count, or the leader's own trouble."""

from runbooks.core.reading import Known
from runbooks.core.verdict import Certainty, Finding
from runbooks.gpu.leader import LeaderPeer, LeaderView
from runbooks.gpu.mates import Jobs
from runbooks.gpu.verdicts import GpuVerdict
from runbooks.gpu.view import GpuView, span


def judge_registered(view: GpuView) -> list[GpuVerdict]:
    """At most one verdict about the leader as a whole and one about this node's count."""
    if view.leader is None:
        return []
    together = _all_at_once(view, view.leader)
    mine = _peer(view)
    alone = _no_process(view, view.leader, mine) if mine is not None and mine.jobs > 0 else None
    return [v for v in (together, alone) if v]


def _peer(view: GpuView) -> LeaderPeer | None:
    peers = view.leader.peers if view.leader else ()
    return next((p for p in peers if p.node == view.evidence.node), None)


def _all_at_once(view: GpuView, leader: LeaderView) -> GpuVerdict | None:
    """Every peer looks dead at the same moment: that is one incident, at the leader or in the network."""
    busy = [p for p in leader.peers if p.jobs > 0]
    if len(busy) < view.limits.peers_alike:
        return None
    stale = [p for p in busy if p.last_seen_s is not None and p.last_seen_s > view.limits.heartbeat_fresh_s]
    low = [p for p in busy if p.gpu_percent is not None and p.gpu_percent < view.limits.low_gpu_percent]
    asks = ("the leader's own log, its clock and its network before any node is touched",)
    if len(stale) == len(busy):
        ages = [p.last_seen_s or 0 for p in stale]
        words = (f"all {len(busy)} peers with jobs were last seen {span(min(ages))} to {span(max(ages))} ago",)
        return GpuVerdict("all-peers-at-once", Certainty.CONFIRMED, f"leader {leader.node_id}", words, asks)
    if len(low) == len(busy):
        words = (f"all {len(busy)} peers with jobs show a GPU use below {view.limits.low_gpu_percent:.0f} % at once",)
        return GpuVerdict("all-peers-at-once", Certainty.LIKELY, f"leader {leader.node_id}", words, asks)
    return None


def live_job_processes(view: GpuView) -> tuple[int, ...]:
    """PIDs of live processes that match a job of the fleet file."""
    return tuple(sorted(p.pid for p in view.processes.values() if p.job and p.state not in "ZX"))


def _no_process(view: GpuView, leader: LeaderView, mine: LeaderPeer) -> GpuVerdict | None:
    if not isinstance(view.evidence.processes, Known) or live_job_processes(view):
        return None
    words = [f"leader {leader.node_id} counts {mine.jobs} jobs on {mine.node}; no live process matches a job"]
    dead = sorted(p.pid for p in view.processes.values() if p.job and p.state in "ZX")
    words += [f"only defunct ones: pid {', '.join(map(str, dead))}"] if dead else []
    doubts = [*_about_the_leader(leader), *_about_the_node(view)]
    seen_twice = bool(view.earlier and view.earlier.leader_jobs)
    age = mine.last_seen_s
    fresh = age is not None and age <= view.limits.heartbeat_fresh_s
    words += [f"its last heartbeat is {span(age)} old"] if age is not None else ["no heartbeat age is given"]
    words += (
        [f"it counted {view.earlier.leader_jobs} already {span(view.gap_s)} ago"] if seen_twice and view.earlier else []
    )
    if not (fresh or seen_twice):
        doubts.append("a second look, or a fresh heartbeat: the count may only be late")
    serious = bool(_about_the_leader(leader)) or not view.jobs
    sure = Certainty.CONFIRMED if not doubts else Certainty.POSSIBLE if serious else Certainty.LIKELY
    return GpuVerdict("job-without-process", sure, mine.node, tuple(words), tuple(doubts))


def count_differs(view: GpuView) -> tuple[Finding, ...]:
    """The leader counts more jobs here than have live processes, and one has: told, and nothing is reset while a job lives."""
    mine, cells = _peer(view), Jobs(view).cells
    live = live_job_processes(view)
    here = sum(bool(set(live) & cell) for cell in cells)
    if mine is None or not isinstance(view.evidence.processes, Known) or not 0 < here < mine.jobs:
        return ()
    words = f"the leader counts {mine.jobs} jobs on {mine.node}; live processes of {here} are here (pid {', '.join(map(str, live[:8]))})"
    ask = "ask the leader which jobs it means: what ended without a word is still counted; reset no count while a job lives"
    return (Finding(priority="LOW", category="zombie-gpu/job-count", issue=words, action=ask),)


def _about_the_leader(leader: LeaderView) -> list[str]:
    if leader.is_leader:
        return []
    return [f"node {leader.node_id} is not the leader ({leader.leader_id or 'nobody named'} is): ask that one"]


def _about_the_node(view: GpuView) -> list[str]:
    """Why a job could be here without being seen."""
    doubts = [] if view.jobs else ["the fleet file names no job: nothing tells which process would be one"]
    unknown = [g.index for g in view.gpus if not isinstance(g.processes, Known) or view.strangers(g)]
    doubts += (
        [f"whose processes are on GPU {', '.join(map(str, unknown))}: they can't be resolved here"] if unknown else []
    )
    foreign = sorted(p for p in view.holdings if not view.processes[p].job)
    doubts += (
        [f"whether pid {', '.join(map(str, foreign))} is the job: it holds a GPU and matches no pattern"]
        if foreign
        else []
    )
    if view.gpu_set is None:
        doubts.append("which processes are on the GPUs: they could not be read")
    return doubts
