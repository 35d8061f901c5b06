"""What is read of one node's own limits."""

from datetime import datetime

from pydantic import Field

from runbooks.core.base import Frozen
from runbooks.core.reading import NOT_RECORDED, Reading, UnknownReason
from runbooks.core.sizes import size


class Gauge(Frozen):
    """How much of one limit is used."""

    subject: str  # "pid 4242 (python train.py)", "this machine", "user 1000"
    of: str  # what is counted: "open files"
    used: int
    limit: int | None  # None: there is none
    setting: str  # where the limit is kept: "fs.file-max", "pids.max of /system.slice/x"
    pid: int | None = None
    refused: int = 0  # times the kernel said no since that group exists
    made: str = ""  # tells that group from a later one of the same name
    refused_before: int | None = None  # so many of them the earlier look had seen; None: no earlier look at that group
    default: bool = False  # the small size that is got unasked, where more is needed: shared memory of a job, locked memory with RDMA

    @property
    def in_words(self) -> str:
        """How much of it is used, for a person: "512 of 1024 open files", "63.9 MiB of 64 MiB", "64 KiB of 64 KiB, locked"."""
        kind, _, what = self.of.rpartition(" ")
        if what != "bytes":
            return f"{self.used} of {self.limit} {self.of}"
        return f"{size(self.used)} of {size(self.limit or 0)}" + (f", {kind}" if kind else "")


class Clock(Frozen):
    """The node's clock minus the asking machine's, in seconds: it lies between these two."""

    least_s: float
    most_s: float


class ClockKeeper(Frozen):
    """What the node's kernel says of its clock (adjtimex)."""

    kept: bool  # something keeps it in time
    off_s: float = 0.0  # by at most so much, as the kernel reckons


class DiskFault(Frozen):
    """A file system that failed, or a disk that says so of itself."""

    subject: str  # where it is mounted, or the device
    said: str


class Server(Frozen):
    """One name server of the node, asked for one name."""

    address: str
    said: str  # "NOERROR", "NXDOMAIN", "SERVFAIL" …, or "no answer"

    @property
    def silent(self) -> bool:
        """Nothing that fits the question came back."""
        return self.said.startswith("no answer")


class Name(Frozen):
    """One name, resolved on the node."""

    name: str
    why: str  # who uses it: "option names", "endpoint of rendezvous etcd", "address of node b"
    said: str  # "resolved" | "no such name" | "no answer" | "timed out" | the resolver's error
    seconds: float = 0.0
    needed: bool = True  # whether this node must know it; another node's address it may never ask for
    servers: tuple[Server, ...] = ()  # asked where it failed or came late


class UnreadItem(Frozen):
    """Something that was looked for and not read."""

    what: str
    reason: UnknownReason
    detail: str = ""


class Evidence(Frozen):
    """Everything that the judgment of the limits looks at."""

    node: str
    taken_at: datetime
    before: datetime | None = None  # the earlier look that `refused_before` is of
    jobs: int = 0  # processes of the fleet's jobs that were looked at; 0: those with the most open files instead
    files: Reading[tuple[Gauge, ...]] = Field(NOT_RECORDED, title="open files")
    threads: Reading[tuple[Gauge, ...]] = NOT_RECORDED
    locked: Reading[tuple[Gauge, ...]] = Field(NOT_RECORDED, title="locked memory")
    shm: Reading[tuple[Gauge, ...]] = Field(NOT_RECORDED, title="shared memory")
    inotify: Reading[tuple[Gauge, ...]] = NOT_RECORDED
    clock: Reading[Clock] = NOT_RECORDED
    names: Reading[tuple[Name, ...]] = NOT_RECORDED
    disks: Reading[tuple[Gauge, ...]] = NOT_RECORDED  # bytes and inodes of its own file systems; network ones are not asked
    failed: Reading[tuple[DiskFault, ...]] = Field(NOT_RECORDED, title="file systems that failed")
    smart: Reading[tuple[DiskFault, ...]] = Field(NOT_RECORDED, title="health of the disks")
    keeper: Reading[ClockKeeper] = Field(NOT_RECORDED, title="what keeps the clock")
    unread: tuple[UnreadItem, ...] = ()
    hands_off: bool = False
