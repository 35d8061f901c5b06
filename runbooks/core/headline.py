"""A headline: the fault, the thing and the number that decides, short enough for a notification; the rest stands in the report. Pure."""

import re
from collections.abc import Iterable, Iterator

from runbooks.core.knowledge import Runbook
from runbooks.core.program import brief
from runbooks.core.verdict import Cause, Diagnosis

LONGEST = 160  # characters; what a phone shows of a notification, with the name of the runbook and the target before it
LEAST = 24  # characters of a sentence below which it says nothing
_CLAUSE = re.compile(r"[;.,|](?=\s)| —| \(")
_PART = re.compile(r"[;.,:|](?=\s)| —| \(")
_PAIRS = (("(", ")"), ("[", "]"), ("“", "”"))


def of_cause(book: Runbook, cause: Cause, place: str = "", *, words: str = "", hedge: str = "", more: int = 0) -> str:
    """"PLACE: TITLE: SUBJECT: NUMBERS (and 3 more)", at most `LONGEST` characters.

    `words`: the numbers, where the first line of evidence is too long for them; `hedge`: how sure, behind the title; `more`: further
    faults. The subject is left out where place or numbers name it."""
    about = brief(cause.subject)
    said = (words or cause.evidence[0]).replace(cause.subject or " ", about or " ").rstrip(".")
    named = about in said or about in place or about.split()[-1:] == place.split()[:1]
    head = ": ".join(filter(None, (place, book.causes[cause.slug].title + hedge, "" if named else about)))
    tail = f" (and {more} more)" if more else ""
    room = LONGEST - len(head) - len(": ") - len(tail)
    return (f"{head}: {short(said, room)}" if room >= LEAST else short(head, LONGEST - len(tail))) + tail


def short(text: str, room: int = LONGEST) -> str:
    """The clauses that fit, of what is longer with a mark that something is left out."""
    text = text.strip()
    if len(text) <= room:
        return text
    ends = [m.start() for m in _CLAUSE.finditer(text, 0, room) if m.start() < room and _whole(text[: m.start()])]
    end = ends[-1] if ends and ends[-1] >= room // 2 else text.rfind(" ", room // 2, room)
    return f"{text[: end if end > 0 else room - 1].rstrip(' ,;:.(“|—')}…"


def headlined(found: Diagnosis, headline: str, titles: Iterable[str] = ()) -> Diagnosis:
    """The judgment with this headline as far as it fits; what is left out and stands nowhere else in it is added to what was seen.

    `titles`: of its causes, which the report shows."""
    line = short(headline)
    told = " ".join((*titles, *_texts(found)))
    rest = headline[len(line) - 1 :] if line != headline else ""
    lost = any(part not in told for p in _PART.split(rest) if len(part := p.strip(" ).")) > 1)
    symptom = "; ".join(filter(None, (found.symptom, headline))) if lost else found.symptom
    return found.model_copy(update={"headline": line, "symptom": symptom})


def _texts(found: Diagnosis) -> Iterator[str]:
    """What the report shows besides the headline."""
    for cause in found.causes:
        yield from (cause.subject, *cause.evidence, *cause.decides)
    yield from (f.issue for f in found.findings)
    yield from (found.symptom, found.covers, *found.unknowns, *found.do_now, *found.must_not, *found.waiting_costs)


def _whole(text: str) -> bool:
    """Whether no bracket or quotation is open at its end."""
    return all(text.count(a) == text.count(b) for a, b in _PAIRS) and not text.count('"') % 2 and not text.count("`") % 2
