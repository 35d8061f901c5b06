"""Judges jobs without torchrun: each rank was given RANK, WORLD_SIZE and MASTER_ADDR, and rank 0 opens the store at that address.

Torch: distributed/rendezvous.py, _env_rendezvous_handler and _create_c10d_store. Nothing is ended for what is found here.
"""

from collections.abc import Iterator

from runbooks.core.base import Frozen
from runbooks.core.distinct import names_of
from runbooks.core.members import process
from runbooks.core.verdict import Cause, Group
from runbooks.parsers.address import host_in, host_port, is_loopback
from runbooks.rendezvous.causes import benign, likely, possible
from runbooks.rendezvous.evidence import Evidence, NodeFacts, Port, Worker
from runbooks.rendezvous.launches import MASTER_PORT
from runbooks.rendezvous.life import from_inside, known_nodes, place_of
from runbooks.rendezvous.reach import unreached
from runbooks.rendezvous.workers import holds, live_workers

NAMED = 4  # ranks in a sentence


class EnvJob(Frozen):
    """Ranks that meet at one address."""

    at: str  # host:port as most of them were given it
    place: str  # the same under one name of its machine
    ranks: tuple[Worker, ...]

    @property
    def world(self) -> int:
        """How many it has, by the largest WORLD_SIZE."""
        return max(_size(w) for w in self.ranks)

    @property
    def missing(self) -> tuple[int, ...]:
        """Ranks that no process was seen of."""
        here = {_rank(w) for w in self.ranks}
        return tuple(n for n in range(self.world) if n not in here)

    def has(self, rank: int) -> tuple[Worker, ...]:
        """The processes of that rank."""
        return tuple(w for w in self.ranks if _rank(w) == rank)


def env_jobs(evidence: Evidence) -> tuple[EnvJob, ...]:
    """Every such job of the nodes that could be read. A master address on loopback means the rank's own machine."""
    found: dict[str, list[Worker]] = {}
    for w in live_workers(evidence):
        if w.by_env and w.env["RANK"].isdecimal() and w.env["WORLD_SIZE"].isdecimal():
            place = f"{_boot(w, evidence)}:{_port(w)}" if is_loopback(w.env["MASTER_ADDR"]) else place_of(_at(w), evidence)
            found.setdefault(place, []).append(w)
    return tuple(EnvJob(at=_said(ranks), place=place, ranks=tuple(ranks)) for place, ranks in sorted(found.items()))


def _rank(w: Worker) -> int:
    return int(w.env["RANK"])


def _size(w: Worker) -> int:
    return int(w.env["WORLD_SIZE"])


def _port(w: Worker) -> str:
    return w.env.get("MASTER_PORT", "") or str(MASTER_PORT)


def _at(w: Worker) -> str:
    return host_port(w.env["MASTER_ADDR"], _port(w))


def _said(ranks: list[Worker]) -> str:
    """The address by a name that is not loopback, where one of them was given such a name."""
    names = [_at(w) for w in ranks]
    return next((a for a in names if not is_loopback(host_in(a))), names[0])


def _who(ranks: tuple[Worker, ...]) -> str:
    return names_of([f"rank {_rank(w)} (pid {w.pid} on {w.node})" for w in ranks], NAMED)


def env_causes(evidence: Evidence, jobs: tuple[EnvJob, ...], import_s: float) -> list[Cause]:
    """Every cause of every such job of this rendezvous. `import_s`: what a rank takes before it opens its store."""
    return [c for job in jobs if _is_of_this(job, evidence) for c in _job(job, evidence, import_s)]


def _is_of_this(job: EnvJob, evidence: Evidence) -> bool:
    """Whether the fleet file names the job, or its store is on the machine of an endpoint. Others on the same nodes are not judged here."""
    named = [e for e in evidence.endpoints if "//" not in e]
    at = {place_of(e, evidence).rpartition(":")[0] for e in named}
    at |= {n.boot_id for n in known_nodes(evidence) if n.node in {e.rpartition(":")[0] for e in named}}
    return any(w.job for w in job.ranks) or bool(at & {job.place.rpartition(":")[0], job.at.rpartition(":")[0]})


def _job(job: EnvJob, evidence: Evidence, import_s: float) -> list[Cause]:
    ways = (*_addresses(job, evidence), *_store(job, evidence, import_s), *_proxied(job, evidence))
    found = [*_differ(job, evidence), *ways, *_waits(job, evidence)]
    return found or [benign("live-run", _subject(job), f"all {job.world} ranks of it live: {_who(job.ranks)}")]


def _subject(job: EnvJob) -> str:
    return f"the job at {job.at}"


def _differ(job: EnvJob, evidence: Evidence) -> Iterator[Cause]:
    """Ranks that cannot belong together."""
    check = ("whether one of them is left from an earlier start",)
    sizes = sorted({_size(w) for w in job.ranks})
    if len(sizes) > 1:
        said = "; ".join(f"WORLD_SIZE={n}: {_who(tuple(w for w in job.ranks if _size(w) == n))}" for n in sizes)
        yield likely("settings-differ", _subject(job), f"one master address, different counts: {said}", decides=check)
    beyond = tuple(w for w in job.ranks if _rank(w) >= _size(w))
    if beyond:
        yield likely("settings-differ", _subject(job), f"ranks count from 0: {_who(beyond)} of {job.world}", decides=check)
    for rank in sorted({_rank(w) for w in job.ranks}):
        same = job.has(rank)
        if len({_boot(w, evidence) for w in same}) > 1:
            yield likely("settings-differ", _subject(job), f"one rank on several machines: {_who(same)}", decides=check)


def _addresses(job: EnvJob, evidence: Evidence) -> Iterator[Cause]:
    """Whether each rank's own node reaches the address that it was given."""
    for node in known_nodes(evidence):
        for w in (w for w in job.ranks if w.node == node.node and _rank(w)):
            who, at = f"pid {w.pid} on {w.node}", _at(w)
            if is_loopback(w.env["MASTER_ADDR"]) and not any(z.node == w.node for z in job.has(0)):
                words = f"rank {_rank(w)} was given MASTER_ADDR={w.env['MASTER_ADDR']}, and no rank 0 lives on {w.node}"
                yield likely("master-loopback", who, words, decides=(f"on which machine rank 0 of its {_size(w)} ranks runs",))
            for reach in (r for r in node.reach if r.address == at and r.error and not r.error.startswith("closed:")):
                yield unreached(w, reach, job.ranks, evidence)


def _store(job: EnvJob, evidence: Evidence, import_s: float) -> Iterator[Cause]:
    """Rank 0's listener, on its own machine."""
    for zero in job.has(0):
        node = _node(zero, evidence)
        port = _store_port(zero, node)
        if node is None or port is None:
            continue  # it was not looked at
        who = _who((zero,))
        if not port.open:
            age = node.clock_s - zero.started_s
            young = (f"it is {age:.0f} s old",) if age < import_s else ()
            check = ("its log: has it called init_process_group, or did its store end?", *young)
            yield possible("store-host-died", job.at, f"{who} lives, and nothing listens on port {port.port} there", decides=check)
        elif port.listeners and not holds(zero, port, node):
            held = f"pid {', '.join(map(str, port.listeners))} listens on port {port.port} of {node.node}"
            words = f"{held}, and {who} has to open its store there"
            yield likely("port-other-job", job.at, words, decides=("whose process listens there: ss -ltnp on that node",))


def _node(w: Worker, evidence: Evidence) -> NodeFacts | None:
    return next((n for n in known_nodes(evidence) if n.node == w.node), None)


def _boot(w: Worker, evidence: Evidence) -> str:
    """Its machine."""
    node = _node(w, evidence)
    return node.boot_id if node else w.node


def _store_port(zero: Worker, node: NodeFacts | None) -> Port | None:
    """The port of its store; None where it was not looked at."""
    return next((p for p in node.ports if str(p.port) == _port(zero)), None) if node else None


def _waits(job: EnvJob, evidence: Evidence) -> Iterator[Cause]:
    """Fewer ranks than it counts. One look does not tell a rank that has not come from one that ended and is started again."""
    if not job.missing:
        return
    lost = ", ".join(map(str, job.missing[:NAMED])) + (" …" if len(job.missing) > NAMED else "")
    words = f"{job.world - len(job.missing)} of its {job.world} ranks were seen, and no process of rank {lost}"
    decides = (f"whether rank {lost} was never started, has ended, or runs on a machine that this rendezvous does not name",)
    seen = (f"seen: {_who(job.ranks)}", *_unseen(evidence), *_connected(job, evidence))
    yield possible("waiting-for-nodes", _subject(job), words, *seen, decides=decides)


def _proxied(job: EnvJob, evidence: Evidence) -> Iterator[Cause]:
    """A connection that opens ends at the proxy of its own side: it shows no way to the store."""
    one = len({_boot(w, evidence) for w in job.ranks}) == 1 and not job.missing
    seen = [f"on {n.node} a proxy of {n.proxy} takes its connections" for n in known_nodes(evidence) if n.proxy]
    if seen and not one:
        words = "a connection that opens ends at the proxy of its own side, so it shows no way to the store"
        decides = ("what each rank logged last, and the proxies' own logs", "whether the job runs without the proxies")
        yield possible("proxy-closes", job.at, *seen[:NAMED], words, decides=decides)


def _unseen(evidence: Evidence) -> Iterator[str]:
    yield from (f"node {v.node} could not be read" for v in evidence.nodes if v.facts.kind != "known")
    for n in known_nodes(evidence):
        if n.hidden:
            yield f"{n.hidden} processes on {n.node} hide their environment from this user"
    yield from from_inside(evidence)


def _connected(job: EnvJob, evidence: Evidence) -> Iterator[str]:
    """Connections of others to the store: a rank has one at least."""
    for zero in job.has(0):
        port = _store_port(zero, _node(zero, evidence))
        if port and port.established >= job.world - 1:
            yield f"{port.established} connections of others to its store exist"


def env_groups(jobs: tuple[EnvJob, ...]) -> tuple[Group, ...]:
    """Such a job with all its ranks: while they live, none of them is ended for another fault."""
    return tuple(
        Group(
            name=_subject(job),
            members=tuple(process(w.pid, w.node) for w in job.ranks),
            ties=("one MASTER_ADDR and MASTER_PORT",),
            at_work=tuple(f"{_who((w,))} lives" for w in job.ranks),
        )
        for job in jobs
    )
