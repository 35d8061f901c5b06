"""Short YAML to Evidence: runs, nodes, agents and workers with everything else at its ordinary value."""

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

from runbooks.core.halted import Halted
from runbooks.core.reading import NOT_RECORDED, Absent, Known, Unknown, UnknownReason
from runbooks.core.same_process import MACHINE
from runbooks.parsers.torchrun_cmdline import parse_launch
from runbooks.rendezvous.evidence import (
    NO_RETURN,
    Agent,
    EtcdFacts,
    Evidence,
    Listening,
    NodeFacts,
    NodeView,
    Pid,
    Port,
    Putback,
    Reachability,
    Reads,
    StoreView,
    Worker,
)
from runbooks.rendezvous.parsers.etcd_v2 import DYNAMIC_ROOT, STORE_ROOT, Backend, Key, LegacyState, RunKeys
from runbooks.rendezvous.parsers.rdzv_state import Beat, DynamicState, Member, Seat

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
ETCD = "http://etcd:2379"
HALTED = {"pid": 700, "start_ticks": 70, "boot_id": "0b5e55ed", "uid": 0, "command": "/usr/bin/etcd --name t"}


def member(text: str) -> Member:
    """`n1:100` -> host n1, pid 100."""
    addr, pid = text.rsplit(":", 1)
    return Member(addr=addr, pid=int(pid), local_id=0)


def dynamic(given: dict[str, Any], read: int) -> RunKeys:
    """One etcd-v2 run in the first (0) or second (1) read; `moves` lists members that beat in between."""
    moves = given.get("moves", [])
    named = [*given.get("participants", []), *given.get("waiting", []), *given.get("redundant", [])]
    late = 5 * read
    state = DynamicState(
        round=given.get("round", 0),
        complete=given.get("complete", False),
        closed=given.get("closed", False),
        participants=tuple(Seat(member=member(p), rank=i) for i, p in enumerate(given.get("participants", []))),
        wait_list=tuple(member(m) for m in given.get("waiting", [])),
        redundancy_list=tuple(member(m) for m in given.get("redundant", [])),
        beats=tuple(
            Beat(member=member(m), at=NOW - timedelta(seconds=30) + timedelta(seconds=late * (m in moves)))
            for m in named
        ),
    )
    key = Key(key=f"{DYNAMIC_ROOT}/{given['id']}", ttl_s=7000, modified=50 + read * bool(moves), value="state")
    bad = given.get("unreadable", "")
    return RunKeys(
        run=given["id"],
        backend=Backend.ETCD_V2,
        state=None if bad or given.get("no_key") else state,
        unreadable=bad,
        rendezvous=None if given.get("no_key") else key,
        store=tuple(store_key(given["id"], given.get("round", 0), n) for n in range(given.get("store", 2))),
        rounds=(given.get("round", 0),) if given.get("store", 2) else (),
        master=given.get("master", "n1:41000" if given.get("store", 2) else ""),
        ambiguous=tuple(given.get("ambiguous", [])),
    )


def store_key(run: str, number: int, n: int) -> Key:
    name = f"torch.rendezvous.{run}.{number}/{['MASTER_ADDR', 'MASTER_PORT', 'x', 'y'][n]}"
    return Key(key=f"{STORE_ROOT}/{base64.b64encode(name.encode()).decode()}", modified=20 + n, value="")


def legacy(given: dict[str, Any], read: int) -> RunKeys:
    top = f"/torchelastic/p2p/run_{given['id']}"
    state = LegacyState(status=given["status"], version="1", participants=tuple(given.get("participants", [])))
    tree = [Key(key=top, dir=True, ttl_s=7000, modified=3), Key(key=f"{top}/rdzv", dir=True, modified=4)]
    tree += [Key(key=f"{top}/rdzv/version_counter", modified=5), Key(key=f"{top}/rdzv/v_1", dir=True, modified=6)]
    tree += [Key(key=f"{top}/rdzv/v_1/kv", dir=True, modified=7), Key(key=f"{top}/rdzv/v_1/kv/YQ==", modified=8)]
    return RunKeys(
        run=given["id"],
        backend=Backend.ETCD,
        state=state,
        rendezvous=Key(key=f"{top}/rdzv/active_version", modified=9 + given.get("writes", 0) * read),
        tree=tuple(tree),
        ranks=tuple(given.get("ranks", [])),
        rounds=(1,),
        master="",
    )


def run_keys(given: dict[str, Any], read: int) -> RunKeys:
    return legacy(given, read) if given.get("backend") == "etcd" else dynamic(given, read)


def agent(node: str, given: dict[str, Any]) -> Agent:
    """`{pid, args, ppid, age, workers}`; `args` is what follows torchrun."""
    default = (
        f"--nnodes=2 --rdzv-backend=etcd-v2 --rdzv-endpoint=etcd:2379 --rdzv-id={given.get('id', 'job1')} train.py"
    )
    argv = ["torchrun", *str(given.get("args", default)).split()]
    launch = parse_launch(argv, b"test", given.get("env"))
    assert launch is not None
    return Agent(
        node=node,
        pid=given["pid"],
        start_ticks=1000 + given["pid"],
        started_s=NOW.timestamp() - given.get("age", 300),
        state=given.get("state", "S"),
        ppid=given.get("ppid", 50),
        launch=launch,
        command=given.get("command", ""),
        workers=tuple(given.get("workers", [])),
    )


def worker(node: str, given: dict[str, Any]) -> Worker:
    fields = {"start_ticks": 1, "started_s": NOW.timestamp() - 200, "state": "R", "ppid": 1, "run_id": "job1"}
    return Worker(node=node, **(fields | {"env": {"RANK": "0"}} | given))


def node(name: str, given: Any) -> NodeView:
    """A node as YAML: a mapping, nothing, or the reason why it was not read."""
    if isinstance(given, str):
        return NodeView(node=name, facts=Unknown(reason=UnknownReason(given), detail="ssh: no answer"))
    given = given or {}
    facts = NodeFacts(
        node=name,
        boot_id=f"boot-{name}",
        names=tuple(given.get("names", [name, f"{name}.fleet"])),
        clock_s=NOW.timestamp() + given.get("skew", 0),
        skew_s=given.get("skew", 0),
        agents=tuple(agent(name, a) for a in given.get("agents", [])),
        workers=tuple(worker(name, w) for w in given.get("workers", [])),
        pids=tuple(Pid(**({"started_s": 0.0, "python": True, "namespace": MACHINE} | p)) for p in given.get("pids", [])),
        namespace=MACHINE,
        hidden=given.get("hidden", 0),
        inside=given.get("inside", ""),
        ports=tuple(Port(**p) for p in given.get("ports", [])),
        reach=tuple(Reachability(**p) for p in given.get("reach", [])),
        checkpoints=given.get("checkpoints"),
        host_name=given.get("host_name", ""),
        own_addresses=tuple(given.get("own_addresses", [])),
        proxy=given.get("proxy", ""),
    )
    return NodeView(node=name, facts=Known[NodeFacts](value=facts))


def etcd_of(given: Any) -> Any:
    if isinstance(given, str):
        why, _, said = given.partition(" ")
        return Unknown(reason=UnknownReason(why), detail=said or "refused: connection refused")
    alarms = Known[tuple[str, ...]](value=tuple((given or {}).pop("alarms", [])))
    facts = {"endpoint": ETCD, "healthy": True, "version": "3.4.23", "v2": True, "alarms": alarms} | (given or {})
    return Known[EtcdFacts](value=EtcdFacts(**facts))


def evidence(given: dict[str, Any]) -> Evidence:
    """The whole of a situation."""
    if given.get("absent"):
        return Evidence(name="", taken_at=NOW, configured=Absent(proof=given["absent"]))
    runs = given.get("runs", [])
    first = tuple(run_keys(r, 0) for r in runs if not r.get("new"))
    reads = Reads(first=first, second=tuple(run_keys(r, 1) for r in runs), apart_s=given.get("apart", 16))
    read = Unknown(reason=UnknownReason(given["unread"]), detail="") if "unread" in given else Known[Reads](value=reads)
    stopped = tuple(Listening(node=n, process=Halted(**HALTED | p)) for n, p in given["stopped"].items()) if "stopped" in given else None
    configured = Known[bool](value=True) if given.get("configured", True) else Unknown(reason=UnknownReason.NOT_ASKED)
    return Evidence(
        name="train",
        taken_at=NOW,
        endpoints=tuple(given.get("endpoints", [ETCD])),
        backends=("etcd-v2",),
        asks="n1",
        run=given.get("run", ""),
        configured=configured,
        etcd=etcd_of(given.get("etcd", {})),
        runs=read,
        etcd_stopped=Known[tuple[Listening, ...]](value=stopped) if stopped is not None else NOT_RECORDED,
        nodes=tuple(node(n, v) for n, v in given.get("nodes", {"n1": {}, "n2": {}}).items()),
        stores=tuple(StoreView(**s) for s in given.get("stores", [])),
        known_runs=given.get("known", {}),
        start=tuple(given.get("start", [])),
        start_node="n1" if given.get("start") else "",
        symptom=given.get("symptom", ""),
        hands_off=tuple(given.get("hands_off", [])),
        contained=given.get("contained", False),
        saved=Known[Putback](value=Putback(**given["saved"])) if "saved" in given else NO_RETURN,
    )
