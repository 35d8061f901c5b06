"""A judgment in words for people: causes by their titles, each thing in its place. What decides stays as it was judged. Pure."""

import re
from functools import cache
from typing import Any

from runbooks.core.distinct import names_of
from runbooks.core.headline import headlined
from runbooks.core.knowledge import Runbook
from runbooks.core.verdict import Diagnosis, Finding, State

_PROHIBITION = re.compile(r"(?i)^\s*(?:do not|don't|never)\b")
_ANSWER = re.compile(r"(?i)(^|: |; | )cannot tell(?:[:,] |$)")  # the outcome says it already
CHOOSE = "choose a plan: "  # said before what is forbidden was taken away
_LINES = ("do_now", "must_not", "waiting_costs", "unknowns")


def worded(book: Runbook, found: Diagnosis) -> Diagnosis:
    """The judgment with titles where its texts name causes by their slugs, and prohibitions where prohibitions stand."""
    titles = {slug: known.title for slug, known in book.causes.items()}
    new: dict[str, Any] = {name: tuple(titled(titles, x) for x in getattr(found, name)) for name in _LINES}
    headline = titled(titles, found.headline)
    if found.state is State.CANNOT_TELL:
        headline = _ANSWER.sub(lambda m: ": " if m[1] == " " else m[1], headline).strip(" :;") or found.headline
    forbidden = tuple(x for x in new["do_now"] if is_prohibition(x))
    chosen = (f"{CHOOSE}{names_of([p.name for p in found.plans])}",) if found.plans else ()
    rest = tuple(x for x in new["do_now"] if x not in forbidden and not x.startswith(CHOOSE))
    new["do_now"] = (*(chosen if len(rest) + len(forbidden) < len(new["do_now"]) else ()), *rest)
    new["must_not"] = tuple(dict.fromkeys((*new["must_not"], *forbidden)))
    new["findings"] = tuple(_finding(titles, f) for f in found.findings)
    new["symptom"] = titled(titles, found.symptom)
    return headlined(found.model_copy(update=new), headline, [titles[c.slug] for c in found.causes])


def is_prohibition(line: str) -> bool:
    """True for "do not …": no action, wherever it stands."""
    return bool(_PROHIBITION.match(line))


def titled(titles: dict[str, str], text: str) -> str:
    """`text` with the title in place of a slug: as it is where it names the cause ("crashed: exit code 134"), else in quotes."""
    if not titles or ("-" not in text and ":" not in text):
        return text
    names, inside = _named(tuple(titles.items()))
    text = names.sub(lambda m: titles[m[0]], text)
    return inside.sub(lambda m: f"“{titles[m[0]]}”", text) if inside else text


def _finding(titles: dict[str, str], finding: Finding) -> Finding:
    new = {"issue": titled(titles, finding.issue), "action": titled(titles, finding.action)}
    return finding.model_copy(update=new)


@cache
def _named(titles: tuple[tuple[str, str], ...]) -> tuple[re.Pattern[str], re.Pattern[str] | None]:
    """(a slug at the beginning of a part of a sentence, with an explanation behind it; one that is no English word, anywhere)"""
    slugs = sorted((slug for slug, _ in titles), key=lambda s: (-len(s), s))
    words = " ".join(title for _, title in titles).lower()
    odd = [s for s in slugs if "-" in s and s not in words]
    begins = r"(?:^|(?<=: )|(?<=; )|(?<=, )|(?<=: decide )|(?<=^decide )|(?<=\(and )|(?<= says ))"
    names = re.compile(rf"{begins}(?:{_any(slugs)})(?=:(?:\s|$)| \(| —|, |; |\)|$)")
    return names, re.compile(rf"(?<![\w./-])(?:{_any(odd)})(?![\w/-]|\.\w)") if odd else None


def _any(slugs: list[str]) -> str:
    return "|".join(map(re.escape, slugs))
