"""Takes what surrounds a message off a log line: colours, time, rank, actor, level; and a log's own guesses."""

import re

from runbooks.triage.prefixes import _ACTOR, _RANK, _TIME
from runbooks.triage.quoted import without_quotes

LONGEST = 4000  # characters of a line that are looked at: its beginning and its end
_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)|\x1b[@-_]")
_REPEATED = re.compile(r"\s*\[repeated (\d+)x across cluster\].*$")
_ISO = re.compile(r"(\d{4})[-/](\d\d)[-/](\d\d)[T _,](\d\d):(\d\d):(\d\d)")
FRAME = re.compile(
    r'^\s*File "[^"]*", line \d+(?:, in \S+)?\s*$|^\s+at [\w.$<>]+ ?\(|^\s*#\d+ (?:0x)?[0-9a-f]{6,}|^frame #\d+'
    r'|^Traceback \(most recent call (?:last|first)\):?\s*$'
)  # a whole traceback in one line is no frame: its error stands at the end
CODE = re.compile(r"^\s+(?:raise\b|return\b|self\.|yield\b|with\b|assert\b|[\w.]+ ?= ?[\w.]+\(|[\w.]+\(.*\)?$)")
GUESS = re.compile(
    r"There are some potential root causes\..*"
    r"|This (?:may|might|could) be (?:because|due|caused)\b(?! by insufficient shared memory).*"
    r"|(?:which |that )?(?:might|may|could) (?:be|have been) (?:caused|due)\b(?! by insufficient shared memory).*"
    r"|This is typically caused by.*"
    r"|It is possible that dataloader's workers are out of shared memory.*"
    r"|Re-running `torch\.load` with `weights_only`.*"
    r"|\(2\) Alternatively, to load with `weights_only=True`.*"
    r"|Do it only if you got the file from a trusted source.*"
    r"|This file can still be loaded, to do so you have two options.*"
    r"|\(1\) In PyTorch 2\.6, we changed the default.*"
    r"|If reserved(?: but unallocated)? memory is (?:>>|large).*"
    r"|Some errors may be due to.*"
    r"|(?:Last error:\s*)?It can be also caused by.*"
    r"|CUDA kernel errors might be asynchronously reported.*"
    r"|For debugging consider passing CUDA_LAUNCH_BLOCKING.*"
    r"|Some other rank may have.*"
    r"|To avoid this, .*"
    r"|This can (?:potentially )?cause .*"
    r"|Possible reasons include: .*"
    r"|This can happen when a \(1\) .*"
    r"|(?:Common|Possible|Likely|Potential) (?:root )?causes?(?: are| include|:).*"
    r"|^\s*#?\s*(?:hint|tip|suggestion|note to self)s?:.*"
    r"|^\s*\(\d\) (?:Check|Make sure|Ensure|If you) .*"
    r"|Please (?:check|make sure|ensure|try)\b(?! your API key).*",
    re.IGNORECASE,
)


_GUESSING = (
    "root cause", "this m", "this c", "reasons include", "might", "may be", "may have", "could", "typically", "it is possible",
    "re-running", "alternatively", "do it only", "this file can", "(1) ", "if reserved", "some errors may", "caused by",
    "cuda kernel", "for debugging", "some other rank", "to avoid", "causes", "hint", "tip", "suggestion", "note to self",
    "(2) ", "(3) ", "(4) ", "(5) ", "please",
)  # fmt: skip  # one of them stands in everything that GUESS takes away


class Normal:
    """A line as it is matched, and who said it."""

    __slots__ = ("rank", "text", "times")

    def __init__(self, text: str, rank: str = "", times: int = 1) -> None:
        self.text = text
        self.rank = rank
        self.times = times


def normal(raw: str) -> Normal:
    """The message of a raw line: prefixes off. Long lines keep both ends."""
    text = _ANSI.sub("", raw) if "\x1b" in raw else raw
    if len(text) > LONGEST:
        text = f"{text[: LONGEST // 2]} … {text[-LONGEST // 2 :]}"
    text = text.replace("\r", " ").rstrip()
    times = 1
    if "[repeated" in text and (found := _REPEATED.search(text)):
        times = int(found[1])
        text = text[: found.start()]
    who: list[str] = []
    for _ in range(4):
        before = text
        text, said = _prefix(text)
        if said:
            who.append(said)
        if text == before:
            break
    return Normal(text, " ".join(who), times)


def without_guesses(text: str) -> str:
    """The line without a log's own guesses and advice, which are no evidence."""
    low = text.lower()
    return without_quotes(GUESS.sub("", text) if any(map(low.__contains__, _GUESSING)) else text)


def _prefix(text: str) -> tuple[str, str]:
    if found := _ACTOR.match(text):
        parts = [found["name"] or "", f"pid={found['pid']}", f"ip={found['ip']}" if found["ip"] else ""]
        return text[found.end() :], " ".join(p for p in parts if p)
    if found := _RANK.match(text):
        return text[found.end() :], f"rank {found[1] or found[2]}"
    if found := _TIME.match(text):
        return text[found.end() :], ""
    return text, ""


def stamp(raw: str) -> str:
    """The line's date and time as text that sorts; empty where it has none."""
    found = _ISO.search(raw[:80])
    return "".join(found.groups()) if found else ""
