"""What a rehearsal hands to the command line."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Scene:
    """A broken thing, ready to be diagnosed."""

    story: str
    runbook: str
    target: str
    fleet: Path
    policy: Path
    proof: Callable[[], str]  # one sentence about the real world after the fix
    secrets: dict[str, str] = field(default_factory=dict)  # credentials by name, for this process and the worker
