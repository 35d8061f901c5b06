"""Numbers and words read out of the text, or given by the person: what conditions of signatures compare."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from runbooks.triage.expr import UnknownName, Value, number, seconds, size, version
from runbooks.triage.load import FactKnowledge
from runbooks.triage.probe import Hit, Matcher, Raw

Facts = dict[str, tuple[Value, ...]]
NUMBERS = {"one": "1", "two": "2", "both": "2", "three": "3", "four": "4", "eight": "8", "sixteen": "16"}


def convert(kind: str, text: str) -> Value | None:
    """The value of a fact of that kind; None where the text is not one."""
    try:
        if kind == "flag":
            return text.strip().lower() not in ("no", "false", "0")
        if kind in ("word", *COUNTED):
            return text.strip().lower()
        if kind == "percent":
            text = text.replace("%", "")
        if kind == "count":
            text = NUMBERS.get(text.strip().lower(), text)
        read: dict[str, Callable[[str], Value]] = {"size": size, "seconds": seconds, "version": version}
        given = read.get(kind, number)(text)
    except UnknownName:
        return None
    return None if kind in ("number", "count", "percent") and not isinstance(given, float) else given


def from_text(known: Mapping[str, FactKnowledge], probes: Mapping[str, Matcher]) -> tuple[Facts, dict[str, list[Raw]]]:
    """Facts of the text and the lines that they stand in."""
    return from_hits(known, {p: probes[p].hits for fact in known.values() for p in fact.patterns})


def from_hits(
    known: Mapping[str, FactKnowledge], hits: Mapping[str, Sequence[Hit]]
) -> tuple[Facts, dict[str, list[Raw]]]:
    """Facts by the matches of their patterns."""
    facts: Facts = {}
    lines: dict[str, list[Raw]] = {}
    for name, fact in known.items():
        values: list[Value] = []
        for hit in (h for pattern in fact.patterns for h in hits[pattern]):
            value = convert(fact.kind, hit.groups.get("v") or "true")
            if value is None:
                continue
            values.append(value)
            lines.setdefault(name, []).append(hit.line)
        if values:
            facts[name] = (COUNTED[fact.kind](values),) if fact.kind in COUNTED else tuple(dict.fromkeys(values))
    return facts, lines


def _most_often(values: list[Value]) -> float:
    """How often the most frequent of them stands in the text."""
    return float(max(Counter(values).values()))


def _distinct(values: list[Value]) -> float:
    """How many different ones stand in the text."""
    return float(len(set(values)))


COUNTED: dict[str, Callable[[list[Value]], float]] = {"repeats": _most_often, "distinct": _distinct}


def given(known: Mapping[str, FactKnowledge], stated: Mapping[str, str]) -> Facts:
    """Facts that a person or a runbook states: they replace what the text says."""
    facts: Facts = {}
    for key, text in stated.items():
        name = key.strip().lower().replace("-", "_").replace(" ", "_")
        fact = known.get(name)
        value = convert("number" if fact.kind in COUNTED else fact.kind, str(text)) if fact else number(str(text))
        if value is None:
            kind = fact.kind if fact else "number"
            raise ValueError(f"fact {key}: {text!r} is no {kind}")
        facts[name] = (value,)
    return facts


def plain(values: tuple[Value, ...]) -> str:
    """Values as a person writes them, `/` between them."""
    return "/".join(_one(v) for v in values)


def _one(value: Value) -> str:
    if isinstance(value, tuple):
        return ".".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
