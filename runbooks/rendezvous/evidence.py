"""What is read about one rendezvous before it is judged: etcd, its runs twice, processes on every node."""

from datetime import datetime

from pydantic import ConfigDict, Field

from runbooks.core.base import Frozen
from runbooks.core.halted import Halted
from runbooks.core.reading import NOT_RECORDED, Reading, Unknown, UnknownReason
from runbooks.parsers.torchrun_cmdline import AgentLaunch
from runbooks.rendezvous.parsers.etcd_v2 import RunKeys

NO_RETURN = Unknown(reason=UnknownReason.NOT_ASKED, detail="nobody asked for a saved run to be put back")


class EtcdFacts(Frozen):
    """One etcd endpoint as the asking node sees it."""

    endpoint: str
    healthy: bool
    health: str = ""  # its own words
    version: str = ""
    v2: bool | None = None  # None: not known
    v2_said: str = ""  # what /v2/keys answered where v2 is not on
    alarms: Reading[tuple[str, ...]] = NOT_RECORDED  # NOSPACE, CORRUPT
    db_bytes: int | None = None
    v3_keys: int | None = None  # keys below torch's roots in the v3 store, where no torch backend ever writes
    fsync_p99_s: float | None = None  # upper bound of the bucket that holds the 99th percentile


class Reads(Frozen):
    """All runs at two moments, more than three beats apart."""

    first: tuple[RunKeys, ...]
    second: tuple[RunKeys, ...]
    apart_s: float


class Agent(Frozen):
    """A torchrun process."""

    node: str
    pid: int
    start_ticks: int
    started_s: float  # Unix time by the node's clock
    state: str
    ppid: int
    uid: int = 0
    sid: int = 0
    cgroup: str = ""
    ns_pids: tuple[int, ...] = ()  # its number in each PID namespace, its own last
    command: str = ""  # full command line, secrets replaced
    launch: AgentLaunch
    workers: tuple[int, ...] = ()  # live children that carry a RANK

    @property
    def own_pid(self) -> int:
        """The number by which it knows itself, and by which it names itself in a rendezvous."""
        return self.ns_pids[-1] if self.ns_pids else self.pid


class Worker(Frozen):
    """A process that carries TORCHELASTIC_RUN_ID; one that has RANK, WORLD_SIZE and MASTER_ADDR without it; or a job's without any RANK."""

    node: str
    pid: int
    start_ticks: int
    started_s: float
    state: str
    ppid: int
    run_id: str | None = None  # None: started without torchrun
    env: dict[str, str] = Field(default_factory=dict)  # RANK, WORLD_SIZE, MASTER_*, TORCHELASTIC_* only
    orphan: bool = False  # its agent is gone
    job: str = ""  # job of the fleet file whose pattern matches
    loader: bool = False  # child of another worker

    @property
    def by_env(self) -> bool:
        """Whether it was given its place among the ranks without torchrun."""
        return self.run_id is None and all(self.env.get(name) for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR"))


class Pid(Frozen):
    """A number that the rendezvous names, and a process that has it now by its own count."""

    pid: int
    started_s: float
    python: bool = False  # its command looks like Python or torch
    namespace: int | None = None  # inode of its PID namespace; None: an older record


class Holder(Frozen):
    """A process that listens on a port."""

    pid: int
    started_s: float = 0.0
    command: str = ""  # secrets replaced


class Port(Frozen):
    """A TCP port that matters, on one node."""

    port: int
    listeners: tuple[int, ...] = ()  # pids; empty with `open` true: the holder could not be seen
    holders: tuple[Holder, ...] = ()
    open: bool = False
    time_wait: int = 0
    established: int = 0


class Reachability(Frozen):
    """Whether one node reaches one address."""

    address: str  # host:port
    resolves: tuple[str, ...] = ()
    error: str = ""  # "" when it connects; "closed: …" when something accepted and closed at once


class NodeFacts(Frozen):
    """One node as it sees itself."""

    node: str
    boot_id: str
    names: tuple[str, ...]  # host name, fully qualified name, addresses, the fleet file's host
    clock_s: float
    skew_s: float = 0.0  # against the engine's clock, half a round trip taken off
    agents: tuple[Agent, ...] = ()
    workers: tuple[Worker, ...] = ()
    pids: tuple[Pid, ...] = ()  # of the pids that were asked for: those that exist and are no zombie
    namespace: int | None = None  # inode of the PID namespace in which its names were read; None: an older record
    hidden: int = 0  # processes whose environment could not be read
    inside: str | None = None  # why this is a container's view, in which processes beside it are not seen; "": none; None: not said
    ports: tuple[Port, ...] = ()
    reach: tuple[Reachability, ...] = ()
    checkpoints: int | None = None  # files that match the configured glob
    host_name: str = ""  # "" in older records
    own_addresses: tuple[str, ...] = ()  # what its own host name resolves to there
    canonical: tuple[str, ...] = ()  # the full names that this gives
    proxy: str = ""  # service mesh whose proxy takes its connections: "istio", "linkerd"


class NodeView(Frozen):
    """A configured node and what could be read of it."""

    model_config = ConfigDict(title="node")

    node: str
    facts: Reading[NodeFacts] = NOT_RECORDED


class Listening(Frozen):
    """A stopped process that listens at etcd's address."""

    node: str
    process: Halted


class StoreView(Frozen):
    """A c10d store endpoint."""

    endpoint: str
    host_node: str = ""  # node of the fleet that owns the address
    answers: bool = False
    listener: str = ""  # who listens there, on its owner


class Putback(Frozen):
    """A saved run that a person wants back, against what is there now."""

    file: str
    digest: str  # sha256 of the file
    run: str
    backend: str
    missing: tuple[str, ...] = ()  # keys that would be written
    expired: int = 0  # keys whose time to live has passed meanwhile
    refusal: str = ""  # why it must not be put back


class Evidence(Frozen):
    """Everything that the stale-rendezvous judgment looks at."""

    name: str  # of the rendezvous in the fleet file; "" when found on the node only
    taken_at: datetime
    endpoints: tuple[str, ...] = ()
    backends: tuple[str, ...] = ()
    asks: str = ""
    prefix: str = "/torchelastic/p2p"
    keep_alive_s: float = 5.0
    run: str = ""  # the one run that was asked about; "": all
    configured: Reading[bool] = Field(NOT_RECORDED, title="configuration")  # Absent: no rendezvous section and no torchrun on the node
    etcd: Reading[EtcdFacts] = NOT_RECORDED  # Absent: no etcd backend
    runs: Reading[Reads] = NOT_RECORDED
    etcd_stopped: Reading[tuple[Listening, ...]] = Field(NOT_RECORDED, title="stopped etcd processes")  # Absent: etcd did not time out
    nodes: tuple[NodeView, ...] = ()
    stores: tuple[StoreView, ...] = ()
    known_runs: dict[str, str] = Field(default_factory=dict)  # run id -> job that uses it again
    port: int = 29500
    start: tuple[str, ...] = ()  # configured command that starts etcd
    start_node: str = ""
    start_data: str = ""
    probe: bool = False
    probe_command: str = ""  # with the endpoint filled in; {run} stands for the id
    symptom: str = ""  # what the operator pasted
    hands_off: tuple[str, ...] = ()
    contained: bool = False  # the fleet file says: each node is one container, nothing runs beside it
    room: int | None = None  # nodes of this rendezvous alone; `nodes` also has those that share its etcd
    saved: Reading[Putback] = Field(NOT_RECORDED, title="saved run")  # Known only when a person asked to put a saved run back

    @property
    def etcd_endpoint(self) -> str:
        """The endpoint whose keys were read."""
        return next((e for e in self.endpoints if e.startswith("http")), next(iter(self.endpoints), "")).rstrip("/")
