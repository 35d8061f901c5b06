"""Whether each process that the launch starts on a node finds a GPU there: what a node has against CUDA_VISIBLE_DEVICES and the command."""

from runbooks.core.launch_config import Launch
from runbooks.core.reading import Known
from runbooks.core.verdict import Cause
from runbooks.launch.causes import failed
from runbooks.launch.evidence import LaunchNodeFacts
from runbooks.launch.parsers.launch_kind import started_by
from runbooks.parsers.torchrun_cmdline import parse_launch

NAME = "CUDA_VISIBLE_DEVICES"
SHARED = "whether its processes share GPUs on purpose: each that takes the one of its LOCAL_RANK fails"


def process_causes(nodes: list[LaunchNodeFacts], launch: Launch) -> list[Cause]:
    """More processes than GPUs that they see. What has no GPU on purpose is none of it. A launch's own count is compared elsewhere."""
    each, said = _processes_per_node(launch)
    if (count := listed(launch)) and each > count:
        words = f"{said}, and {NAME}={launch.env[NAME]} shows {count} GPUs to all of them"
        return [failed("launch-command", "launch command", words, sure=False, decides=(SHARED,))]
    return [c for n in nodes for c in _on(n, launch, each, said)] if launch.gpus_per_node is None else []


def _processes_per_node(launch: Launch) -> tuple[int, str]:
    """Processes that the command starts on a node, each with a GPU, and the words that say so; 0: it does not say."""
    parsed = parse_launch(list(launch.command), b"")
    if parsed is not None:
        return (int(parsed.per_node), f"--nproc-per-node={parsed.per_node}") if parsed.per_node.isdecimal() else (0, "")
    start = started_by(list(launch.command)) if launch.command else None
    return (start.each, start.on_each) if start is not None and start.each and start.cards else (0, "")


def listed(launch: Launch) -> int | None:
    """GPUs that the launch lets its processes see; None where it does not say, 0 where it wants none."""
    return None if NAME not in launch.env else len(_entries(launch.env[NAME]))


def _on(node: LaunchNodeFacts, launch: Launch, each: int, said: str) -> list[Cause]:
    """Of one node: its GPUs, and which of them the launch or a log-in there makes visible."""
    have = len(node.gpus.value) if isinstance(node.gpus, Known) else 0
    named = launch.env.get(NAME, node.env.get(NAME))
    seen = have if named is None else _valid(_entries(named), have)
    if not have or each <= seen or (named is not None and not _entries(named)):
        return []
    whose = "" if NAME in launch.env else ", set in the login environment"
    words = f"{have} GPUs, and {said}" if named is None else (
        f"{seen} of its {have} GPUs are visible ({NAME}={named}{whose}), and {said}")  # fmt: skip
    decides = (SHARED,) if named is None or not whose else (SHARED, f"whether the job gets that {NAME}")
    return [failed("gpus-missing", node.node, words, sure=False, decides=decides)]


def _entries(value: str) -> tuple[str, ...]:
    """The GPUs that a value names. Empty, -1 and words that are no GPU show none, and hide what stands after them."""
    found: list[str] = []
    for part in (p.strip() for p in value.split(",")):
        if not (part.isdecimal() or part.startswith(("GPU-", "MIG-"))):
            break
        found.append(part)
    return tuple(found)


def _valid(entries: tuple[str, ...], have: int) -> int:
    """How many of them there are: the first number that no GPU has hides the rest."""
    return next((i for i, e in enumerate(entries) if e.isdecimal() and int(e) >= have), len(entries))
