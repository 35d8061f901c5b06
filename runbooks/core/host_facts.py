"""What is read about the machine under a container. Bytes, UTC."""

from datetime import datetime

from runbooks.core.base import Frozen


class Disk(Frozen):
    """A file system, at the path asked for."""

    path: str
    size_bytes: int
    free_bytes: int  # for unprivileged users
    inodes: int = 0  # 0: the file system has no fixed number
    inodes_free: int = 0
    read_only: bool = False


class Upgrade(Frozen):
    """A line of the package manager's log about engine, GPU driver or kernel."""

    at: datetime
    package: str
    what: str  # "upgrade 20.10.24 -> 20.10.25"
    about: str = "engine"  # engine | driver | kernel


class HostPath(Frozen):
    """What lies at a path of the host that the container mounts, or that the engine's error names."""

    path: str
    kind: str  # folder | file | other | none | unread
    mounted: bool = False  # something is mounted exactly there
    entries: int | None = None  # in a folder, 1000 at most; None: not counted
    unmounted: str = ""  # the mount point of fstab that covers it and on which nothing is mounted


class Driver(Frozen):
    """Versions of the NVIDIA driver; empty: looked for and not found."""

    loaded: str = ""  # of the module that the kernel runs
    libraries: tuple[str, ...] = ()  # of the libraries that containers are given
    module: str = ""  # of the module file that a load would take


class EngineUnit(Frozen):
    """The engine's own unit, as its systemd tells of this boot."""

    state: str  # active, inactive, failed …
    result: str = ""
    entered_at: datetime | None = None  # None: not started in this boot
    left_at: datetime | None = None  # None: not ended in this boot


class KernelFault(Frozen):
    """A process that the kernel stopped for a fault of its own, or for which a GPU reported one. Its container is not named."""

    at: datetime
    pid: int
    process: str
    text: str


class HostFacts(Frozen):
    """The machine."""

    boot_id: str
    booted_at: datetime
    shutdown_began_at: datetime | None = None  # before this boot; None: the journal does not tell, or there was none (a power cut)
    clock_at: datetime  # the node's clock when it was read
    clock_ahead_s: float = 0.0  # of the engine's clock
    memory_total_bytes: int
    memory_available_bytes: int
    disks: tuple[Disk, ...] = ()
    shm: Disk | None = None
    nvidia_devices: tuple[str, ...] = ()  # /dev/nvidia*
    accel_devices: tuple[str, ...] = ()  # /dev/accel*, /dev/vfio/*: a TPU VM
    missing_devices: tuple[str, ...] = ()  # device paths that the container asks for and that are not there
    missing_sources: tuple[str, ...] = ()  # bind sources that the container asks for and that are not there
    places: tuple[HostPath, ...] = ()  # its bind sources, and the paths that the engine's error names
    daemon_pid: int | None = None
    daemon_started_at: datetime | None = None
    daemon_alive: bool | None = None  # None: could not be told
    engine_unit: EngineUnit | None = None
    upgrades: tuple[Upgrade, ...] = ()
    driver: Driver | None = None  # None: not said
    faults: tuple[KernelFault, ...] = ()
    time_jumps: tuple[str, ...] = ()  # lines of the system log about the clock being set


class KernelOom(Frozen):
    """A process killed by the kernel for memory."""

    at: datetime
    pid: int
    process: str
    memcg: bool  # True: a cgroup's own limit; False: the whole machine was out of memory
    cgroup: str = ""  # of the victim; "": not said, as by kernels before 5.0
    text: str = ""
