"""The fleet file's `containers` section: which container runs on which node, and how it is brought back to work."""

import ipaddress
from collections.abc import Collection, Sequence
from enum import StrEnum

from pydantic import Field, field_validator, model_validator

from runbooks.core.argv import Argv
from runbooks.core.base import Frozen, Regex
from runbooks.core.names import there_are
from runbooks.core.ray_config import RayCluster

CONTAINER = r"^[A-Za-z0-9][A-Za-z0-9_.-]{1,127}$"  # the engine's own rule for names
KEPT = (".dead-", ".new-")  # in names that a recreation gives


class Where(StrEnum):
    """Which mount table a mount belongs to."""

    HOST = "host"
    CONTAINER = "container"


class ContainerMount(Frozen):
    """A FUSE (or other) mount that the container needs. `mount` must return once it is mounted."""

    path: str = Field(pattern=r"^/.*[^/]$")
    where: Where = Where.CONTAINER
    mount: Argv = Field(min_length=1)


class ManagedContainer(Frozen):
    """A container that `container-death` looks after. Commands are argument lists: no shell reads them."""

    name: str = Field(pattern=CONTAINER)
    node: str
    engine: Argv = Field(default=("docker",), min_length=1)  # client and its options: [docker, -H, unix:///run/x.sock]
    socket: str = Field(default="/var/run/docker.sock", pattern=r"^/")  # the engine's API socket on the node
    daemon_pidfile: str = Field(default="/var/run/docker.pid", pattern=r"^/")
    daemon_start: Argv = Field(default=("systemctl", "start", "docker"), min_length=1)  # run only when the daemon is proven down
    setup: tuple[Argv, ...] = ()  # run inside, in order, after each start
    setup_timeout_s: float = Field(default=300, gt=0, le=3600)
    mounts: tuple[ContainerMount, ...] = ()
    start: Argv = ()  # starts the application inside; empty: the container's own command is the application
    start_detached: bool = True  # false: the command returns by itself
    match: Regex = ""  # Python regular expression on the command lines inside: the application; empty: not checked
    probe: Argv = ()  # run inside: exit 0 = the application answers
    probe_timeout_s: float = Field(default=5, gt=0, le=60)
    ray_ip: str = ""  # address with which its Ray node appears at the head; empty: not a Ray node
    disks: tuple[str, ...] = ("/", "/var/lib/docker", "/tmp")  # noqa: S108 - paths whose free space is read

    @field_validator("ray_ip")
    @classmethod
    def _address(cls, text: str) -> str:
        return str(ipaddress.ip_address(text)) if text else text

    @field_validator("disks")
    @classmethod
    def _absolute(cls, paths: tuple[str, ...]) -> tuple[str, ...]:
        for path in paths:
            if not path.startswith("/"):
                raise ValueError(f"{path!r} is not an absolute path")
        return paths

    @model_validator(mode="after")
    def _commands(self) -> "ManagedContainer":
        if not all(self.setup):
            raise ValueError("setup: each command is a non-empty list of words")
        return self


def engine_of(containers: "tuple[ManagedContainer, ...]") -> tuple[str, ...]:
    """Client of a node's container engine: as the node's containers name it, where they agree."""
    named = {c.engine for c in containers}
    return named.pop() if len(named) == 1 else ("docker",)


def check_containers(containers: Sequence[ManagedContainer], nodes: Collection[str], ray: RayCluster | None) -> None:
    """Raises ValueError when a container or the cluster names a node that is not there, or one container stands twice."""
    seen = set()
    for c in containers:
        if (c.node, c.name) in seen:
            raise ValueError(f"container {c.name} on {c.node} given twice")
        if any(mark in c.name for mark in KEPT):
            raise ValueError(f"container {c.name}: names with {' or '.join(KEPT)} are reserved for containers that were set aside")
        if c.ray_ip and ray is None:
            raise ValueError(f"container {c.name}: ray_ip needs the `ray` section, because the head is asked for its node")
        seen.add((c.node, c.name))
    wanted = {f"container {c.name}": c.node for c in containers}
    if ray:
        wanted |= {"ray.head": ray.head} | {f"ray.nodes {ip}": n for ip, n in ray.nodes.items()}
        wanted |= {f"ray.restart_raylet {n}": n for n in ray.restart_raylet}
    for what, node in wanted.items():
        if node not in nodes:
            raise ValueError(f"{what}: no node {node}; {there_are(node, sorted(nodes))}")
