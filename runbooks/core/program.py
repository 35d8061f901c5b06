"""The short name of a program, for headlines: `train.py` for a command line of two thousand characters. Pure."""

import re

LONGEST = 40
_RUNS_OTHERS = re.compile(r"(?:python|pypy)[\d.]*|(?:ba|da|z|k)?sh|perl|node|ruby|java|env|nice|nohup|setsid|sudo|exec|timeout|uv|run")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_PROCESS = re.compile(r"(pid \d+) \((.*)\)", re.S)


def program(command: str) -> str:
    """What a person calls it: the script or module that an interpreter runs, else the program; without its folder and arguments."""
    words = command.split()
    module = False
    for word in words:
        name = word.rstrip("/").rpartition("/")[2]
        if module or not (word.startswith("-") or _ASSIGNMENT.match(word) or _RUNS_OTHERS.fullmatch(name) or name.isdecimal()):
            return _cut(word if module else name)
        module = word == "-m"
    return _cut(" ".join(words))


def brief(subject: str) -> str:
    """A process with its program's short name in place of its command line; anything else as it is."""
    found = _PROCESS.fullmatch(subject)
    return f"{found[1]} ({program(found[2])})" if found else subject


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
