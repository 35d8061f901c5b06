"""What is read about one container, engine, host and application before its death is judged. Bytes, seconds, UTC."""

from datetime import datetime

from pydantic import Field

from runbooks.container.before import Sample
from runbooks.core.base import Frozen, ProcessId
from runbooks.core.host_facts import Disk, HostFacts, KernelOom
from runbooks.core.ray_view import RayHead, RayView
from runbooks.core.reading import NOT_RECORDED, Reading


class HealthCheck(Frozen):
    """One run of the image's health check."""

    exit: int
    ended_at: datetime | None = None
    output: str = ""  # its last line, secrets replaced


class MountPoint(Frozen):
    """A mount of the container as the engine lists it."""

    type: str  # bind | volume | tmpfs
    source: str
    destination: str
    name: str = ""  # volume name
    rw: bool = True
    propagation: str = ""


class ContainerFacts(Frozen):
    """A container as `inspect` shows it. Values of its environment are never kept, only names."""

    id: str
    name: str
    status: str  # created | running | paused | restarting | removing | exited | dead
    exit_code: int
    oom_killed: bool  # any process of it since its last start; Podman always says false
    error: str = ""
    created_at: datetime | None = None
    started_at: datetime | None = None  # None: never started
    finished_at: datetime | None = None
    pid: int = 0
    restart_count: int = 0
    restart_policy: str = "no"
    restart_max: int = 0
    auto_remove: bool = False
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    image: str = ""  # as named at creation
    image_id: str = ""
    mounts: tuple[MountPoint, ...] = ()
    devices: tuple[str, ...] = ()  # host paths
    gpu_requests: int = 0  # device requests (--gpus)
    privileged: bool = False
    network_mode: str = ""
    shm_bytes: int = 0
    memory_limit_bytes: int = 0  # 0: none
    labels: dict[str, str] = {}
    env_names: tuple[str, ...] = ()
    health: str = "none"  # none | starting | healthy | unhealthy
    health_streak: int = 0
    health_log: tuple[HealthCheck, ...] = ()


class Sibling(Frozen):
    """Another container of the same engine."""

    id: str
    name: str
    status: str
    exit_code: int
    started_at: datetime | None = None
    finished_at: datetime | None = None
    restart_policy: str = "no"
    pod: str = ""  # the Kubernetes pod that it belongs to, by its labels
    role: str = ""  # its name in that pod
    oom_killed: bool = False


class EngineEvent(Frozen):
    """A line of the engine's event stream about this container (or one that had its name)."""

    at: datetime
    action: str  # start, die, kill, stop, oom, destroy, health_status: unhealthy …
    id: str = ""
    name: str = ""
    exit_code: int | None = None
    signal: str = ""


class Daemon(Frozen):
    """The container engine's daemon."""

    version: str
    podman: bool = False
    images: tuple[str, ...] = ()  # ids that are on this node; () with images_read false
    images_read: bool = False
    dangling_bytes: int | None = None  # of images without a name
    build_cache_bytes: int | None = None


class FuseMount(Frozen):
    """A FUSE mount, on the host or inside the container."""

    path: str
    type: str  # fuse.gcsfuse, fuse …
    where: str = "host"  # host | container
    state: str  # alive | dead (its process is gone) | hung (does not answer)
    error: str = ""
    server_pid: int | None = None  # process that serves it, where it could be found
    wanted: bool = False  # the container's mounts or the fleet file need it


class Supervisor(Frozen):
    """Something else that restarts this container or its application."""

    kind: str  # retry-loop | systemd | supervisord | cron | compose | an orchestrator by its labels: kubernetes, swarm …
    name: str  # script or unit
    pid: int | None = None
    start_ticks: int | None = None
    command: str = ""
    life: str = ""  # systemd's InvocationID while the unit runs
    rests: bool = False  # a unit that does nothing now and names no id: a start of it finds the recreated container
    boots: bool = False  # a boot starts it
    restart: str = ""  # a unit's own setting: always, on-failure …
    uid: int | None = None  # of the user whose own systemd has the unit; None: the machine's
    user: str = ""
    left_at: datetime | None = None  # when it last ended or was stopped, in this boot


class ContainerInside(Frozen):
    """What runs in the container (empty when it does not run)."""

    commands: tuple[str, ...] = ()  # full command lines, PID 1 first, secrets replaced
    pids: tuple[int, ...] = ()  # on the host, same order
    devices_denied: tuple[str, ...] = ()  # device nodes it cannot open any more ("Operation not permitted")
    shm: Disk | None = None  # its own /dev/shm


class Mover(Frozen):
    """A process of the container that was at work while it was watched."""

    pid: ProcessId  # on the host
    start_ticks: int
    says: str  # its command line and what it did, secrets replaced


class AppProbe(Frozen):
    """The configured question to the application."""

    exit: int | None  # None: did not answer in time
    seconds: float
    last_line: str = ""


class WantedContainer(Frozen):
    """What the fleet file says of this container: commands only, no secrets."""
    engine: tuple[str, ...]
    socket: str
    setup: tuple[tuple[str, ...], ...] = ()
    setup_timeout_s: float = 300
    mounts: tuple[tuple[str, str, tuple[str, ...]], ...] = ()  # (path, host | container, argv)
    start: tuple[str, ...] = ()
    start_detached: bool = True
    match: str = ""
    ray_ip: str = ""
    daemon_start: tuple[str, ...] = ()
    daemon_pidfile: str = ""


class Evidence(Frozen):
    """Everything that the container-death judgment looks at."""

    node: str
    name: str
    taken_at: datetime
    container: Reading[ContainerFacts] = NOT_RECORDED
    siblings: Reading[tuple[Sibling, ...]] = Field(NOT_RECORDED, title="other containers")
    log: Reading[tuple[str, ...]] = NOT_RECORDED  # its last lines, oldest first
    events: Reading[tuple[EngineEvent, ...]] = NOT_RECORDED
    daemon: Reading[Daemon] = NOT_RECORDED
    host: Reading[HostFacts] = NOT_RECORDED
    ooms: Reading[tuple[KernelOom, ...]] = Field(NOT_RECORDED, title="out-of-memory kills")
    fuse: Reading[tuple[FuseMount, ...]] = Field(NOT_RECORDED, title="FUSE mounts")
    supervisors: Reading[tuple[Supervisor, ...]] = NOT_RECORDED
    inside: Reading[ContainerInside] = Field(NOT_RECORDED, title="processes inside")
    work: Reading[tuple[Mover, ...]] = Field(NOT_RECORDED, title="work inside")  # who is at work inside; Absent: it does not run
    probe: Reading[AppProbe] = Field(NOT_RECORDED, title="the application's probe")  # Absent: none configured
    ray: Reading[RayView] = Field(NOT_RECORDED, title="Ray cluster")  # Absent: not a Ray node
    ray_head: Reading[RayHead] = Field(NOT_RECORDED, title="Ray head")
    before: Reading[tuple[Sample, ...]] = Field(NOT_RECORDED, title="the watch's record")  # oldest first; Absent: no watch
    wanted: WantedContainer | None = None  # None: not in the fleet file
    hands_off: bool = False
    remove_kept: bool = False  # the run was asked to offer the removal of old kept containers
