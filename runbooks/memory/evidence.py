"""What is read about memory on one node. Bytes."""

from datetime import datetime

from pydantic import Field

from runbooks.core.base import Frozen
from runbooks.core.gpu_set import GpuSet
from runbooks.core.reading import NOT_RECORDED, Reading
from runbooks.memory.parsers.kernel_ooms import HostOom
from runbooks.parsers.cuda_oom import CudaOom, SnapshotOom


class LogFacts(Frozen):
    """What the job's log says of memory."""

    cuda: tuple[CudaOom, ...] = ()
    snapshot: SnapshotOom | None = None
    resumed: bool = False  # a checkpoint was loaded shortly before
    killed: bool = False  # it says Killed, SIGKILL or exit 137
    bare: bool = False  # an out-of-memory line without numbers
    short: bool = False  # a line that reports a failure speaks of memory
    words: tuple[str, ...] = Field((), title="last lines")  # its last lines, for what else they say
    written_at: datetime | None = None  # its last write


class HostMemory(Frozen):
    """The node's memory and the tightest cgroup limit above the asking process."""

    total: int
    available: int
    swap_free: int = 0
    cgroup_limit: int | None = None
    cgroup_used: int | None = None
    free: int | None = None  # MemFree: what nobody uses, not even the page cache; None: an older record
    cached: int | None = None  # page cache and buffers
    kills: int | None = None  # by the kernel, for memory, since boot; None: it does not count them
    boot: str = ""  # this boot's id


class MemoryGroup(Frozen):
    """A control group with a limit, near it or with kills."""

    path: str
    limit: int
    used: int  # without page cache
    kills: int = 0  # by the kernel, for memory, since the group exists
    new_kills: int | None = None  # of them since the last sweep; None: not known


class Setup(Frozen):
    """The job's own numbers, as given to the run and as large as its options take them; None: not given."""

    batch: int | None = Field(default=None, ge=1, lt=10**7)  # per GPU
    gpus: int | None = Field(default=None, ge=1, lt=10**6)
    accumulation: int = Field(default=1, ge=1, lt=10**6)
    checkpointing: bool | None = None  # activation checkpointing


class Evidence(Frozen):
    """Everything that the memory judgment looks at."""

    node: str
    taken_at: datetime
    since: datetime | None = None  # a sweep: from when on a kill is news; None: a look by hand
    log_from: datetime | None = None  # the kernel log reaches back so far; None: not known
    log: Reading[LogFacts] = NOT_RECORDED
    gpus: Reading[GpuSet] = Field(NOT_RECORDED, title="GPUs")
    host: Reading[HostMemory] = NOT_RECORDED
    groups: Reading[tuple[MemoryGroup, ...]] = Field(NOT_RECORDED, title="cgroups")
    killed: Reading[tuple[HostOom, ...]] = Field(NOT_RECORDED, title="out-of-memory kills")
    commands: Reading[dict[int, str]] = Field(NOT_RECORDED, title="command lines")  # the driver's pid -> of those that surely are these
    job_match: tuple[str, ...] = ()  # patterns of the fleet's jobs
    setup: Setup = Setup()
    hands_off: bool = False
