"""Judges runs whose store cannot be read (c10d, static): where each rank that they count lives, they have met. Pure."""

from collections.abc import Iterable, Iterator

from runbooks.core.base import Frozen
from runbooks.core.distinct import names_of
from runbooks.core.verdict import Cause
from runbooks.parsers.address import address_of, host_port, is_loopback
from runbooks.rendezvous.causes import benign
from runbooks.rendezvous.evidence import Agent, Evidence, Worker
from runbooks.rendezvous.launches import meets_at
from runbooks.rendezvous.life import known_nodes, place_of
from runbooks.rendezvous.runs import of_backend

NAMED = 4  # ranks in a sentence
UNREADABLE = ("c10d", "static")
OVER = "their rendezvous is done, and whether they train is not judged here: if they stand still, run zombie-gpu on their nodes"


class LivingRank(Frozen):
    """A worker under the agent that started it."""

    worker: Worker
    agent: Agent

    @property
    def rank(self) -> str:
        """As it was given it."""
        return self.worker.env.get("RANK", "")

    @property
    def about(self) -> set[str]:
        """How causes name what it is part of."""
        where, run, launch, env = self.worker.node, self.agent.launch.run_id, self.agent.launch, self.worker.env
        ports = [env.get("MASTER_PORT", ""), *[address_of(at).rpartition(":")[2] for at in [meets_at(self.agent)] if at]]
        pids = {f"pid {pid} on {where}" for pid in (self.worker.pid, self.agent.pid)}
        given = (meets_at(self.agent), host_port(env.get("MASTER_ADDR", ""), env.get("MASTER_PORT", "")))
        at = {given[0], *(f"{place} from {where}" for place in given), f"{launch.script} at {given[0]}"}
        return {f"run {run}", *pids, *at, *(f"port {port} on {where}" for port in ports)}


def whole_runs(evidence: Evidence, found: Iterable[Cause]) -> list[Cause]:
    """Each such run that is whole and of which no fault was found."""
    told = {c.subject for c in found if not c.benign}
    runs: dict[tuple[str, str, str], list[LivingRank]] = {}
    for seat, place in _seats(evidence):
        runs.setdefault((seat.agent.launch.run_id, seat.agent.launch.backend, place), []).append(seat)
    whole = {key: seats for key, seats in runs.items() if _is_whole(seats) and not told & {x for s in seats for x in s.about}}
    return [of_backend(benign("live-run", f"run {run} ({backend})", _words(seats), OVER), backend)
            for (run, backend, _), seats in sorted(whole.items()) if evidence.run in ("", run)]  # fmt: skip


def _seats(evidence: Evidence) -> Iterator[tuple[LivingRank, str]]:
    """Each living worker of such an agent, and the place of its master."""
    for node in known_nodes(evidence):
        agents = {a.pid: a for a in node.agents if a.state not in "ZX" and a.launch.backend in UNREADABLE}
        for w in node.workers:
            agent, host = agents.get(w.ppid), w.env.get("MASTER_ADDR", "")
            if agent and host and w.run_id == agent.launch.run_id and w.state not in "ZX" and not w.loader:
                port = w.env.get("MASTER_PORT", "")
                at = f"{node.boot_id}:{port}" if is_loopback(host) else place_of(host_port(host, port), evidence)
                yield LivingRank(worker=w, agent=agent), at


def _is_whole(seats: list[LivingRank]) -> bool:
    sizes = {s.worker.env.get("WORLD_SIZE", "") for s in seats}
    size = sizes.pop()
    return not sizes and size.isdecimal() and sorted(s.rank for s in seats) == sorted(map(str, range(int(size))))


def _words(seats: list[LivingRank]) -> str:
    who = [f"rank {s.rank} (pid {s.worker.pid} on {s.worker.node})" for s in sorted(seats, key=lambda s: int(s.rank))]
    return f"all {len(seats)} ranks of it live: {names_of(who, NAMED)}"
