"""NVIDIA's driver bug report: its sections, each under its own name.

What desktops and the installer left says nothing, nor do the flags of PCI registers (`CESta: RxErr- … AdvNonFatalErr+`).
"""

import re
from collections.abc import Iterable, Iterator

from runbooks.triage.block import Block

_START = b"Start of NVIDIA bug report log file"
_RULE = re.compile(rb"_{44}\r?")
_IDLE = re.compile(
    r"(?i)installer\.log|xorg|xfree86|/X11/|_COMM=|coredumpctl|glxinfo|vulkaninfo|xrandr|xset|gdm|base ?64|acpidump|debugdump"
)
_FLAGS = re.compile(rb"(?m)^\t\t?\w+:.*[-+](?: |\r?$).*$")
_COMMAND = re.compile(r"^(?:\*\*\* )?(?:/usr)?(?:/local)?/s?bin/")


def is_report(head: bytes) -> bool:
    """Whether a text begins like one."""
    return _START in head[:4096]


def sections(blocks: Iterable[Block]) -> Iterator[Block]:
    """The sections that can say something, with the numbers of their lines in the whole report."""
    title = ""
    for block in blocks:
        lines = block.data.split(b"\n")
        rules = [at for at, line in enumerate(lines) if _RULE.fullmatch(line)]
        for begin, end in zip([0, *(at + 1 for at in rules)], [*rules, len(lines)], strict=True):
            title = ("" if begin else title) or _title(lines[begin:end])
            if not _IDLE.search(title) and any(lines[begin:end]):
                data = b"\n".join(lines[begin:end])
                data = _FLAGS.sub(b"", data) if title.startswith("lspci") else data
                yield Block(file=f"{block.file} ({title})", first=block.first + begin, data=data)


def _title(lines: Iterable[bytes]) -> str:
    first = next((line for line in lines if line.strip()), b"").decode("utf-8", "replace").strip()
    return _COMMAND.sub("", first).removeprefix("*** ")[:60]
