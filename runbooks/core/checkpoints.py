"""The fleet file's `checkpoints` section: where a job's checkpoints lie, how they are named, who writes them."""

import re
from enum import StrEnum

from pydantic import Field, field_validator, model_validator

from runbooks.core.base import Frozen
from runbooks.core.names import there_are

TIER = r"^[a-z][a-z0-9-]{0,30}$"


SHARED_FOLDERS = ("", "/root", "/home", "/etc", "/usr", "/var", "/tmp")  # noqa: S108 - refused, never used


class TierKind(StrEnum):
    """What a tier is, fastest first."""

    MEMORY = "memory"  # a memory file system or snapshot folder of the node
    NVME = "nvme"  # a folder on the node, or a file system that nodes share
    S3 = "s3"


def _checked_naming(text: str) -> str:
    if text.count("{step}") != 1 or text.startswith("/") or ".." in text:
        raise ValueError("has {step} once and lies below the tier")
    return text


class Tier(Frozen):
    """One place that holds checkpoints."""

    name: str = Field(pattern=TIER)
    kind: TierKind
    path: str = ""  # memory, nvme: absolute folder on the node
    nodes: tuple[str, ...] = ()  # nodes that have this tier; empty: all
    shared: bool = False  # one file system for all nodes: its checkpoints are whole for every node
    limit_bytes: int | None = Field(default=None, gt=0)  # memory: the most that snapshots may take
    bucket: str = ""
    prefix: str = ""
    endpoint: str | None = None  # other than AWS
    region: str | None = None
    profile: str | None = None  # of the engine's AWS configuration
    keep: int = Field(default=3, ge=1)  # newest proven whole ones that pruning never touches
    naming: str = ""  # other than the job's: {step} once, `*` for any text within one name
    latest: str = "latest"  # pointer file whose text names the newest checkpoint; "": there is none
    bytes_per_s: float | None = Field(default=None, gt=0)  # how fast a node reads from it

    @field_validator("naming")
    @classmethod
    def _own_naming(cls, text: str) -> str:
        return _checked_naming(text) if text else text

    @model_validator(mode="after")
    def _placed(self) -> "Tier":
        if self.kind is TierKind.S3:
            if not self.bucket or self.path:
                raise ValueError("an s3 tier has `bucket` (and `prefix`), no `path`")
        elif not self.path.startswith("/") or self.bucket:
            raise ValueError(f"a {self.kind} tier has an absolute `path`, no `bucket`")
        if self.kind is not TierKind.S3 and self.path.rstrip("/") in SHARED_FOLDERS:
            raise ValueError("a folder of its own, please: everything in it is looked at")
        return self


class Checkpoints(Frozen):
    """How one training job keeps its checkpoints."""

    tiers: tuple[Tier, ...] = Field(min_length=1)
    naming: str = "checkpoint_step_{step}.pt"  # below a tier; {step} once; a folder has no ending
    ranks: str = ""  # inside a folder, one file per rank: "rank_{rank}.pt"
    world_size: int | None = Field(default=None, ge=1)
    parts: tuple[str, ...] = ()  # names or globs inside a folder that each finished checkpoint has
    required_keys: tuple[str, ...] = ()
    manifest: str = ""  # name of a file with hashes beside the checkpoint; "": the usual names are tried
    others_write: bool = False  # something outside of this fleet file writes or reads here too: no prune, no repoint
    interval_steps: int | None = Field(default=None, ge=1)
    step_seconds: float | None = Field(default=None, gt=0)
    gpus: int | None = Field(default=None, ge=1)
    resume: str = "resume_from={path}"  # the setting, with {path} and {step}

    @field_validator("naming")
    @classmethod
    def _one_step(cls, text: str) -> str:
        return _checked_naming(text)

    @field_validator("ranks")
    @classmethod
    def _one_rank(cls, text: str) -> str:
        if text and text.count("{rank}") != 1:
            raise ValueError("has {rank} once")
        return text

    @model_validator(mode="after")
    def _once(self) -> "Checkpoints":
        names = [t.name for t in self.tiers]
        twice = sorted({n for n in names if names.count(n) > 1})
        if twice:
            raise ValueError(f"tier name given twice: {', '.join(twice)}")
        return self

    def tier(self, name: str) -> Tier:
        """The tier of that name. Raises KeyError."""
        for tier in self.tiers:
            if tier.name == name:
                return tier
        raise KeyError(f"no tier {name!r}; {there_are(name, (t.name for t in self.tiers))}")

    def naming_on(self, tier: Tier) -> str:
        """How checkpoints are named on that tier."""
        return tier.naming or self.naming

    def tiers_on(self, node: str) -> tuple[Tier, ...]:
        """Tiers that the node can see, as the file lists them."""
        return tuple(t for t in self.tiers if t.kind is TierKind.S3 or not t.nodes or node in t.nodes)


def step_pattern(naming: str) -> str:
    """Python regular expression with a group `step` for names below a tier."""
    escaped = re.escape(naming.rstrip("/")).replace(r"\*", "[^/]*")
    return escaped.replace(r"\{step\}", r"(?P<step>\d+)")
