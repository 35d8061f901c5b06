"""What makes a runbook: the four things its author writes. The engine does the rest."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel

from runbooks.core.config import ConfigError
from runbooks.core.fleet import Fleet, Node
from runbooks.core.verdict import Diagnosis
from tasks.context import Context


def any_node(_fleet: Fleet, _node: Node) -> bool:
    """A runbook that can apply to every node."""
    return True


def no_node(_fleet: Fleet, _node: Node) -> bool:
    """A runbook that is about no node."""
    return False


def no_others(_fleet: Fleet) -> tuple[str, ...]:
    """A runbook whose targets are the nodes alone."""
    return ()


def one_part(context: Context) -> tuple[dict[str, Any], ...]:
    """A runbook whose target is one thing."""
    return (context.options,)


@dataclass(frozen=True)
class RunbookSpec:
    """A runbook as the engine runs it. `diagnose(evidence, limits)` is pure; `gather(context)` only reads."""

    slug: str
    evidence: type[BaseModel]
    limits: type[BaseModel]
    gather: Callable[[Context], Any]
    diagnose: Callable[[Any, Any], Diagnosis]
    nightly: Callable[[Fleet, Node], bool] | None = any_node  # None: not part of the nightly sweep
    parts: Callable[[Context], tuple[dict[str, Any], ...]] = one_part
    """Options for each of the things that the target is (a node's containers). One run is about one, a sweep looks at all."""
    about: Callable[[Fleet, Node], bool] | None = None  # which nodes a form lists; None: as `nightly` says, or all
    reads_on: Callable[[Fleet, Node], bool] | None = None  # where it reads more nodes than its target; None: as `nightly` says
    lookback: str = ""  # limit (seconds) that one run cannot wait for: an earlier reading that old is looked up
    window: str = ""  # limit (seconds): in a sweep what happened since the last one, and at least so long ago, is news
    logs_in: bool = False  # it tries the log-in itself, stage by stage: no connection is opened before its readings
    targets: Callable[[Fleet], tuple[str, ...]] = no_others  # what a run can be about besides a node
    nightly_targets: Callable[[Fleet], tuple[str, ...]] = no_others  # those of them that the nightly looks at


def about_one(spec: RunbookSpec, context: Context) -> Context:
    """The context with the options of the one thing that the run is about. Raises ConfigError that says what to give."""
    parts = spec.parts(context)
    if len(parts) == 1:
        return replace(context, options=parts[0])
    ways = [f"--option {name}={value}" for part in parts for name, value in part.items() if name not in context.options]
    raise ConfigError(f"{spec.slug} is about one of several on {context.target}; give one of: {', '.join(ways)}")
