"""What is read on every node before a launch, and of the training configuration."""

from datetime import datetime

from pydantic import ConfigDict, Field

from runbooks.core.base import Frozen
from runbooks.core.launch_config import Launch
from runbooks.core.reading import NOT_RECORDED, Absent, Reading
from runbooks.launch.parsers.nccl_interfaces import Interface
from runbooks.launch.parsers.slurm_batch import Batch
from runbooks.parsers.torchrun_cmdline import AgentLaunch as TorchLaunch


class PortHolder(Frozen):
    """A process that listens on the launch's port."""

    pid: int
    started_s: float = 0.0  # Unix time by the node's clock
    command: str = ""  # secrets replaced


class Launcher(Frozen):
    """A torchrun that runs on the node."""

    pid: int
    started_s: float = 0.0
    launch: TorchLaunch
    port: int | None = None  # of the rendezvous or master that it was given
    listens: bool = False  # it has the launch's port
    slurm_job: str = ""
    tasks: str = ""  # what Slurm told it of tasks on a node: "8", "8(x16)"


class Peer(Frozen):
    """One node's attempt to reach another at the launch's port."""

    node: str
    address: str  # host:port
    error: str = ""  # "" when that node was reached; "closed: …" when something accepted and closed


class GpuPaths(Frozen):
    """What lies between the GPUs of a node, by its own PCI bridges."""

    redirects: tuple[str, ...] = ()  # bridges whose ACS sends peer-to-peer traffic through the root
    denied: tuple[str, ...] = ()  # bridges whose ACS only root may read
    iommu: str = ""  # "" off or not translating
    virtual: bool = False


class LaunchNodeFacts(Frozen):
    """One node."""

    node: str
    clock_skew_s: float = 0.0
    gpus: Reading[tuple[str, ...]] = Field(NOT_RECORDED, title="GPUs")  # models; Absent: no NVIDIA driver here
    driver: str = ""
    versions: dict[str, str] = Field(default_factory=dict)  # torch, cuda, nccl, python of the job's interpreter
    versions_error: str = ""
    interfaces: Reading[tuple[Interface, ...]] = NOT_RECORDED
    routes: tuple[str, ...] = ()  # "10.0.0.0/20 eth0", in the kernel's order
    port_holders: tuple[int, ...] = ()
    holders: tuple[PortHolder, ...] = ()  # the same, as far as they could be read
    launchers: tuple[Launcher, ...] = ()
    port_open: bool = False  # somebody listened on the port before the check
    peers: tuple[Peer, ...] = ()
    proxy: str = ""  # service mesh whose proxy takes this node's connections: "istio", "linkerd"
    shm_bytes: int | None = None
    rdma_devices: tuple[str, ...] = ()
    rdma_library: bool | None = None
    memlock_bytes: int | None = None  # None: unlimited
    paths: GpuPaths | None = None  # None: fewer than two GPUs, or an older record
    env: dict[str, str] = Field(default_factory=dict)  # NCCL_*, MASTER_*, RANK … of a login there


class LaunchNodeView(Frozen):
    """A node of the launch and what could be read of it."""

    model_config = ConfigDict(title="node")

    node: str
    facts: Reading[LaunchNodeFacts] = NOT_RECORDED


class ConfigText(Frozen):
    """The training configuration as text, secrets replaced."""

    path: str
    text: str


class Evidence(Frozen):
    """Everything that the check before a launch looks at."""

    taken_at: datetime
    launch: Reading[Launch] = NOT_RECORDED  # Absent: the fleet file names none for this target
    nodes: tuple[LaunchNodeView, ...] = ()
    config: Reading[ConfigText] = Field(NOT_RECORDED, title="configuration")  # Absent: none is named
    batch: Reading[Batch] = Field(Absent(proof="the launch names no batch script"), title="batch script")
