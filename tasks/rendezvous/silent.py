"""An etcd that accepts connections and does not answer: has a signal stopped its process? Reads only."""

from concurrent.futures import ThreadPoolExecutor

from runbooks.core.reading import Absent, Known, Source, Unknown, UnknownReason
from runbooks.core.rendezvous_config import Rendezvous, joiners
from runbooks.parsers.address import address_of, is_loopback
from runbooks.rendezvous.evidence import EtcdFacts, Listening
from tasks.context import Context
from tasks.diagnostic import diagnostic
from tasks.remote.halted import halted_process
from tasks.remote.probe import run_probe
from tasks.transport.base import TransportError

APART_S = 2.0  # between two readings of one process
Stopped = Known[tuple[Listening, ...]] | Absent | Unknown


@diagnostic("processes behind a silent etcd · {place.name}")
def read_stopped(context: Context, place: Rendezvous, etcd: Known[EtcdFacts] | Absent | Unknown) -> Stopped:
    """Stopped processes that listen at etcd's address, on every node of the rendezvous that has it; asked while etcd does not answer."""
    if not isinstance(etcd, Unknown) or etcd.reason is not UnknownReason.TIMED_OUT:
        return Absent(proof="etcd did not time out, so no stopped process was looked for")
    host, _, port = address_of(place.etcd_endpoint).rpartition(":")
    host = host.strip("[]")
    every = (place.asks,) if is_loopback(host) else tuple(dict.fromkeys((*place.named_nodes(), *joiners(context.fleet.rendezvous, place))))
    with ThreadPoolExecutor(max_workers=8) as pool:
        parts = tuple(pool.map(lambda node: _on(context, node, host, int(port)), every))
    found = tuple(x for part in parts if not isinstance(part, Unknown) for x in part)
    lost = [part for part in parts if isinstance(part, Unknown)]
    source = Source(command=f"ss -ltnp 'sport = :{port}'; ps -o pid,stat,args -p PID", host=", ".join(every), taken_at=context.now())
    return lost[0] if lost and not found else Known[tuple[Listening, ...]](value=found, source=source)


def _on(context: Context, node: str, host: str, port: int) -> tuple[Listening, ...] | Unknown:
    ask = {"host": host, "port": port, "apart_s": APART_S}
    try:
        got = run_probe(context.open_host(context.fleet.node(node)), "rdzv_stopped", ask)
    except TransportError as e:
        return Unknown(reason=e.reason, detail=f"{node}: {e.detail}")
    seen = (halted_process(context, one) for one in got["stopped"])
    return tuple(Listening(node=node, process=process) for process in seen if process is not None)
