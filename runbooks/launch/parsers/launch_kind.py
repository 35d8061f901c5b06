"""What starts a job's processes, by the command line: torchrun, another launcher that is read, bare Python, or something unread."""

import re
from enum import StrEnum

from runbooks.core.base import Frozen
from runbooks.parsers.torchrun_cmdline import launcher_at

_TEXT = {
    "torchrun": r"\btorchrun\b|torch\.distributed\.(?:run|launch)\b",
    "accelerate": r"\baccelerate[-\s]+launch\b|\baccelerate\.commands\.launch\b",
    "deepspeed": r"(?:^|[\s/])deepspeed(?![\w/.-])|\bdeepspeed\.launcher\.runner\b",
}
LAUNCHER = re.compile("|".join(_TEXT.values()))  # in a line of a script
_OPTIONS = {
    "accelerate": {"num-machines": "nodes", "num-processes": "total", "main-process-ip": "master"},
    "deepspeed": {"num-nodes": "nodes", "num-gpus": "each", "master-addr": "master"},
}
_PYTHON = re.compile(r"(?:.*/)?python[\d.]*")
_WITH_VALUE = ("-W", "-X")


class Kind(StrEnum):
    """Who sets RANK and WORLD_SIZE."""

    TORCHRUN = "torchrun"
    OTHER = "other"  # accelerate or deepspeed: it sets them itself
    PYTHON = "python"  # a script of Python's own: nothing sets them
    UNREAD = "unread"


class Started(Frozen):
    """One command line. None: it does not say."""

    kind: Kind
    name: str
    nodes: int | None = None
    total: int | None = None  # processes on all nodes
    each: int | None = None  # processes on one node
    master: str = ""
    said: dict[str, str] = {}  # field -> the option that says it
    cards: bool = True  # each process takes a GPU of all that the node has

    @property
    def on_each(self) -> str:
        """The words of the command that give `each`."""
        return self.said.get("each") or f"{self.said['total']} on {self.nodes} machines is {self.each} on each"


def started_by(argv: list[str]) -> Started:
    """What stands at the beginning of `argv` (at least one word); a wrapper that is not known hides what it starts."""
    if launcher_at(argv) is not None:
        return Started(kind=Kind.TORCHRUN, name="torchrun")
    at = _program(argv)
    head = " ".join((argv[at].rpartition("/")[2], *argv[at + 1 : at + 2])) if at < len(argv) else ""
    name = next((n for n, text in _TEXT.items() if re.match(text, head)), "")
    if name in _OPTIONS:
        return _read(name, argv[at + 1 :])
    if at == 0 or argv[at - 1] == "-m" or not head.split(" ")[0].endswith(".py"):
        return Started(kind=Kind.UNREAD, name=" ".join(argv[: at + 1])[:80])
    return Started(kind=Kind.PYTHON, name=f"{argv[0]} {argv[at]}"[:80])


def _program(argv: list[str]) -> int:
    """Index of what runs: the first word, or Python's script or module."""
    if not _PYTHON.fullmatch(argv[0]):
        return 0
    i = 1
    while i < len(argv) and argv[i].startswith("-"):
        if argv[i] == "-m":
            return i + 1
        i += 2 if argv[i] in _WITH_VALUE else 1
    return i


def _read(name: str, words: list[str]) -> Started:
    """The launcher's own options: those before the script, whose arguments may have the same names."""
    end = next((i for i, w in enumerate(words) if w.endswith(".py")), 0)
    given: dict[str, str] = {}
    flags = set()
    for i, word in enumerate(words[:end]):
        option, equals, _ = word.lstrip("-").replace("_", "-").partition("=")
        flags.add(option if word.startswith("--") else "")
        if word.startswith("--") and option in _OPTIONS[name]:
            given[_OPTIONS[name][option]] = word.partition("=")[2] if equals else words[i + 1]
    numbers = {k: int(v) for k, v in given.items() if k != "master" and v.isdecimal()}
    nodes, total, each = (numbers.get(k) for k in ("nodes", "total", "each"))
    if total is not None and nodes:
        each = total // nodes
    if each is not None and nodes:
        total = each * nodes if total is None else total
    option_of = {field: option for option, field in _OPTIONS[name].items()}
    said = {k: f"--{option_of[k].replace('-', '_')}={v}" for k, v in given.items()}
    return Started(kind=Kind.OTHER, name=name, nodes=nodes, total=total, each=each, master=given.get("master", ""), said=said,
                   cards=not flags & {"cpu", "use-cpu", "gpu-ids", "config-file", "include", "exclude"})  # fmt: skip
