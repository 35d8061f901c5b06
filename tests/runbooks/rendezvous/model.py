"""A small model of torch's dynamic rendezvous: agents join, beat, die, stop and finish; etcd keeps what they wrote.

It follows the protocol's rules (who is dropped when, what a close leaves, what the store keeps) without torch, so that
thousands of schedules run in seconds. The truth about who lives is known here and nowhere in the evidence.
"""

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from runbooks.core.reading import Known, Unknown, UnknownReason
from runbooks.core.same_process import MACHINE
from runbooks.parsers.torchrun_cmdline import AgentLaunch
from runbooks.rendezvous.evidence import Agent, EtcdFacts, Evidence, NodeFacts, NodeView, Pid, Reads, Worker
from runbooks.rendezvous.parsers.etcd_v2 import DYNAMIC_ROOT, Backend, Key, RunKeys
from runbooks.rendezvous.parsers.rdzv_state import Beat, DynamicState, Member, Seat
from tests.runbooks.rendezvous.build import store_key

BEAT, START = 5, datetime(2026, 5, 1, tzinfo=UTC)
NODES = ("n1", "n2", "n3")


@dataclass
class ModelAgent:
    """One agent and its worker."""

    node: str
    pid: int
    run: str
    low: int
    high: int
    skew: float
    agent_lives: bool = True
    stopped: bool = False
    worker_lives: bool = False
    plain: bool = True  # torchrun on its command line; else a program of its own
    began: float = 0.0

    @property
    def member(self) -> Member:
        return Member(addr=self.node, pid=self.pid, local_id=0)


@dataclass
class ModelRun:
    """What etcd holds of one run."""

    round: int = 0
    complete: bool = False
    closed: bool = False
    seats: dict[Member, int] = field(default_factory=dict)
    spare: set[Member] = field(default_factory=set)
    beats: dict[Member, float] = field(default_factory=dict)
    index: int = 1
    written: float = 0.0


class World:
    """Nodes, agents and an etcd, moved on by random events."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.now, self.index, self.next_pid = 0.0, 10, 100
        self.runs: dict[str, ModelRun] = {}
        self.store: dict[tuple[str, int], int] = {}
        self.agents: list[ModelAgent] = []
        self.skew = {n: self.dice.choice([0, 0, 0, -30, 20]) for n in NODES}

    def write(self, run: ModelRun) -> None:
        self.index += 1
        run.index, run.written = self.index, self.now

    def start(self, run: str) -> None:
        node = self.dice.choice(NODES)
        low = self.dice.choice([1, 2, 2])
        self.next_pid += self.dice.choice([1, 7])
        agent = ModelAgent(
            node, self.next_pid, run, low, low + self.dice.choice([0, 1]), self.skew[node], began=self.now
        )
        agent.plain = self.dice.random() > 0.1
        self.agents.append(agent)

    def step(self, seconds: float) -> None:
        """Let time pass: everyone who lives and runs does what torch would."""
        for _ in range(int(seconds)):
            self.now += 1
            for agent in [a for a in self.agents if a.agent_lives and not a.stopped]:
                self._agent(agent)

    def _agent(self, a: ModelAgent) -> None:
        run = self.runs.setdefault(a.run, ModelRun())
        mine = self.now + a.skew
        for m in [m for m, at in run.beats.items() if at < mine - 3 * BEAT]:  # dropped by this agent's own clock
            run.beats.pop(m)
            run.spare.discard(m)
            if run.seats.pop(m, None) is not None and run.complete and not run.seats:
                run.complete, run.round = False, run.round + 1
        seated, known = a.member in run.seats, a.member in run.beats
        if run.closed and not (seated and run.complete):
            a.agent_lives = False
            return
        if not seated and not run.complete:
            run.spare.discard(a.member)
            run.seats[a.member] = 0
            run.beats[a.member] = mine
            if len(run.seats) >= a.low:
                self._complete(a.run, run)
            self.write(run)
        elif not seated and not known:
            run.spare.add(a.member)
            run.beats[a.member] = mine
            self.write(run)
        elif known and mine - run.beats[a.member] >= BEAT:
            run.beats[a.member] = mine
            self.write(run)

    def _complete(self, name: str, run: ModelRun) -> None:
        run.complete = True
        for rank, m in enumerate(sorted(run.seats, key=lambda m: m.label)):
            run.seats[m] = rank
        self.index += 1
        self.store[(name, run.round)] = self.index
        for a in self.agents:
            if a.member in run.seats and a.agent_lives:
                a.worker_lives = True

    def event(self) -> None:
        """One random thing happens."""
        living = [a for a in self.agents if a.agent_lives]
        what = self.dice.choice(["start", "start", "agent", "both", "worker", "stop", "cont", "finish", "wait", "key"])
        if what == "start" or not living:
            self.start(self.dice.choice(["a", "b", "a.1", "none"]))
        elif what in ("agent", "both", "stop", "cont"):
            a = self.dice.choice(living)
            a.agent_lives = a.agent_lives and what in ("stop", "cont")
            a.worker_lives = a.worker_lives and what != "both"
            a.stopped = what == "stop"
        elif what == "worker":
            self.dice.choice(self.agents).worker_lives = False
        elif what == "finish":
            self._finish(self.dice.choice(living).run)
        elif what == "key":
            dead = [
                r for r in self.runs if not any(a.run == r and (a.agent_lives or a.worker_lives) for a in self.agents)
            ]
            for run in dead[:1]:
                del self.runs[run]  # the two hours passed, or somebody deleted the one key
        self.step(self.dice.choice([0, 1, 4, 17, 40]))

    def _finish(self, name: str) -> None:
        run = self.runs.get(name)
        if run is None or not run.complete:
            return
        for a in self.agents:
            if a.run == name and a.member in run.seats and not a.stopped:
                a.agent_lives = a.worker_lives = False
        run.closed = True
        self.write(run)

    def lives(self, name: str) -> bool:
        """The truth."""
        return any(a.run == name and (a.agent_lives or a.worker_lives) for a in self.agents)

    def keys(self) -> tuple[RunKeys, ...]:
        """What a read of etcd gives."""
        names = sorted({*self.runs, *(r for r, _ in self.store)})
        return tuple(self._keys(n) for n in names)

    def _keys(self, name: str) -> RunKeys:
        run = self.runs.get(name)
        rounds = tuple(sorted(r for n, r in self.store if n == name))
        state = key = None
        if run is not None:
            key = Key(key=f"{DYNAMIC_ROOT}/{name}", modified=run.index, ttl_s=int(7200 - self.now + run.written))
            state = DynamicState(
                round=run.round,
                complete=run.complete,
                closed=run.closed,
                participants=tuple(Seat(member=m, rank=r) for m, r in run.seats.items()),
                redundancy_list=tuple(run.spare),
                beats=tuple(Beat(member=m, at=START + timedelta(seconds=t)) for m, t in run.beats.items()),
            )
        store = tuple(store_key(name, r, 0) for r in rounds)
        return RunKeys(run=name, backend=Backend.ETCD_V2, state=state, rendezvous=key, store=store, rounds=rounds, master="")

    def node(self, name: str, asked: set[int]) -> NodeView:
        """What a look at a node gives."""
        if self.dice.random() < 0.05:
            return NodeView(node=name, facts=Unknown(reason=UnknownReason.UNREACHABLE))
        clock = (START + timedelta(seconds=self.now + self.skew[name])).timestamp()
        mine = [a for a in self.agents if a.node == name]
        pids = [Pid(pid=a.pid, started_s=clock - self.now + a.began, python=True, namespace=MACHINE) for a in mine if a.agent_lives]
        facts = NodeFacts(
            node=name,
            boot_id="b",
            names=(name,),
            clock_s=clock,
            namespace=MACHINE,
            inside="",
            agents=tuple(self._seen(a) for a in mine if a.agent_lives and a.plain),
            workers=tuple(
                Worker(node=name, pid=a.pid + 5000, start_ticks=1, started_s=0, state="S", ppid=a.pid, run_id=a.run)
                for a in mine
                if a.worker_lives
            ),
            pids=tuple(p for p in pids if p.pid in asked),
        )
        return NodeView(node=name, facts=Known[NodeFacts](value=facts))

    def _seen(self, a: ModelAgent) -> Agent:
        launch = AgentLaunch(run_id=a.run, backend="etcd-v2", endpoint="e", min_nodes=a.low, max_nodes=a.high, script="x")
        state = "T" if a.stopped else "S"
        return Agent(node=a.node, pid=a.pid, start_ticks=1, started_s=a.began, state=state, ppid=1, launch=launch)

    def evidence(self, run: str) -> Evidence:
        """A gather: two reads with time in between, then the nodes."""
        first = self.keys()
        self.step(3 * BEAT + 1)
        second = self.keys()
        asked = {m.pid for r in second if isinstance(r.state, DynamicState) for m in r.state.members}
        facts = EtcdFacts(endpoint="http://e:1", healthy=True, v2=True, alarms=Known[tuple[str, ...]](value=()))
        return Evidence(
            name="t",
            taken_at=START + timedelta(seconds=self.now),
            endpoints=("http://e:1",),
            run=run,
            configured=Known[bool](value=True),
            etcd=Known[EtcdFacts](value=facts),
            runs=Known[Reads](value=Reads(first=first, second=second, apart_s=3 * BEAT + 1)),
            nodes=tuple(self.node(n, asked) for n in NODES),
        )

    def clear(self, keys: list[str], guard: int | None, name: str) -> bool:
        """What the deletion script does: guarded by the rendezvous key's index."""
        run = self.runs.get(name)
        if (run.index if run else None) != guard:
            return False
        self.store = {k: v for k, v in self.store.items() if k[0] != name}
        self.runs.pop(name, None)
        return True
