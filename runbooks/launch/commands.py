"""Judges the command line of a launch itself: what starts the processes, and whether its numbers fit the launch."""

from runbooks.core.launch_config import Launch
from runbooks.core.reading import Known
from runbooks.core.verdict import Cause
from runbooks.launch.causes import failed, possible
from runbooks.launch.evidence import LaunchNodeFacts
from runbooks.launch.parsers.launch_kind import Kind, Started, started_by
from runbooks.launch.visible import listed
from runbooks.parsers.address import is_loopback
from runbooks.parsers.torchrun_cmdline import AgentLaunch, parse_launch

SUBJECT = "launch command"
SETS = ("RANK", "WORLD_SIZE")
OWN_RANKS = {"rank", "node-rank", "world-size", "dist-url", "init-method"}  # options of scripts that start their ranks themselves


def command_causes(nodes: list[LaunchNodeFacts], launch: Launch) -> list[Cause]:
    """What cannot work. A launcher that is not read, or a script whose ranks something else may set, gives none."""
    if not launch.command:
        return []
    parsed, start = parse_launch(list(launch.command), b""), started_by(list(launch.command))
    if parsed is not None:
        return [failed("launch-command", SUBJECT, w) for w in _torchrun(parsed, launch)]
    if start.kind is Kind.OTHER:
        return [*(failed("launch-command", SUBJECT, w) for w in _other(start, launch)), *_total(start, nodes, launch)]
    if start.kind is Kind.PYTHON and not set_before(launch):
        return _python(start, nodes, launch)
    return []


def _python(start: Started, nodes: list[LaunchNodeFacts], launch: Launch) -> list[Cause]:
    """A script without a launcher. For one process with one GPU it is right; what a program sets for itself is not read."""
    itself = f"whether {start.name} starts its processes and sets their RANK and WORLD_SIZE itself"
    if len(launch.nodes) > 1:
        words = f"{start.name} is not torchrun, and nothing else that was read sets RANK and WORLD_SIZE"
        return [failed("launch-command", SUBJECT, words, sure=False, decides=(itself,))]
    cards = _cards(nodes, launch)
    if cards is not None and cards < 2:
        return []
    many = f"the node has {cards} GPUs" if cards else "how many GPUs the node has is not known"
    words = f"{start.name} is one process without torchrun, and {many}"
    return [possible("launch-command", SUBJECT, words, decides=(itself, "whether it is meant to use one GPU"))]


def command_unknowns(launch: Launch) -> tuple[str, ...]:
    """What the command line leaves open."""
    start = started_by(list(launch.command)) if launch.command else None
    if start is None or start.kind is Kind.TORCHRUN:
        return ()
    if start.kind is Kind.UNREAD:
        return (f"{SUBJECT}: {start.name}: a launcher that is not read here, so its ranks and processes are not known",)
    if start.kind is Kind.PYTHON:
        who = "a batch script sets" if launch.batch else "its own options set" if _own_ranks(launch) else "the launch's environment sets"
        return (f"{SUBJECT}: {start.name}: whether {who} its ranks right is not read",) if set_before(launch) else ()
    if start.nodes is None or start.each is None:
        file = "hostfile" if start.name == "deepspeed" else "configuration file"
        return (f"{SUBJECT}: {start.name} may take machines and processes from its {file}, which is not read",)
    return ()


def set_before(launch: Launch) -> bool:
    """Something starts the command that may set the ranks, or the launch or the command's own options give them."""
    return launch.batch is not None or all(name in launch.env for name in SETS) or _own_ranks(launch)


def _own_ranks(launch: Launch) -> bool:
    """By its options the script is told its place, as in torch's ImageNet example."""
    given = {w.lstrip("-").partition("=")[0].replace("_", "-") for w in launch.command if w.startswith("--")}
    return len(given & OWN_RANKS) > 1


def _torchrun(parsed: AgentLaunch, launch: Launch) -> list[str]:
    words = []
    if parsed.max_nodes < parsed.min_nodes:
        words.append(f"--nnodes={parsed.min_nodes}:{parsed.max_nodes}: the maximum is below the minimum")
    if len(launch.nodes) < parsed.min_nodes:
        words.append(f"--nnodes asks for {parsed.min_nodes}, the launch has {len(launch.nodes)} nodes")
    if len(launch.nodes) > parsed.max_nodes:
        words.append(f"--nnodes allows {parsed.max_nodes}, the launch has {len(launch.nodes)} nodes")
    if len(launch.nodes) > 1 and parsed.standalone:
        words.append("--standalone is for one node")
    if len(launch.nodes) > 1 and (parsed.endpoint or parsed.master_addr).startswith(("localhost", "127.")):
        words.append(f"{parsed.endpoint or parsed.master_addr} is a loopback address: each node would meet itself")
    if len(launch.nodes) > 1 and parsed.backend != "static" and parsed.run_id == "none":
        words.append("no --rdzv-id: the default 'none' is shared with every other job that gives none")
    if parsed.per_node.isdecimal() and launch.gpus_per_node is not None and int(parsed.per_node) > launch.gpus_per_node:
        words.append(f"--nproc-per-node={parsed.per_node} and {launch.gpus_per_node} GPUs on a node")
    if not parsed.script:
        words.append("no script is given")
    return words


def _other(start: Started, launch: Launch) -> list[str]:
    """The numbers of another launcher that is read."""
    many, words = len(launch.nodes), []
    if start.nodes is not None and start.nodes != many:
        words.append(f"{start.name}: {start.said['nodes']}, the launch has {many} nodes")
    if many > 1 and start.master and is_loopback(start.master):
        words.append(f"{start.name}: {start.said['master']} is a loopback address: each node would meet itself")
    if start.cards and start.each is not None and launch.gpus_per_node is not None and start.each > launch.gpus_per_node:
        words.append(f"{start.name}: {start.on_each}, and {launch.gpus_per_node} GPUs on a node")
    return words


def _total(start: Started, nodes: list[LaunchNodeFacts], launch: Launch) -> list[Cause]:
    """The GPUs of one node given as the number of all processes: it is shared out over the machines."""
    cards = _cards(nodes, launch)
    if "total" not in start.said or not start.cards or (start.nodes or 1) < 2 or cards is None or start.total != cards:
        return []
    words = f"{start.name}: {start.on_each}, and each has {cards} GPUs"
    why = "the number counts the processes of all machines"
    return [failed("launch-command", SUBJECT, words, why, sure=False, decides=("whether the other GPUs are left free on purpose",))]


def _cards(nodes: list[LaunchNodeFacts], launch: Launch) -> int | None:
    """GPUs for processes on every node alike; None where that is not decided."""
    if (shown := listed(launch)) is not None:
        return shown
    if launch.gpus_per_node is not None:
        return launch.gpus_per_node
    counts = {len(n.gpus.value) if isinstance(n.gpus, Known) else None for n in nodes}
    return counts.pop() if len(counts) == 1 and len(nodes) == len(launch.nodes) else None
