"""The fleet file's `launches` section: a distributed job as it is going to be started, for the check before it."""

from typing import Literal

from pydantic import Field

from runbooks.core.base import Frozen

NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$"


class Launch(Frozen):
    """One launch."""

    name: str = Field(pattern=NAME)
    nodes: tuple[str, ...] = Field(min_length=1)
    command: tuple[str, ...] = ()  # torchrun argv as it will be given on each node
    env: dict[str, str] = Field(default_factory=dict)  # set for it: NCCL_SOCKET_IFNAME and the like, no secrets
    gpus_per_node: int | None = Field(default=None, ge=0)  # None: whatever is there, but alike
    port: int = Field(default=29500, ge=1, le=65535)
    python: str | None = None  # interpreter of the job, to read torch's and NCCL's versions
    rdma: bool = False  # InfiniBand or RoCE is meant to be used
    shm_gb: float = Field(default=1.0, ge=0)
    config: str | None = None  # training configuration, read on the first node
    loader: Literal["pyyaml", "omegaconf"] = "pyyaml"
    batch: str | None = None  # Slurm batch script that starts it, read on the first node
    keys: tuple[str, ...] = ()  # known keys as dotted paths; empty: unknown keys are not looked for
