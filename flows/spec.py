"""What makes a runbook: the four things its author writes. The engine does the rest."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from runbooks.core.fleet import Fleet, Node
from runbooks.core.verdict import Diagnosis
from tasks.context import Context


def any_node(_fleet: Fleet, _node: Node) -> bool:
    """A runbook that can apply to every node."""
    return True


def no_others(_fleet: Fleet) -> tuple[str, ...]:
    """A runbook whose targets are the nodes alone."""
    return ()


@dataclass(frozen=True)
class RunbookSpec:
    """A runbook as the engine runs it. `diagnose(evidence, limits)` is pure; `gather(context)` only reads."""

    slug: str
    evidence: type[BaseModel]
    limits: type[BaseModel]
    gather: Callable[[Context], Any]
    diagnose: Callable[[Any, Any], Diagnosis]
    nightly: Callable[[Fleet, Node], bool] | None = any_node  # None: not part of the nightly sweep
    bridge: str = ""  # limit (seconds) that one run cannot wait for: an earlier reading that old is looked up
    targets: Callable[[Fleet], tuple[str, ...]] = no_others  # what a run can be about besides a node
    nightly_targets: Callable[[Fleet], tuple[str, ...]] = no_others  # those of them that the nightly looks at
