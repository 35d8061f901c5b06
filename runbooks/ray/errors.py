"""The first real error of a job's logs: what the knowledge base names, else the first line that nothing else caused."""

from collections.abc import Iterable, Iterator

from runbooks.ray.parsers.ray_log import is_exception
from runbooks.triage.text import first_cause, judge_text, meanings

NO_REASON = (
    "ray-job/harmless-lines",
    "ray-job/actor-failed",
    "ray-job/actor-node-lost",
    "ray-job/entrypoint-failed",
    "ray/actor-creation-raised",
    "rendezvous/child-failed",
    "rendezvous/peer-gone",
)  # what a line may say and still name no reason of its own


def first_error(lines: Iterable[str]) -> str:
    """The line that says what failed first, "" if there is none."""
    text = tuple(line for part in lines for line in part.split("\n"))
    known = first_cause(text)
    if known and known.evidence:
        return known.evidence[0].text
    found = [*_starting_points(text), *_exceptions(text)]
    return min(found)[1] if found else ""


def _starting_points(text: tuple[str, ...]) -> Iterator[tuple[int, str]]:
    """(line number, line) of what the knowledge base leaves open."""
    for open_one in judge_text(text):
        if f"{open_one.family}/{open_one.slug}" not in NO_REASON and open_one.evidence and not open_one.benign:
            yield open_one.evidence[0].number, open_one.evidence[0].text


def _exceptions(text: tuple[str, ...]) -> Iterator[tuple[int, str]]:
    """(line number, line) of the first exception that is no consequence."""
    for number, line in enumerate(text, 1):
        if is_exception(line) and not meanings(line, {"consequence": NO_REASON}):
            yield number, line.strip()[:300]
            return
