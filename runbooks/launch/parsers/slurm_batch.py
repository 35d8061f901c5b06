"""A Slurm batch script: how many tasks it starts on a node, and whether each of them is a launcher."""

import re
import shlex

from runbooks.core.base import Frozen
from runbooks.launch.parsers.launch_kind import LAUNCHER

_DIRECTIVE = re.compile(r"^#SBATCH\s+(.*)$")
_PER_NODE = re.compile(r"--n?proc[-_]per[-_]node[= ]+(\S+)")
_FIXED = re.compile(r"--(?:node|machine)[-_]rank[= ]+\d+\b")
_RANK = re.compile(r"--(?:node|machine)[-_]rank[= ]+\S*SLURM_PROCID|^\s*(?:export\s+)?NODE_RANK=\S*SLURM_PROCID")


class Batch(Frozen):
    """What the script says of tasks and launchers. None: it does not say."""

    tasks: int | None = None  # tasks on a node of the step that starts the launcher
    tasks_said: str = ""  # where that stands
    nodes: int | None = None
    launcher: str = ""  # the line that names one, "" where none does
    per_node: str = ""  # processes that each launcher starts
    by_srun: bool = False  # the launcher is started by srun, once for each task
    rank_by_task: str = ""  # a line that takes the number of the task for that of the node
    rank_fixed: str = ""  # the line by which srun gives every node the same number


def parse_batch(text: str) -> Batch:
    """Directives (a `##SBATCH` is a comment), lines that go on joined, other comments left out."""
    lines = text.replace("\\\n", " ").splitlines()
    job: dict[str, str] = {}
    for line in lines:
        if found := _DIRECTIVE.match(line):
            job |= _options(found[1])
    body = [line.split(" #")[0].strip() for line in lines if not line.lstrip().startswith("#")]
    launcher = next((line for line in body if LAUNCHER.search(line)), "")
    step = _step(body, launcher)
    tasks, said = _tasks(job | _options(step.partition("srun")[2]) if step else job)
    per_node = _PER_NODE.search(" ".join(body))
    value = _resolved(per_node[1], body) if per_node else ""
    return Batch(
        tasks=tasks, tasks_said=said, nodes=_number(job.get("nodes")), launcher=launcher[:200], per_node=value, by_srun=bool(step),
        rank_by_task=next((line[:200] for line in body if _RANK.search(line)), ""),
        rank_fixed=step[:200] if _FIXED.search(step) and not _on_one_node(step) else "",
    )  # fmt: skip


def _step(body: list[str], launcher: str) -> str:
    """The srun line that starts the launcher, itself or through a variable or a script of its own."""
    steps = [line for line in body if re.search(r"(?:^|[\s;&|(])srun\b", line)]
    if not launcher or not steps:
        return ""
    name = re.match(r"(?:export\s+)?(\w+)=", launcher)
    through = [s for s in steps if name and re.search(rf"\$\{{?{name[1]}\b", s)]
    direct = [s for s in steps if LAUNCHER.search(s)]
    return (direct or through or [""])[0]


def _on_one_node(step: str) -> bool:
    """That step names its nodes itself, or takes one."""
    given = _options(step.partition("srun")[2])
    return given.get("nodes") == "1" or bool({"nodelist", "relative"} & set(given)) or bool(re.search(r"\s-[wr]\b", step))


def _options(text: str) -> dict[str, str]:
    """Slurm's options in a line, by their long names."""
    try:
        words = shlex.split(text, comments=True)
    except ValueError:
        words = text.split()
    names = {"-N": "nodes", "-n": "ntasks"}
    found: dict[str, str] = {}
    for i, word in enumerate(words):
        following = words[i + 1] if i + 1 < len(words) else ""
        short = names.get(word[:2]) if not word.startswith("--") else None
        if word.startswith("--") and "=" in word:
            name, _, value = word[2:].partition("=")
            found[name] = value
        elif word.startswith("--") and following and not following.startswith("-"):
            found[word[2:]] = following
        elif short:
            found[short] = word[2:].lstrip("=") or following
        elif not word.startswith("-") and LAUNCHER.search(word):
            break  # the launcher's own options follow
    return found


def _tasks(options: dict[str, str]) -> tuple[int | None, str]:
    per_node, tasks, nodes = (_number(options.get(n)) for n in ("ntasks-per-node", "ntasks", "nodes"))
    if per_node is not None:
        return per_node, f"--ntasks-per-node={per_node}"
    if tasks is not None and nodes:
        return -(-tasks // nodes), f"--ntasks={tasks} on {nodes} nodes"
    return None, ""


def _number(text: str | None) -> int | None:
    found = re.match(r"\d+", text or "")
    return int(found[0]) if found else None


def _resolved(value: str, body: list[str]) -> str:
    """The value, through one variable of the script."""
    name = re.fullmatch(r"[\"']?\$\{?(\w+)\}?[\"']?", value)
    if not name:
        return value.strip("\"'")
    for line in body:
        if found := re.match(rf"(?:export\s+)?{name[1]}=[\"']?([\w-]+)", line):
            return found[1]
    return value
