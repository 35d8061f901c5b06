"""The fleet file as types: nodes, jobs, leader, limits, where reports go. Reading the file is not done here."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Any

from pydantic import Field, field_validator, model_validator

from runbooks.core.argv import Argv
from runbooks.core.base import FromFile, Frozen, Regex
from runbooks.core.checkpoints import Checkpoints
from runbooks.core.containers_config import ManagedContainer, check_containers
from runbooks.core.data_config import DataSet
from runbooks.core.fleet_names import UNNAMED
from runbooks.core.launch_config import Launch
from runbooks.core.names import there_are
from runbooks.core.orchestrator_config import Orchestrator
from runbooks.core.ray_config import RayCluster
from runbooks.core.rendezvous_config import Rendezvous


class UnknownNode(KeyError):
    """No node of that name. The message lists the names."""

    def __str__(self) -> str:
        return str(self.args[0])


NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$"


class KeySource(Frozen):
    """Where the private key of a node comes from. Exactly one of these."""

    file: str | None = None  # path on the machine that runs the engine
    agent: bool = False  # SSH_AUTH_SOCK
    env: str | None = None  # name of an environment variable that holds the key's text
    secret: str | None = Field(default=None, pattern="^[a-z0-9-]+$")  # name of a Prefect Secret block

    @model_validator(mode="after")
    def _one(self) -> "KeySource":
        given = [n for n in ("file", "env", "secret") if getattr(self, n)] + (["agent"] if self.agent else [])
        if len(given) != 1:
            raise ValueError(f"give exactly one of file, agent, env, secret (given: {', '.join(given) or 'none'})")
        return self


class Jump(Frozen):
    """A jump host. Its host key is verified like any other."""

    host: str
    port: int = Field(default=22, ge=1, le=65535)
    user: str | None = None
    key: KeySource | None = None
    known_hosts: str | None = None
    host_key: str | None = None


class SecondWay(Frozen):
    """Another way into a machine whose SSH fails: commands run on another node, behind a prefix."""

    node: str  # fleet node: another user's log-in to it, its console host, or `local`
    prefix: tuple[str, ...] = ()  # in front of each command: [docker, exec, -i, trainer]; empty: that node is it


class Node(Frozen):
    """A machine of the fleet: this one (`local: true`) or one reached by SSH."""

    name: str = Field(pattern=NAME)
    local: bool = False
    host: str | None = None
    port: int = Field(default=22, ge=1, le=65535)
    user: str | None = None
    key: KeySource | None = None
    known_hosts: str | None = None  # file; default ~/.ssh/known_hosts
    host_key: str | None = None  # pinned: "ssh-ed25519 AAAA…"
    jump: Jump | None = None
    connect_timeout_s: float = Field(default=10.0, gt=0, le=120)
    labels: dict[str, str] = {}
    gpus: int | None = Field(default=None, ge=0, le=64)  # how many it must have; fewer is a finding
    public_key: str | None = None  # the public half that should be let in: its text, or the path of a .pub file
    second_way: SecondWay | None = None
    hands_off: bool = False  # opt-out: diagnose, never act
    reason: str = ""  # why hands_off

    @model_validator(mode="after")
    def _reachable(self) -> "Node":
        if self.local and self.host:
            raise ValueError("a node is either local or has a host, not both")
        if not self.local and not self.host:
            raise ValueError("give `host`, or `local: true` for this machine")
        return self

    @field_validator("host")
    @classmethod
    def _plain_host(cls, host: str | None) -> str | None:
        if host is not None and (host.startswith("-") or any(c.isspace() or c in ";|&$`'\"\\" for c in host)):
            raise ValueError("not a host name or address")
        return host


class ProgressKind(StrEnum):
    """How a job shows that it works."""

    FILES = "files"  # files that match a glob grow or are replaced
    SQLITE = "sqlite"  # a table gets rows
    LOG = "log"  # a log gets lines
    NONE = "none"  # nothing outside the process shows it


class Progress(Frozen):
    """One sign of progress of a job, on the node."""

    kind: ProgressKind
    path: str | None = None  # absolute path or glob
    table: str | None = None  # sqlite only

    @model_validator(mode="after")
    def _complete(self) -> "Progress":
        if self.kind is not ProgressKind.NONE and not (self.path and self.path.startswith("/")):
            raise ValueError(f"kind {self.kind} needs an absolute `path`")
        if self.kind is ProgressKind.SQLITE and not self.table:
            raise ValueError("kind sqlite needs `table`")
        return self


class JobKind(StrEnum):
    """What a job's GPU pattern looks like when it is well."""

    TRAINING = "training"
    SELFPLAY = "selfplay"  # CPU-bound by design: low GPU use is normal
    INFERENCE = "inference"  # waits for requests
    INTERACTIVE = "interactive"  # notebook: waits for a person


class Job(Frozen):
    """A kind of job that runs on nodes, and how to recognise and restart it."""

    name: str = Field(pattern=NAME)
    kind: JobKind = JobKind.TRAINING
    match: Regex = Field(min_length=3)  # Python regular expression on the full command line
    nodes: tuple[str, ...] = ()  # node names; empty: any node of the fleet
    progress: tuple[Progress, ...] = ()
    restart: Argv = ()  # argv on the node; empty: cannot be restarted from here
    warm_up_s: float = Field(
        default=600, ge=0
    )  # start-up (imports, model load, compilation) during which idle is normal
    gpu_hour_cost: float | None = Field(default=None, ge=0)  # money per GPU and hour

    @field_validator("match")
    @classmethod
    def _not_everything(cls, text: str) -> str:
        import re

        if re.search(text, "") is not None:
            raise ValueError("matches every process (it matches the empty text); be more specific")
        return text


class Leader(Frozen):
    """The leader of a peer-to-peer cluster: GET `<url>/status`, POST `<url>/admin/reset_node_jobs`."""

    url: str = Field(pattern=r"^https?://[^\s]+$")
    token_env: str | None = None  # environment variable with a bearer token
    timeout_s: float = Field(default=5, gt=0, le=60)


class Reports(Frozen):
    """Where reports go besides the Prefect artifact."""

    folder: str = "reports"
    s3: str | None = Field(default=None, pattern=r"^s3://[a-z0-9][a-z0-9.-]+(/.*)?$")
    keep: int = Field(default=200, ge=2)  # JSON reports kept per runbook and target


class System(Frozen):
    """A system that must answer, for the doctor and the nightly: an HTTP(S) URL or tcp://host:port."""

    name: str = Field(pattern=NAME)
    url: str = Field(pattern=r"^(https?|tcp)://[^\s]+$")
    timeout_s: float = Field(default=5, gt=0, le=60)


class Fleet(FromFile):
    """The whole fleet file."""

    name: str = Field(default=UNNAMED, pattern=NAME)
    nodes: tuple[Node, ...] = Field(min_length=1)
    jobs: tuple[Job, ...] = ()
    leader: Leader | None = None
    containers: tuple[ManagedContainer, ...] = ()
    ray: RayCluster | None = None
    checkpoints: Checkpoints | None = None
    data: tuple[DataSet, ...] = ()
    systems: tuple[System, ...] = ()
    rendezvous: tuple[Rendezvous, ...] = ()
    launches: tuple[Launch, ...] = ()
    orchestrator: Orchestrator | None = None
    limits: dict[str, dict[str, Any]] = {}  # runbook slug -> limit name -> value
    reports: Reports = Reports()

    @model_validator(mode="after")
    def _names(self) -> "Fleet":
        for what, names in (("node", [n.name for n in self.nodes]), ("job", [j.name for j in self.jobs])):
            twice = sorted({n for n in names if names.count(n) > 1})
            if twice:
                raise ValueError(f"{what} name given twice: {', '.join(twice)}")
        known = {n.name for n in self.nodes}
        for what, used in self._named():
            missing = [n for n in used if n not in known]
            if missing:
                raise ValueError(f"{what}: no node {', '.join(missing)}; {there_are(missing[0], sorted(known))}")
        check_containers(self.containers, known, self.ray)
        return self

    def _named(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """What names nodes of this file, and which."""
        yield from ((f"job {j.name}", tuple(j.nodes)) for j in self.jobs)
        yield from ((f"node {n.name}: second_way", (n.second_way.node,)) for n in self.nodes if n.second_way)
        yield from ((f"rendezvous {r.name}", tuple(r.named_nodes())) for r in self.rendezvous)
        yield from ((f"launch {x.name}", tuple(x.nodes)) for x in self.launches)
        yield from ((f"checkpoint tier {t.name}", tuple(t.nodes)) for t in (self.checkpoints.tiers if self.checkpoints else ()))
        yield from ((f"data {d.files[0]}", (d.node,)) for d in self.data)

    def node(self, name: str) -> Node:
        """The node of that name. Raises UnknownNode (a KeyError) that lists the names."""
        for node in self.nodes:
            if node.name == name:
                return node
        raise UnknownNode(f"no node {name!r} in fleet {self.name!r}; {there_are(name, (n.name for n in self.nodes))}")

    def containers_on(self, node: str) -> tuple[ManagedContainer, ...]:
        """Containers that are looked after on that node."""
        return tuple(c for c in self.containers if c.node == node)

    def data_on(self, node: str) -> tuple[DataSet, ...]:
        """Training data on that node."""
        return tuple(d for d in self.data if d.node == node)

    def jobs_on(self, node: str) -> tuple[Job, ...]:
        """Jobs that may run on that node."""
        return tuple(j for j in self.jobs if not j.nodes or node in j.nodes)


LOCAL_FLEET = Fleet(nodes=(Node(name="local", local=True),))  # without a fleet file
