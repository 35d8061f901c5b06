"""The programs of a node that readings call and that may be missing there: the package, and what is not read without each. Pure."""

from enum import StrEnum
from typing import NamedTuple

from runbooks.core.base import Frozen


class NodePart(StrEnum):
    """What a node must have for a program to be of use there."""

    NVIDIA = "nvidia"  # a display device on its PCI bus
    DISKS = "disks"  # disks with a health of their own
    RAY_HEAD = "ray-head"  # the cluster's head, by the fleet file


class Tool(NamedTuple):
    """A program of a node."""

    package: str  # on Debian and Ubuntu
    gives: str  # what cannot be read without it
    of: NodePart | None = None  # where it is of use; None: on every node
    instead: str = ""  # another program that gives the same
    vital: bool = False  # without it what the runbooks are about cannot be read at all


TOOLS = {
    "nvidia-smi": Tool("nvidia-smi (Ubuntu: nvidia-utils-VERSION) in the driver's own version", "the GPUs", NodePart.NVIDIA, vital=True),
    "ss": Tool("iproute2", "how much each process sends and receives"),
    "ip": Tool("iproute2", "addresses and routes"),
    "dmesg": Tool("util-linux", "the kernel log", instead="journalctl"),
    "curl": Tool("curl", "Ray's dashboard", NodePart.RAY_HEAD, vital=True),
    "smartctl": Tool("smartmontools", "what disks say of their own health", NodePart.DISKS),
    "modinfo": Tool("kmod", "which version of the NVIDIA driver would be loaded", NodePart.NVIDIA),
}
ENGINES = {"docker": "docker.io", "podman": "podman", "nerdctl": "containerd"}


class Wanted(Frozen):
    """A program that readings call on a node."""

    program: str  # its name, or the path that the fleet file gives
    runbooks: tuple[str, ...]
    gives: str
    fix: str
    of: NodePart | None = None
    instead: str = ""
    vital: bool = False

    @property
    def says(self) -> str:
        """What is not read without it, and by which runbooks."""
        return f"no {self.program}: {', '.join(self.runbooks)} cannot read {self.gives}"


def wanted(tool: str, runbooks: tuple[str, ...], program: str = "") -> Wanted:
    """A program of the table; `program`: the path that the fleet file gives for it."""
    found = TOOLS[tool]
    fix = f"install {found.package} there" if not program else f"install it there, or correct its path {program} in the fleet file"
    return Wanted(
        program=program or tool, runbooks=runbooks, gives=found.gives, fix=fix, of=found.of, instead=found.instead, vital=found.vital
    )


def engine(program: str) -> Wanted:
    """The client of a node's container engine, as the fleet file names it."""
    package = ENGINES.get(program)
    fix = f"install {package} there" if package else "install it there"
    return Wanted(
        program=program, runbooks=("container-death",), gives="the containers", vital=True,
        fix=f"{fix}, or correct `engine` of the node's containers in the fleet file",
    )  # fmt: skip
