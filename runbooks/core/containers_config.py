"""The fleet file's `containers` section: which container runs on which node, and how it is brought back to work."""

import re
from enum import StrEnum

from pydantic import Field, model_validator

from runbooks.core.base import Frozen

CONTAINER = r"^[A-Za-z0-9][A-Za-z0-9_.-]{1,127}$"  # the engine's own rule for names
Argv = tuple[str, ...]


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
    daemon_pidfile: str = "/var/run/docker.pid"
    daemon_start: Argv = ("systemctl", "start", "docker")  # run only when the daemon is proven down
    setup: tuple[Argv, ...] = ()  # run inside, in order, after each start
    setup_timeout_s: float = Field(default=300, gt=0, le=3600)
    mounts: tuple[ContainerMount, ...] = ()
    start: Argv = ()  # starts the application inside; empty: the container's own command is the application
    start_detached: bool = True  # false: the command returns by itself
    match: str = ""  # Python regular expression on the command lines inside: the application; empty: not checked
    probe: Argv = ()  # run inside: exit 0 = the application answers
    probe_timeout_s: float = Field(default=5, gt=0, le=60)
    ray_ip: str = ""  # address with which its Ray node appears at the head; empty: not a Ray node
    disks: tuple[str, ...] = ("/", "/var/lib/docker", "/tmp")  # noqa: S108 - paths whose free space is read

    @model_validator(mode="after")
    def _commands(self) -> "ManagedContainer":
        for argv in self.setup:
            if not argv or not argv[0]:
                raise ValueError("setup: each command is a non-empty list of words")
        try:
            re.compile(self.match)
        except re.error as e:
            raise ValueError(f"match: {self.match!r} is no regular expression: {e}") from e
        return self
