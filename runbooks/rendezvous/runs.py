"""Judges one run that lives in etcd: dead, alive, half of each, or not to be told."""

import re

from runbooks.core.reading import Known
from runbooks.core.verdict import Cause
from runbooks.rendezvous.causes import benign, confirmed, likely, possible
from runbooks.rendezvous.evidence import Agent, Evidence, Putback
from runbooks.rendezvous.life import Life, known_nodes
from runbooks.rendezvous.parsers.etcd_v2 import LegacyState, RunKeys
from runbooks.rendezvous.parsers.rdzv_state import DynamicState
from runbooks.triage.text import says

CLEARABLE = (
    "closed-round",
    "dead-waiting",
    "store-keys-left",
)  # causes whose remedy is to delete the run's keys


def wanted(run: str, evidence: Evidence) -> bool:
    """Whether somebody is known to use that id again: asked about, in the fleet file, or in an error."""
    if run in (evidence.run, *evidence.known_runs):
        return True
    named = re.search(rf"(?<![\w.-]){re.escape(run)}(?![\w.-])", evidence.symptom)
    return named is not None and says(evidence.symptom, "stale-rendezvous/closed-round")


def is_closed(run: RunKeys) -> bool:
    """Whether the round takes nobody any more."""
    if isinstance(run.state, DynamicState):
        return run.state.closed
    return isinstance(run.state, LegacyState) and run.state.status == "closed"


def is_complete(run: RunKeys) -> bool:
    """Whether the round has its members."""
    if isinstance(run.state, DynamicState):
        return run.state.complete
    return isinstance(run.state, LegacyState) and run.state.status == "final"


def joined(run: RunKeys) -> int:
    """How many have joined the round."""
    return len(run.state.participants) if run.state is not None else 0


def subject(run: RunKeys | Putback) -> str:
    """How a run is named in a verdict."""
    return f"run {run.run} ({run.backend})"


def of_backend(cause: Cause, backend: str) -> Cause:
    """One id in two backends is two runs."""
    return cause.model_copy(update={"told_apart": (("backend", backend),)})


def judge_run(run: RunKeys, life: Life, evidence: Evidence) -> list[Cause]:
    """Every cause of that one run."""
    if run.unreadable:
        return [confirmed("unreadable-state", subject(run), f"not what torch writes: {run.unreadable}")]
    if life.alive:
        return _living(run, life, evidence)
    stale = _stale(run, wanted(run.run, evidence))
    if stale is None or stale.benign or not life.unsure:
        return [stale] if stale else []
    return [possible(stale.slug, stale.subject, *stale.evidence, decides=life.unsure)]


def _stale(run: RunKeys, want: bool) -> Cause | None:
    """What is wrong when nothing of the run lives. None: nothing is."""
    if run.rendezvous is None:
        return _leftover(run, want)
    ttl = run.rendezvous.ttl_s if run.rendezvous.ttl_s is not None else _dir_ttl(run)
    life_words = f"the key lives for another {ttl} s" if ttl is not None else "the key does not expire"
    if is_closed(run):
        return _closed(run, want, life_words)
    if is_complete(run):
        return confirmed(
            "all-dead",
            subject(run),
            f"its {joined(run)} participants are gone and the round is complete",
            "the next run with this id waits three beats, drops the dead and goes on by itself (27 s were seen)",
            life_words,
        )
    if joined(run):
        return confirmed(
            "dead-waiting",
            subject(run),
            f"{joined(run)} joined, the round never completed, and they are gone",
            "a newcomer within three beats is paired with them and hangs (626 s were seen)",
            life_words,
        )
    return None


def _dir_ttl(run: RunKeys) -> int | None:
    return run.tree[0].ttl_s if run.tree else None


def _leftover(run: RunKeys, want: bool) -> Cause | None:
    if not run.store:
        return None
    words = (
        f"{len(run.store) + run.cut} store keys of round {', '.join(map(str, run.rounds))} and no rendezvous key",
        f"the next run with this id starts at round 0 and reads {run.master or 'the old address'} from them",
        "store keys never expire",
    )
    if want:
        return confirmed("store-keys-left", subject(run), *words)
    return benign("leftover-keys", subject(run), *words, "harmless until this id is used again")


def _closed(run: RunKeys, want: bool, life_words: str) -> Cause:
    how = "finished" if is_complete(run) and joined(run) else "failed or finished"
    words = (f"closed by a run that {how}; {joined(run)} participants are still named", life_words)
    if want:
        return confirmed("closed-round", subject(run), *words, "this id is used again: it gets RendezvousClosedError")
    return benign("leftover-keys", subject(run), *words, "harmless until this id is used again")


def _living(run: RunKeys, life: Life, evidence: Evidence) -> list[Cause]:
    causes = [*_orphans(run, life), *_half_dead(run, life)]
    if not causes and not is_complete(run) and not is_closed(run):
        causes = _waiting(run, life)
    if not causes:
        causes = _late(run, life, evidence) or _let_in(run, life, evidence)
    return causes or [benign("live-run", subject(run), *life.alive[:6])]


def _orphans(run: RunKeys, life: Life) -> list[Cause]:
    lost = [w for w in life.workers if w.orphan and not w.loader]
    if not lost:
        return []
    names = ", ".join(f"pid {w.pid} on {w.node} (RANK {w.env.get('RANK', '?')})" for w in lost)
    words = [f"{names}: the agent is gone, the worker lives and may still train"]
    return [confirmed("orphan-worker", subject(run), *words)]


def _half_dead(run: RunKeys, life: Life) -> list[Cause]:
    if not isinstance(run.state, DynamicState) or not run.state.complete or run.state.closed:
        return _half_dead_legacy(run)
    seats = {s.member for s in run.state.participants}
    dead = [m for m in life.still if m in seats]
    alive = [m for m in life.beating if m in seats]
    if not dead or not alive:
        return []
    return [
        confirmed(
            "some-dead",
            subject(run),
            f"alive: {', '.join(m.label for m in alive)}",
            f"gone: {', '.join(m.label for m in dead)}",
            f"restart the agent on {', '.join(sorted({m.addr for m in dead}))}. The others notice within three beats"
            " when their worker fails, or hang in silence if the round formed with the dead one",
        )
    ]


def _half_dead_legacy(run: RunKeys) -> list[Cause]:
    if not (isinstance(run.state, LegacyState) and run.state.status == "final" and run.ranks):
        return []
    gone = sorted(set(run.state.participants) - set(run.ranks))
    if not gone:
        return []
    words = (
        f"keep-alives exist of rank {', '.join(map(str, run.ranks))}",
        f"and not of {', '.join(map(str, gone))}",
    )
    return [confirmed("some-dead", subject(run), *words)]


def _waiting(run: RunKeys, life: Life) -> list[Cause]:
    if not life.agents:
        return []
    need = max(a.launch.min_nodes for a in life.agents)
    there = len(life.agents)
    words = f"{joined(run)} joined, {need} are needed, {there} agents with this id run"
    if there >= need:
        return [benign("still-joining", subject(run), words)]
    number = run.state.round if isinstance(run.state, DynamicState) else 0
    if number > 0:
        return [confirmed("below-min-nodes", subject(run), words, f"round {number}: nodes were lost")]
    check = ("which nodes have not started an agent",)
    if life.unsure:  # agents may run where nobody could look
        return [possible("waiting-for-nodes", subject(run), words, *life.unsure, decides=check)]
    return [likely("waiting-for-nodes", subject(run), words, decides=check)]


def _seated(agent: Agent, seats: set[tuple[str, int]], evidence: Evidence) -> bool:
    """Whether one of the seats is this agent's, or may be: its own number, on a host of its node's names or of no known name."""
    names = {x.lower() for n in known_nodes(evidence) if n.node == agent.node for x in n.names}
    known = {x.lower() for n in known_nodes(evidence) for x in n.names}
    return any(pid == agent.own_pid and (addr in names or addr not in known) for addr, pid in seats)


def _late(run: RunKeys, life: Life, evidence: Evidence) -> list[Cause]:
    """Agents that came after the last call."""
    if not isinstance(run.state, DynamicState) or not (run.state.complete or run.state.closed):
        return []
    seats = {(s.member.addr.lower(), s.member.pid) for s in run.state.participants}
    late = [a for a in life.agents if not _seated(a, seats, evidence)]
    most = max((a.launch.max_nodes for a in life.agents), default=0)
    if not late or not seats or len(seats) >= most:
        return []
    names = ", ".join(f"pid {a.pid} on {a.node}" for a in late)
    words = f"the round has {len(seats)} of at most {most} nodes; {names} came after its last call"
    return [likely("late-nodes", subject(run), words, decides=("start times of the agents against the last call",))]


def _let_in(run: RunKeys, life: Life, evidence: Evidence) -> list[Cause]:
    """A late node got into a later round, and nobody starts a worker in it [seen with torch 2.13 on etcd-v2]."""
    if not isinstance(run.state, DynamicState) or not run.state.complete or run.state.closed or run.state.round == 0:
        return []
    first = evidence.runs.value.first if isinstance(evidence.runs, Known) else ()
    before = next((r.state for r in first if (r.run, r.backend) == (run.run, run.backend)), None)
    lasts = isinstance(before, DynamicState) and before.complete and before.round == run.state.round
    idle = life.agents and not life.workers and not any(a.workers for a in life.agents)
    if not lasts or not idle or len(life.agents) < joined(run):
        return []
    words = (
        f"round {run.state.round} has had all its {joined(run)} nodes for more than three beats and no agent has a worker",
        "the first agent keeps its address of an earlier round and does not write it again; the newcomer waits for it",
    )
    decides = ("the stack of the newest agent (py-spy dump): it waits for MASTER_ADDR",)
    return [likely("late-nodes", subject(run), *words, decides=decides)]
