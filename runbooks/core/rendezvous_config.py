"""The fleet file's `rendezvous` section: where torchrun jobs meet, who may join, how etcd is started."""

from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from runbooks.core.base import Frozen, Regex

NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$"


class Tls(Frozen):
    """Files on the asking node for an https endpoint."""

    ca: str | None = None
    cert: str | None = None
    key: str | None = None


class EtcdAuth(Frozen):
    """Who asks an etcd that wants a user. The password is read on the asking node and never leaves it."""

    user: str = Field(min_length=1, pattern=r"^[^:\s]+$")
    password_file: str | None = None  # file on the asking node
    password_env: str | None = Field(default=None, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")  # of a log-in there

    @model_validator(mode="after")
    def _one(self) -> "EtcdAuth":
        if (self.password_file is None) == (self.password_env is None):
            raise ValueError("give password_file or password_env, a file or variable of the asking node")
        return self


class TestRun(Frozen):
    """A short real run with the same id: it must form a world of this size."""

    command: tuple[str, ...] = Field(min_length=1)  # argv on each node; {run} and {endpoint} are filled in
    nodes: tuple[str, ...] = Field(min_length=1)
    expect: Regex = Field(min_length=3)  # regular expression that the output of one node must match
    timeout_s: float = Field(default=180, gt=0, le=1800)


class EtcdStart(Frozen):
    """How a configured etcd that is down is started. Its data is never touched."""

    node: str
    command: tuple[str, ...] = Field(min_length=1)  # e.g. [systemctl, start, etcd] or [docker, start, etcd]
    data_dir: str | None = None  # if given: must exist and hold a member folder, else it is not started


class Rendezvous(Frozen):
    """One meeting place."""

    name: str = Field(pattern=NAME)
    backends: tuple[Literal["etcd", "etcd-v2", "c10d"], ...] = ("etcd-v2",)
    endpoints: tuple[str, ...] = Field(min_length=1)  # etcd: http(s)://host:port; c10d: host:port
    nodes: tuple[str, ...] = Field(min_length=1)  # every node whose agents may join; acts need all of them
    via: str | None = None  # node that asks etcd; default: the first of `nodes`
    prefix: str = Field(default="/torchelastic/p2p", pattern=r"^/[A-Za-z0-9._/-]+$")  # backend etcd only
    runs: dict[str, str] = Field(default_factory=dict)  # run id -> job of the fleet file that uses it again and again
    port: int = Field(default=29500, ge=1, le=65535)  # MASTER_PORT where the command line names none
    keep_alive_s: float = Field(default=5, gt=0, le=120)  # keep_alive_interval of the jobs
    tls: Tls = Tls()
    auth: EtcdAuth | None = None
    contained: bool = False  # a node of `nodes` is one container, and no agent runs beside it on its host
    start: EtcdStart | None = None
    probe: TestRun | None = None
    checkpoints: str | None = None  # glob on the nodes: is there something to recover from

    @property
    def asks(self) -> str:
        """Name of the node that asks etcd."""
        return self.via or self.nodes[0]

    @property
    def etcd(self) -> bool:
        """Whether any of its backends lives in etcd."""
        return any(b != "c10d" for b in self.backends)

    @field_validator("endpoints")
    @classmethod
    def _plain(cls, endpoints: tuple[str, ...]) -> tuple[str, ...]:
        for e in endpoints:
            if e.startswith("-") or any(c.isspace() or c in ";|&$`'\"\\@" for c in e):
                raise ValueError(f"not an endpoint: {e!r}")
        return endpoints

    @model_validator(mode="after")
    def _kinds(self) -> "Rendezvous":
        for e in self.endpoints:
            if self.etcd and "c10d" not in self.backends and not e.startswith(("http://", "https://")):
                raise ValueError(f"an etcd endpoint is http://host:port, found {e!r}")
        return self

    @property
    def etcd_endpoint(self) -> str:
        """The endpoint that is asked: the first http one."""
        return next((e for e in self.endpoints if e.startswith("http")), self.endpoints[0]).rstrip("/")

    @property
    def access(self) -> dict[str, Any]:
        """What a script on the asking node needs to talk to etcd: where, with which files. No secret."""
        auth = self.auth.model_dump() if self.auth else None
        return {"endpoint": self.etcd_endpoint, "tls": self.tls.model_dump(), "auth": auth}

    def named_nodes(self) -> tuple[str, ...]:
        """Every node name this section uses."""
        extra = [n for n in (self.via, self.start.node if self.start else None) if n]
        return tuple(sorted({*self.nodes, *extra, *(self.probe.nodes if self.probe else ())}))


def joiners(places: tuple[Rendezvous, ...], place: Rendezvous) -> tuple[str, ...]:
    """Every node whose agents may join a run of `place`: its own first, then those of others on the same etcd."""
    shared = [p for p in places if place.etcd and p.etcd and p.etcd_endpoint == place.etcd_endpoint]
    return tuple(dict.fromkeys((*place.nodes, *(n for p in shared for n in p.nodes))))


def find_named(places: tuple[Rendezvous, ...], name: str) -> Rendezvous | None:
    """The rendezvous of that name."""
    return next((p for p in places if p.name == name), None)
