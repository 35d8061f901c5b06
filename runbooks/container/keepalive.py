"""Finds the `sleep` that keeps a container alive, says how long it lasts, and gives the command that never ends."""

import re
from collections.abc import Sequence

from runbooks.core.base import Frozen

_UNIT = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_NUMBER = re.compile(r"(\d+(?:\.\d+)?)([smhd]?)\Z")
_TAIL = re.compile(r"((?:\A|[\s;&|(])(?:exec\s+)?(?:/usr)?(?:/bin/)?sleep\s+)(\d+(?:\.\d+)?[smhd]?)(\s*[;)}]?\s*)\Z")
_LOOP = frozenset(
    ("while", "until", "do", "done", "true", "false", ":", ";", "&", "&&", "||", "exec", "sleep", "wait", "trap", "in", "for",
     "infinity", "inf", "$!", "TERM", "INT", "echo")
)  # fmt: skip # words of a script that only waits
_SHELLS = ("sh", "bash", "dash", "ash", "zsh")
_INITS = ("tini", "dumb-init", "docker-init", "catatonit")


class KeepAlive(Frozen):
    """A container that lives as long as a sleep."""

    seconds: float | None  # None: for ever
    endless: tuple[str, ...]  # the whole command line with the sleep made endless, to be shown
    at: int = 0  # in which word the length stands
    length: str = ""  # as it stands there: the last place in that word


def keep_alive(argv: Sequence[str]) -> KeepAlive | None:
    """The keep-alive in entrypoint + command, or None if the main process is something else."""
    words = list(argv)
    at = 0
    while at < len(words) and (_base(words[at]) in _INITS or (at and words[at] in ("--", "-g", "-s"))):
        at += 1
    if at >= len(words):
        return None
    tool = _base(words[at])
    if tool == "sleep":
        return _sleep(words, at + 1)
    if tool == "tail" and "/dev/null" in words[at:] and any(w.startswith("-f") or w == "-F" for w in words[at:]):
        return KeepAlive(seconds=None, endless=tuple(words))
    if tool in _SHELLS and len(words) > at + 2 and words[at + 1].startswith("-") and words[at + 1].endswith("c"):
        return _script(words, at + 2)
    return None


def only_keeps_up(line: str) -> bool:
    """Whether a process with this command line does nothing but exist: a sleep, an init, a shell that waits or loops over one."""
    words = line.replace(";", " ; ").replace("'", " ").split()
    while words and (_base(words[0]) in _INITS or words[0] in ("--", "-g", "-s")):
        words = words[1:]
    if not words or keep_alive(words) is not None:
        return True
    tool, rest = _base(words[0]).lstrip("-"), words[1:]
    if tool == "pause":
        return not rest
    if tool not in _SHELLS:
        return False
    if rest and not (rest[0].startswith("-") and rest[0].endswith("c")):
        return all(w.startswith("-") for w in rest)
    return all(w in _LOOP or seconds_of(w) is not None for w in rest[1:])


def _base(word: str) -> str:
    return word.rsplit("/", 1)[-1]


def seconds_of(text: str) -> float | None:
    """`3600`, `1h`, `2.5m` in seconds; None if it is not a length of time."""
    found = _NUMBER.match(text)
    return float(found[1]) * _UNIT[found[2] or "s"] if found else None


def _sleep(words: list[str], at: int) -> KeepAlive | None:
    lengths = [seconds_of(w) for w in words[at:]]
    if words[at:] and words[at] in ("infinity", "inf"):
        return KeepAlive(seconds=None, endless=tuple(words))
    known = [n for n in lengths if n is not None]
    if not known or len(known) != len(lengths):
        return None
    return KeepAlive(seconds=sum(known), endless=(*words[:at], "infinity"), at=at, length=words[at])


def _script(words: list[str], at: int) -> KeepAlive | None:
    text = words[at]
    if re.search(r"sleep\s+inf(inity)?\s*\Z", text):
        return KeepAlive(seconds=None, endless=tuple(words))
    found = _TAIL.search(text)
    if found is None:
        return None
    endless = text[: found.start()] + found[1] + "infinity" + found[3]
    whole = (*words[:at], endless, *words[at + 1 :])
    return KeepAlive(seconds=seconds_of(found[2]), endless=whole, at=at, length=found[2])
