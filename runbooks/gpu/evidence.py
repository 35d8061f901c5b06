"""What is read about one node before its GPUs are judged. Bytes, seconds, W, MHz; per cent is 0-100 of one device."""

from datetime import datetime

from pydantic import ConfigDict, Field

from runbooks.core.base import Frozen, ProcessId
from runbooks.core.gpu_set import GpuSet
from runbooks.core.reading import NOT_RECORDED, Absent, Reading, Unknown, UnknownReason
from runbooks.gpu.leader import LeaderView

NO_LOG = Unknown(reason=UnknownReason.NOT_ASKED, detail="the logs of its jobs were not asked for")
ALL_HERE = Absent(proof="no process here names a run with more ranks than are here")


class Process(Frozen):
    """A process on the node: two looks, `window_s` apart."""

    pid: ProcessId
    start_ticks: int  # /proc/PID/stat field 22: with pid and boot id its identity
    age_s: float
    state: str  # at the second look: R S D T t Z X I
    states: tuple[str, ...] = ()  # state at every look
    wchan: str = ""  # kernel function it waits in, where readable
    ppid: int
    parent_state: str = ""
    parent_command: str = ""
    children: tuple[int, ...] = ()
    live_children: tuple[int, ...] = ()  # children that are not Z
    pgid: int
    sid: int
    uid: int
    user: str = ""
    command: str  # full command line, secrets replaced
    cgroup: str = ""
    container: str = ""  # container id from the cgroup, "" on the host
    pid_namespace: int | None = None
    ns_pids: tuple[int, ...] = ()  # NSpid: pid in each namespace, outermost first
    tracer: int = 0  # pid of a debugger
    threads: int = 1
    threads_d: int = 0  # threads in uninterruptible sleep
    cpu_s: float | None = None  # CPU seconds used, all threads, at the second look
    cpu_window_s: float | None = None  # of that within the window
    read_bytes: int | None = None  # rchar at the second look
    written_bytes: int | None = None  # wchar
    io_window_bytes: int | None = None  # rchar + wchar within the window
    children_cpu_window_s: float = 0.0  # CPU of live descendants within the window (data loaders)
    children_io_window_bytes: int = 0
    nvidia_fds: tuple[str, ...] = ()  # /dev/nvidia* held open
    writing: tuple[str, ...] = ()  # regular files open for writing whose offset or size moved within the window
    sockets_moved_bytes: int | None = None  # TCP bytes sent and received within the window, where readable
    listening: tuple[int, ...] = ()  # TCP ports it listens on
    job: str = ""  # name of the fleet file's job whose pattern matches
    torch: str = ""  # version of the torch that it has loaded; "": none was seen
    run: dict[str, str] | None = None  # of its environment: what names its run, world and rank; None: not read


class Facts(Frozen):
    """The node itself."""

    boot_id: str
    uptime_s: float
    in_container: bool
    root: bool
    hostname: str = ""
    clock_s: float | None = None  # the node's clock, Unix time


class KernelEvent(Frozen):
    """A line of the kernel log that concerns a GPU."""

    at_s: float | None  # since boot
    text: str
    xid: int | None = None
    bus_id: str = ""
    pid: int | None = None
    process: str = ""


class ProgressMark(Frozen):
    """One sign of progress of a job, looked at twice."""

    job: str
    kind: str  # files | sqlite | log
    path: str
    before: int  # rows, bytes or lines
    after: int
    unit: str
    changed_s_ago: float | None = None  # age of the newest change by file time


class EarlierProcess(Frozen):
    """Counters of a process at an earlier run."""

    pid: int
    start_ticks: int
    state: str
    cpu_s: float | None
    io_bytes: int | None


class Earlier(Frozen):
    """What an earlier run on this node read; only comparable within one boot."""

    taken_at: datetime
    boot_id: str
    report: str  # id of that report
    processes: tuple[EarlierProcess, ...]
    progress: tuple[ProgressMark, ...] = ()
    gpu_used_bytes: dict[str, int] = Field(default_factory=dict)  # by UUID
    gpu_power_w: dict[str, float] = Field(default_factory=dict)
    gpu_sm_percent: dict[str, float] = Field(default_factory=dict)
    leader_jobs: int | None = None


class JobFacts(Frozen):
    """What the judgment needs of a job of the fleet file."""

    name: str
    kind: str
    restart: tuple[str, ...]
    warm_up_s: float
    progress_configured: bool
    single_node: bool = False  # the fleet file binds it to this one node: all its ranks are here
    gpu_hour_cost: float | None = None


class ContainerGpu(Frozen):
    """What a container that was given GPUs can still reach, asked from the host."""

    container: str  # full id
    name: str = ""
    nvml: str = ""  # the driver's words inside the container; "" where its GPUs answer


class InsideProcess(Frozen):
    """A process in a container that is of no job and on no GPU, over the window. None: not readable."""

    pid: ProcessId
    start_ticks: int
    command: str
    cpu_window_s: float
    io_window_bytes: int | None
    sockets_moved_bytes: int | None


class Inside(Frozen):
    """What a container's processes did that are not among the processes described one by one."""

    container: str  # full id
    others: int  # live ones
    unread: tuple[int, ...] = ()  # pids whose counters may not be read
    most: tuple[InsideProcess, ...] = ()  # who moved most: where these are quiet, all are


class Elsewhere(Frozen):
    """Another node on which ranks of a run that is here may be, looked at in the same way."""

    model_config = ConfigDict(title="node")

    node: str
    window_s: float = 0.0
    facts: Reading[Facts] = NOT_RECORDED
    gpus: Reading[GpuSet] = Field(NOT_RECORDED, title="GPUs")
    processes: Reading[tuple[Process, ...]] = NOT_RECORDED


class Evidence(Frozen):
    """Everything that the zombie-GPU judgment looks at."""

    node: str
    taken_at: datetime
    window_s: float
    gpu_words: tuple[str, ...] = ()  # where the fleet file says that the node has GPUs: "gpus: 8", "label gpu=h100"
    must_have: int | None = None  # how many, where the fleet file gives a number
    facts: Reading[Facts] = NOT_RECORDED
    gpus: Reading[GpuSet] = Field(NOT_RECORDED, title="GPUs")
    processes: Reading[tuple[Process, ...]] = NOT_RECORDED  # GPU holders, their parents and families, job processes
    device_holders: Reading[tuple[int, ...]] = Field(NOT_RECORDED, title="users of the device files")  # pids; Unknown: not all were visible
    kernel: Reading[tuple[KernelEvent, ...]] = Field(NOT_RECORDED, title="kernel log")  # since boot
    kernel_words: Reading[tuple[str, ...]] = Field(NOT_RECORDED, title="kernel lines without Xid")  # known faults
    leader: Reading[LeaderView] = NOT_RECORDED  # Absent: the fleet file names none
    progress: Reading[tuple[ProgressMark, ...]] = Field(NOT_RECORDED, title="signs of progress")
    log: Reading[tuple[str, ...]] = Field(NO_LOG, title="logs of the jobs")  # last lines, oldest first; Absent: none is named
    earlier: Reading[Earlier] = Field(NOT_RECORDED, title="earlier report")
    engine: tuple[str, ...] = ("docker",)  # client of the node's container engine, with its options
    containers: Reading[tuple[ContainerGpu, ...]] = NOT_RECORDED  # Absent: no container runtime here
    inside: Reading[tuple[Inside, ...]] = Field(NOT_RECORDED, title="processes in the containers")  # with one of the above, or lost GPUs
    elsewhere: Reading[tuple[Elsewhere, ...]] = Field(ALL_HERE, title="other nodes of the job")  # of runs that are larger than what is here
    jobs: tuple[JobFacts, ...] = ()
    hands_off: bool = False
