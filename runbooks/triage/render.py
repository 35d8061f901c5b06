"""The answer as text for a terminal."""

from runbooks.triage.advice import behind_check
from runbooks.triage.model import CandidateCause, Code, Line, Near, TriageResult
from runbooks.triage.show import few

_HEAD = {
    "nothing": "Nothing known to me in these {lines} lines. That is no word about the machine: what is wrong may not stand in them.",
    "benign": "Nothing known to me in these {lines} lines but what has a benign explanation, if its check says so.",
    "causes": "{count}, each behind its check: a text alone proves none.",
    "not-enough": "Not enough to tell.",
}
_TOLD = "It tells of trouble and fits nothing known. What would decide: the error itself, the log's last lines, the exit code or state."
_NEAREST = (
    "Nearest by its words alone. None of these has evidence: take the reading that decides before you believe one:"
)


def render(outcome: TriageResult) -> str:
    """The whole answer."""
    real = [c for c in outcome.causes if not c.benign]
    count = f"{len(real)} candidate{'s' if len(real) != 1 else ''}"
    parts = [_HEAD[outcome.verdict].format(lines=outcome.lines_read, count=count)]
    notes = [f"Note: {n}" for n in outcome.notes]
    if not real:
        parts += notes  # what was not read may be where it stands
    parts += [_cause(n, c) for n, c in enumerate(outcome.causes, 1)]
    if outcome.inconclusive:
        parts.append("Left open by this text:" if outcome.causes else "What it shows is a starting point, not a cause:")
        parts += [_open(c) for c in outcome.inconclusive]
    if outcome.besides:
        title = "Not explained by these: lines that report a failure as well\n"
        parts.append(title + _lines(few(outcome.besides)) + _rest(outcome.besides, outcome.more_besides))
    if outcome.unexplained:
        title = "Lines that report a failure and fit no known cause:\n"
        parts.append(title + _lines(few(outcome.unexplained)) + _rest(outcome.unexplained, outcome.more_unexplained))
        parts.append("What would decide: the 50 lines before the first of these, and the process's exit code or state.")
    if (
        not (outcome.causes or outcome.inconclusive or outcome.unexplained or outcome.nearest)
        and outcome.verdict == "not-enough"
    ):
        parts.append(_TOLD)
    if outcome.nearest:
        parts.append(_NEAREST)
        parts += [_near(n) for n in outcome.nearest]
    if outcome.codes and outcome.verdict in ("causes", "not-enough"):
        parts.append("Codes in it (starting points, no verdicts):\n" + "\n".join(map(_code, outcome.codes)))
    if real:
        parts += notes
    return "\n\n".join(parts) + "\n"


def _code(x: Code) -> str:
    return f"   {x.kind} {x.code}: {x.meaning}  ({x.file}:{x.number}; what decides: {x.decides})"


def _cause(number: int, cause: CandidateCause) -> str:
    kind = "benign" if cause.benign else cause.certainty.value
    rows = [f"{number}. Candidate: {cause.title}  [{kind}] {cause.family}/{cause.slug}", _wrapped(cause.explanation)]
    if cause.follows:
        rows.append(f"   usually follows from: {', '.join(cause.follows)} (seen as well)")
    rows.append("   lines that point to it:\n" + _lines(cause.evidence))
    if cause.confirmed_by:
        rows.append("   and that fit:\n" + _lines(cause.confirmed_by))
    rows.append(_bullets("what would decide", cause.decided_by))
    rows.append(f"   {behind_check(cause.decided_by, cause.remedy, cause.held_back)}")
    rows.append(_bullets("what must not be done", cause.must_not))
    rows.append(_next(cause))
    return "\n".join(r for r in rows if r)


def _open(cause: CandidateCause) -> str:
    rows = [f" - {cause.title}  [{cause.family}/{cause.slug}]", _wrapped(cause.explanation)]
    rows += [_lines(cause.evidence), _bullets("what would decide", cause.decided_by)]
    rows += [_bullets("what must not be done", cause.must_not), _next(cause)]
    return "\n".join(r for r in rows if r)


def _near(near: Near) -> str:
    rows = [
        f" - {near.title}  [{near.family}/{near.slug}]",
        _bullets("what would decide", near.decided_by),
        _next(near),
    ]
    return "\n".join(r for r in rows if r)


def _wrapped(text: str) -> str:
    return f"   {' '.join(text.split())}"


def _lines(lines: tuple[Line, ...]) -> str:
    return "\n".join(f"     {x.file}:{x.number}: {x.text}" + (f"  (x{x.times})" if x.times > 1 else "") for x in lines)


def _rest(lines: tuple[Line, ...], more: bool) -> str:
    """How many lines of that kind are not shown."""
    rest, least = len(lines) - len(few(lines)), "at least " if more else ""
    return f"\n     and {least}{rest} more" if rest else ""


def _bullets(title: str, items: tuple[str, ...]) -> str:
    return "\n".join([f"   {title}:", *(f"     - {' '.join(i.split())}" for i in items)]) if items else ""


def _next(cause: CandidateCause | Near) -> str:
    if not cause.runbook:
        return "   runbook: none reads the machine for this; by hand"
    return f"   runbook: gpu-runbooks run {cause.runbook} TARGET   ({cause.target or 'the target it names'})"
