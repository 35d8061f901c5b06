"""Judges training data files: what is broken where, and how it is rebuilt. Changes nothing. Pure."""

from functools import partial

from runbooks.core.base import Frozen
from runbooks.core.covers import with_unused
from runbooks.core.headline import of_cause
from runbooks.core.judgment import credible, diagnosis, findings, ordered
from runbooks.core.reading import Absent, Known, Reading, Unknown, UnknownReason
from runbooks.core.rules import book as book_of
from runbooks.core.rules import by_the_rules
from runbooks.core.verdict import Cause, Certainty, Diagnosis, Finding, State
from runbooks.data.evidence import DataFile, Evidence, Fault
from runbooks.data.parsers.data_jsonl import MOST_KEYS
from runbooks.data.parsers.key_error import lacking_key, plain
from runbooks.parsers.file_magic import unpacked_name
from runbooks.triage.text import findings_of, says

CAUSE = {
    "cut-last-line": "cut-off", "bad-line": "bad-record", "several-values": "several-values", "wrong-key": "wrong-key",
    "encoding": "encoding", "compressed": "compressed", "json-array": "json-array", "lfs-pointer": "not-data",
    "not-data": "not-data", "empty": "empty-file", "empty-line": "bad-record", "zeros": "zero-hole",
    "not-object": "bad-record",
    "index-missing": "index-missing", "data-missing": "index-missing",
    "index-header": "index-damaged",
    "index-size": "index-damaged", "index-tiling": "index-damaged", "index-documents": "index-damaged",
    "legacy-index": "index-legacy",
    "stale-index": "index-stale", "data-cut": "data-cut", "ids-out-of-range": "ids-out-of-range",
}  # fmt: skip
LIMIT = {"too-long": "beyond-reader", "too-deep": "beyond-reader", "version": "beyond-reader", "other-format": "other-format"}
JSONL_IN_JSON = "is fine: one object per line. Read it line by line, not with json.load"
SLUG = "data-check"
book = partial(book_of, SLUG)


class Limits(Frozen):
    """Values come from runbook.yaml and the fleet file."""

    check_seconds: float
    sweep_seconds: float
    sweep_bytes: int


@by_the_rules("data-check")
def diagnose(evidence: Evidence, limits: Limits) -> Diagnosis:  # noqa: ARG001 - every runbook has limits
    """The whole judgment."""
    causes: list[Cause] = []
    for path, reading in evidence.files.items():
        if isinstance(reading, Known):
            causes.extend(_file(path, reading.value, evidence))
        elif isinstance(reading, Absent):
            slug = "index-missing" if path.endswith((".idx", ".bin")) else "empty-file"
            causes.append(_cause(slug, path, f"{path}: {reading.proof}"))
    found = ordered(SLUG, causes)
    unread = sum(isinstance(r, Unknown) for r in evidence.files.values())
    judged = diagnosis(
        SLUG,
        found,
        state=_state(evidence, found, unread),
        headline=_headline(evidence, found, unread),
        must_not=() if found else ("rewrite data that was not found broken",),
        findings=(*findings(SLUG, credible(found), "data"), *_log_findings(evidence, causes)),
        by_hand=tuple(_look(path, reading) for path, reading in evidence.files.items()),
    )
    return with_unused(judged, _unused(evidence))


def _unused(evidence: Evidence) -> tuple[str, ...]:
    """Options that no file could use: only an index has token ids to compare with a vocabulary, only rows have a text field."""
    kinds = [r.value.kind for r in evidence.files.values() if isinstance(r, Known)]
    whole = len(kinds) == len(evidence.files)
    idle = {
        "vocabulary": evidence.vocabulary is not None and whole and "index" not in kinds,
        "text_key": bool(evidence.text_key) and whole and set(kinds) <= {"index"},
        "log": not evidence.files and isinstance(evidence.log, Unknown) and evidence.log.reason is not UnknownReason.NOT_RECORDED,
    }
    return tuple(name for name, unused in idle.items() if unused)


def _log_findings(evidence: Evidence, causes: list[Cause]) -> tuple[Finding, ...]:
    """What else the loader's log says, by the whole knowledge: the data may be well."""
    log = evidence.log.value if isinstance(evidence.log, Known) else ""
    return findings_of(log, "the job's log", "data-check", (c.slug for c in causes))


def _cause(slug: str, path: str, *words: str, sure: Certainty = Certainty.CONFIRMED, benign: bool = False) -> Cause:
    return Cause(slug=slug, certainty=sure, subject=path, evidence=words, benign=benign)


def _grouped(slug: str, path: str, faults: list[Fault], benign: bool) -> Cause:
    """The faults of one cause in a file. A kind that this version does not know, in a record of another one, confirms nothing."""
    strange = [f.kind for f in faults if f.kind not in CAUSE]
    sure = Certainty.LIKELY if len(strange) == len(faults) else Certainty.CONFIRMED
    found = _cause(slug, path, *(_words(path, f) for f in faults[:5]), sure=sure, benign=benign)
    return found.model_copy(update={"decides": tuple(f"what “{kind}” means: this version does not know it" for kind in strange[:3])})


def _file(path: str, found: DataFile, evidence: Evidence) -> list[Cause]:
    grouped: dict[str, list[Fault]] = {}
    for fault in found.faults:
        grouped.setdefault("bom" if fault.kind == "bom" else CAUSE.get(fault.kind, "bad-record"), []).append(fault)
    mark = grouped.pop("bom", [])
    plain = unpacked_name(path)
    alone = plain.endswith(".json") and {f.kind for f in found.faults} - {"bom"} == {"json-array"}  # one value is what .json promises
    out = [_grouped(slug, path, faults, alone) for slug, faults in grouped.items()]
    if found.packed and isinstance(evidence.log, Known) and says(evidence.log.value, "data-check/compressed"):
        words = f"{path}: compressed with {found.packed}, as its name says, and the job's log shows that its reader did not unpack it"
        out.append(_cause("compressed", path, words))
    if mark and "encoding" not in grouped:
        out.append(_marked(path, mark[0], evidence))
    out += _of_another_encoding(path, found, evidence)
    out += [] if "wrong-key" in grouped else _asked_for(path, found, evidence)
    for f in [x for x in found.limits if x.kind != "not-utf8"][:5]:
        ask = (f"the job's own loader on {path}",)
        cause = _cause(LIMIT.get(f.kind, "beyond-reader"), path, _words(path, f), sure=Certainty.POSSIBLE)
        out.append(cause.model_copy(update={"decides": ask}))
    if found.more:
        out = [c.model_copy(update={"evidence": (*c.evidence, f"and {found.more} more in this file")}) for c in out]
    if found.kind == "index" and found.older and not found.faults:
        words = f"{path}: the index is older than its data, and still fits it"
        out.append(_cause("index-stale", path, words, sure=Certainty.POSSIBLE))
    reader = isinstance(evidence.log, Known) and says(evidence.log.value, "data-check/jsonl-named-json")
    if found.kind == "jsonl" and not grouped and found.lines > 1 and (plain.endswith(".json") or reader):
        out.append(_cause("jsonl-named-json", path, f"{path} {JSONL_IN_JSON}", benign=not reader))
    return out


def _look(path: str, reading: Reading[DataFile]) -> str:
    """Its end and its size, of what it holds where it is packed with gzip."""
    if isinstance(reading, Known) and reading.value.packed == "gzip":
        return f"gzip -dc {path} | tail -c 300; gzip -dc {path} | wc -lc"
    return f"tail -c 300 {path}; wc -lc {path}"


def _marked(path: str, mark: Fault, evidence: Evidence) -> Cause:
    """A byte order mark: many readers take it, others refuse the first record. Which one the job's is, its log may say."""
    told = isinstance(evidence.log, Known) and says(evidence.log.value, "data-check/encoding")
    cause = _cause("encoding", path, _words(path, mark), sure=Certainty.LIKELY if told else Certainty.POSSIBLE)
    return cause.model_copy(update={"decides": (f"whether the job's own loader takes the mark at the head of {path}",)})


def _of_another_encoding(path: str, found: DataFile, evidence: Evidence) -> list[Cause]:
    """A text of another form may be in any encoding. It is at fault where the job's log refuses the very byte that is not UTF-8 in it."""
    log = evidence.log.value if isinstance(evidence.log, Known) else ""
    seen = next((f for f in found.limits if f.kind == "not-utf8"), None)
    if seen is None or not says(log, "data-check/encoding") or seen.detail.partition(" is ")[0] not in log:
        return []
    words = (_words(path, seen), "the job's log says that its reader takes the file for UTF-8 and refuses that byte")
    cause = _cause("encoding", path, *words, sure=Certainty.LIKELY)
    return [cause.model_copy(update={"decides": ("whether it is this file that the reader had open",)})]


def _asked_for(path: str, found: DataFile, evidence: Evidence) -> list[Cause]:
    """The job's log ends at a key that the records of this file do not have, or not all of them."""
    asked = lacking_key(evidence.log.value) if isinstance(evidence.log, Known) else None
    have = dict(found.keys)
    if asked is None or found.kind == "index" or not have or found.below is None or len(have) >= MOST_KEYS:
        return []
    in_part = 0 < have.get(asked.key, 0) < found.lines
    if (asked.key in have and not in_part) or asked.key in found.below or asked.elsewhere:
        return []
    near = next((k for k in have if plain(k) == plain(asked.key)), "") if not in_part else ""
    shown = ", ".join(f"{k} ({n})" for k, n in found.keys[:8])
    count = f"{have[asked.key]} of {found.lines} records of {path} have it" if in_part else f"no record of {path} has it"
    sure = Certainty.LIKELY if in_part or near or asked.of_data else Certainty.POSSIBLE
    words = (f"the job's log says: {asked.line}, and {count}; keys that occur: {shown}", f"`{near}` is the nearest" if near else "")
    cause = _cause("wrong-key", path, *filter(None, words), sure=sure)
    return [cause.model_copy(update={"decides": ("whether the line of code that asks for it reads a record of this file",)})]


def _words(path: str, f: Fault) -> str:
    where = f"line {f.line}, " if f.line else ""
    return f"{path}: {where}byte {f.offset}: {f.detail}"


def _unsure(found: DataFile) -> tuple[Fault, ...]:
    """What the reader could not judge, and a mark that the job's own loader may take or not."""
    return (*found.limits, *(f for f in found.faults if f.kind == "bom"))


def _state(evidence: Evidence, causes: tuple[Cause, ...], unread: int) -> State:
    if credible(causes):
        return State.UNHEALTHY
    if not evidence.files:
        return State.NOT_APPLICABLE
    unsure = any(isinstance(r, Known) and _unsure(r.value) for r in evidence.files.values())
    unsure = unsure or any(c.slug == "wrong-key" for c in causes)
    return State.CANNOT_TELL if unread or unsure else State.HEALTHY


def _headline(evidence: Evidence, found: tuple[Cause, ...], unread: int) -> str:
    asked = tuple(c for c in found if c.slug == "wrong-key")
    if wrong := credible(found) or asked:
        return of_cause(book(), wrong[0], more=len(wrong) - 1)
    if not evidence.files:
        return "No data file was named: give the option `data`, or `data` of the node in the fleet file"
    unsure = [(p, f) for p, r in evidence.files.items() if isinstance(r, Known) for f in _unsure(r.value)]
    if unsure:
        return f"Nothing was found wrong, and not all could be judged: {_words(*unsure[0])}"
    return f"{unread} files could not be read" if unread else f"{len(evidence.files)} data files are whole"
