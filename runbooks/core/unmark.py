"""A page that was made here (show.py) as plain text for a terminal: the same words without Markdown's signs."""

import html
import re

from runbooks.core.show import Markdown, kept

_SIGNS = re.compile(r"\\([\\`*\[\]|~$_#+=.)-])|\*\*|(?<!\\)`")
_HEADING = re.compile(r"^#{1,6} (.*)$")
_DETAILS = re.compile(r"^<details><summary>(.*)</summary>$|^</details>$")
_RAW = "\n## Raw readings"
INDENT = "    "  # of a command


def plain(page: Markdown) -> str:
    """Its text: headings underlined, commands indented and exactly as they are pasted, nothing escaped."""
    out: list[str] = []
    fence = ""
    for line in page.splitlines():
        mark = line.strip()
        if fence:
            out += [] if mark == fence else [f"{INDENT}{line}"]
            fence = "" if mark == fence else fence
        elif mark.startswith("```"):
            fence = mark[: len(mark) - len(mark.lstrip("`"))]
        elif heading := _HEADING.match(line):
            words = _words(heading[1])
            out += [words, "-" * min(len(words), 78)]
        elif details := _DETAILS.match(mark):
            out += [_words(details[1])] if details[1] else []
        else:
            out.append(_words(line))
    return "\n".join(out).strip("\n") + "\n"


def without_raw(page: Markdown) -> Markdown:
    """A report without its raw readings, which its file holds."""
    return kept(page.partition(_RAW)[0] + "\n")


def _words(line: str) -> str:
    return html.unescape(_SIGNS.sub(lambda m: m[1] or "", line))
