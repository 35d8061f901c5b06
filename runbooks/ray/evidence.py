"""What is read about one Ray job before it is judged: the head's lists, its logs, activity of its workers."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field

from runbooks.core.base import Frozen, MaybeProcessId, ProcessId
from runbooks.core.halted import Halted
from runbooks.core.host_facts import KernelOom
from runbooks.core.ray_config import StartPhase
from runbooks.core.ray_view import RayHead, RayNode, Versions
from runbooks.core.reading import NOT_RECORDED, Known, Reading


def _of_older_record(value: Any) -> Any:
    """A bare list, of a record made before it was told whether a log could be read."""
    return {"kind": "known", "value": value} if isinstance(value, list | tuple) else value


Ooms = Annotated[Reading[tuple[KernelOom, ...]], BeforeValidator(_of_older_record)]
Lines = Annotated[Reading[tuple[str, ...]], BeforeValidator(_of_older_record)]


class RayJob(Frozen):
    """A submitted job. The entrypoint's secrets are replaced."""

    submission_id: str
    job_id: str | None = None  # of its driver, "" where it has none (before it runs); None: its record does not say
    status: str  # PENDING | RUNNING | STOPPED | SUCCEEDED | FAILED
    error_type: str = ""
    message: str = ""
    entrypoint: str = ""
    exit_code: int | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    resources: dict[str, float] = {}  # asked for the entrypoint itself


class Actor(Frozen):
    """An actor as the State API lists it."""

    actor_id: str
    class_name: str
    name: str = ""
    state: str  # DEPENDENCIES_UNREADY | PENDING_CREATION | ALIVE | RESTARTING | DEAD
    job_id: str = ""  # "": its record does not say
    pid: MaybeProcessId = None  # as its worker knows itself, in the PID namespace of its raylet; None: it was none yet
    node_id: str = ""
    ip: str = ""  # by its death record, "" of one that lives
    death_reason: str = ""  # OOM, WORKER_DIED, NODE_DIED, OWNER_DIED, …
    death_message: str = ""  # secrets replaced
    resources: dict[str, float] = {}
    ended_at: datetime | None = None  # by the head's clock


class PlacementGroup(Frozen):
    """A placement group."""

    id: str
    name: str = ""
    state: str  # PENDING | PREPARED | CREATED | REMOVED | RESCHEDULING
    job_id: str = ""
    bundles: tuple[dict[str, float], ...] = ()


class Usage(Frozen):
    """Resources of the whole cluster: name -> (used, total)."""

    usage: dict[str, tuple[float, float]]
    demands: tuple[str, ...] = ()  # pending demands in words
    coming: tuple[str, ...] = ()  # nodes that the autoscaler has asked for


class LogFile(Frozen):
    """A log on a node: its age by file time and its last lines."""

    model_config = ConfigDict(title="log")

    node: str
    path: str
    size_bytes: int
    age_s: float  # since its last write, by the node's own clock
    lines: Lines = Known[tuple[str, ...]](value=())  # the last ones, secrets replaced


Logs = Annotated[Reading[tuple[LogFile, ...]], BeforeValidator(_of_older_record)]


class WorkerActivity(Frozen):
    """What a worker process did within the window."""

    node: str
    pid: ProcessId  # as the reader sees it
    own_pid: MaybeProcessId = None  # as it knows itself, in its own PID namespace; None: not read
    namespace: int | None = None  # inode of that namespace
    age_s: float | None = None  # at the end of the window; None: an older record
    command: str
    cpu_s: float  # CPU seconds within the window
    read_bytes: int = 0  # within the window
    state: str = ""


class NodeLogs(Frozen):
    """One node's part."""

    model_config = ConfigDict(title="node")

    node: str  # fleet name
    ip: str
    window_s: float
    raylet_age_s: float | None = None  # of raylet.out; None: there is none
    raylet_alive: bool | None = None
    namespace: int | None = None  # inode of the raylet's PID namespace, in which its workers have their numbers; None: no raylet is seen
    raylet_state: str = ""  # of its process, as the kernel names it
    raylet_halted: Halted | None = None  # its process, where a signal has stopped it
    stopped: tuple[Halted, ...] = ()  # then also others of its session on that node that are stopped
    logs: Logs = Known[tuple[LogFile, ...]](value=())  # of workers, drivers, their set-up; Absent: Ray has no folder of logs there
    autoscaler: LogFile | None = None  # its log, on the head; None: there is none
    events: tuple[str, ...] = ()  # the head's last events about jobs
    activity: tuple[WorkerActivity, ...] = ()
    ooms: Ooms = Field(Known[tuple[KernelOom, ...]](value=()), title="out-of-memory kills")  # by its kernel log
    gpu_use: tuple[float, ...] | None = None  # per cent of each GPU of the node; None: its GPUs were not read
    disk_free_bytes: int | None = None  # of Ray's temp dir
    interfaces: tuple[str, ...] = ()  # network interfaces with an address
    versions: Versions = Versions()  # of its raylet, or of the `ray` that would start one


class Evidence(Frozen):
    """Everything that the ray-job judgment looks at."""

    cluster: str  # head node's fleet name
    taken_at: datetime
    submission_id: str = ""
    head: Reading[RayHead] = Field(NOT_RECORDED, title="Ray head")
    job: Reading[RayJob] = NOT_RECORDED  # Absent: no job was named and none runs
    nodes: Reading[tuple[RayNode, ...]] = NOT_RECORDED
    actors: Reading[tuple[Actor, ...]] = NOT_RECORDED
    groups: Reading[tuple[PlacementGroup, ...]] = Field(NOT_RECORDED, title="placement groups")
    usage: Reading[Usage] = Field(NOT_RECORDED, title="resources in use")
    other_jobs: Reading[tuple[RayJob, ...]] = NOT_RECORDED
    driver_log: Reading[tuple[str, ...]] = NOT_RECORDED  # its last lines
    node_logs: tuple[Reading[NodeLogs], ...] = ()
    head_seconds: float = 0.0  # how long the head took to answer
    expected: dict[str, float] = {}
    phases: tuple[StartPhase, ...] = ()
    restart_raylet: dict[str, tuple[str, ...]] = {}  # fleet node name -> argv
    dashboard: str = ""
    hands_off: bool = False
    hands_off_nodes: tuple[str, ...] = ()  # of those that the fleet file names for the cluster
