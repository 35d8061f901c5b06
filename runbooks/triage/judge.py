"""Weighs what was found: which cause comes first, what only follows from it, when the text does not say enough."""

from collections.abc import Callable, Iterable, Mapping

from runbooks.core.knowledge import Role, Signature
from runbooks.triage import codes as codes_of
from runbooks.triage import facts as facts_of
from runbooks.triage.around import SMALL, Around
from runbooks.triage.block import Block, without_rules
from runbooks.triage.failing import reporting
from runbooks.triage.load import Rule, RuleSet, library
from runbooks.triage.model import Code, Line, TriageResult
from runbooks.triage.nearest import Opening, with_nearest
from runbooks.triage.probe import Matcher, Raw
from runbooks.triage.reading import Reading
from runbooks.triage.scan import Scanner
from runbooks.triage.show import Shower
from runbooks.triage.wrapped import sentences


class Support:
    """What speaks for one cause."""

    def __init__(self, known: Rule) -> None:
        self.known = known
        self.by_role: dict[Role, list[Raw]] = {role: [] for role in Role}
        self.signatures: dict[Role, int] = dict.fromkeys(Role, 0)

    def add(self, role: Role, lines: list[Raw]) -> None:
        """Lines of one signature."""
        self.by_role[role].extend(lines)
        self.signatures[role] += 1

    @property
    def rooted(self) -> bool:
        """A line says where it began."""
        return bool(self.signatures[Role.ROOT])

    @property
    def order(self) -> int:
        """Position of its earliest line in the input."""
        return min((r.order for r in self.by_role[Role.ROOT] or self.by_role[Role.FOLLOWS]), default=0)


def judge(
    blocks: Iterable[Block],
    stated: Mapping[str, str] | None = None,
    redact: Callable[[str], str] = str,
    notes: Iterable[str] = (),
    lib: RuleSet | None = None,
) -> TriageResult:
    """What the text and the stated facts point to, by all that is known or by `lib`. Raises ValueError for a bad fact."""
    lib = lib or library()
    probes = probes_of(lib)
    opening = Opening()
    given = facts_of.given(lib.facts, stated or {})
    around = Around(lib, probes, given)
    scanner = Scanner(probes.values(), around.look, lib.words)
    files: dict[str, None] = {}
    again = 0
    for block in map(without_rules, blocks):
        files[block.file] = None
        opening.take(block)
        scanner.feed(block)
        for sentence in sentences(block):
            scanner.feed(sentence)
            again += 1
    scanner.finish()
    around.finish()
    found, fact_lines = facts_of.from_text(lib.facts, probes)
    known = {**found, **given}
    seen = _collect(lib, Reading(probes, known, fact_lines, around if scanner.lines > SMALL else None))
    show = Shower(redact)
    outcome = _weigh(seen, show)
    silent = all(c.benign for c in outcome.causes) and not outcome.inconclusive  # a benign line explains itself alone
    left, more = _unexplained(lib, probes, show, seen) if silent else ((), False)
    besides, further = _besides(lib, probes, show, seen) if not silent else ((), False)
    answer = outcome.model_copy(
        update={
            "verdict": "not-enough" if left else outcome.verdict,
            "unexplained": left,
            "more_unexplained": more,
            "besides": besides,
            "more_besides": further,
            "codes": _codes(lib, probes),
            "facts": {n: tuple(facts_of.plain((v,)) for v in vs) for n, vs in known.items()},
            "files": tuple(files),
            "lines_read": scanner.lines - again,
            "notes": tuple(notes),
        }
    )
    return with_nearest(answer, opening.text, lib) if lib is library() else answer


def _codes(lib: RuleSet, probes: dict[str, Matcher]) -> tuple[Code, ...]:
    return tuple(
        Code(kind=kind, code=code, meaning=row.meaning, decides=row.decides, file=raw.file, number=raw.number)
        for kind, code, row, raw in codes_of.found(lib.codes, probes)
    )


def probes_of(lib: RuleSet) -> dict[str, Matcher]:
    """A probe for every pattern of the library, with nothing found yet."""
    probes = {pattern: Matcher(pattern, (), context, plan) for pattern, (context, plan) in lib.plans.items()}
    reports = reporting(lib.failure, lib.denied)
    for pattern in lib.failure:
        probes[pattern].counts = reports
    return probes


def _collect(lib: RuleSet, reading: Reading) -> list[Support]:
    found: list[Support] = []
    for known in lib.causes:
        seen = Support(known)
        if not reading.may_be(known.cause):
            continue
        for signature in known.cause.signatures:
            if not _possible(signature, reading):
                continue
            if lines := reading.lines(signature):
                seen.add(signature.role, lines)
        if seen.rooted or seen.signatures[Role.FOLLOWS]:
            found.append(seen)
    return found


def _possible(signature: Signature, reading: Reading) -> bool:
    return not signature.pattern or reading.probes[signature.pattern].count > 0


def _weigh(seen: list[Support], show: Shower) -> TriageResult:
    rooted = [s for s in seen if s.rooted and not s.known.cause.inconclusive]
    decided = [s for s in rooted if not _superseded(s, rooted)]
    before = {id(s): _earlier(s, decided) for s in decided}
    decided.sort(
        key=lambda s: (s.known.cause.benign, bool(before[id(s)]), -bool(s.signatures[Role.CONFIRMS]), s.order)
    )
    guilty = [s for s in decided if not s.known.cause.benign]
    causes = tuple(show.candidate(s.known, s.rooted, s.by_role, before[id(s)]) for s in decided)
    still = [s for s in seen if (s.known.cause.inconclusive or not s.rooted) and not _explained(s, guilty, decided)]
    still.sort(key=lambda s: (not s.known.cause.inconclusive, not s.rooted, s.order))
    inconclusive = tuple(show.candidate(s.known, s.rooted, s.by_role, ()) for s in still)
    if guilty:
        return TriageResult(verdict="causes", causes=causes, inconclusive=inconclusive)
    if still:
        return TriageResult(verdict="not-enough", causes=causes, inconclusive=inconclusive)
    return TriageResult(verdict="benign" if causes else "nothing", causes=causes)


def _superseded(one: Support, rooted: list[Support]) -> bool:
    finer = one.known.cause.superseded_by
    others = [o for o in rooted if o is not one]
    twins = [o for o in others if o.known.slug == one.known.slug]  # known to two runbooks: the one that sees more, once
    return any(o.known.names.intersection(finer) for o in others) or any(_rank(o) > _rank(one) for o in twins)


def _rank(seen: Support) -> tuple[int, int, str]:
    return sum(seen.signatures.values()), len(seen.known.aliases), seen.known.family


def _earlier(one: Support, decided: list[Support]) -> tuple[str, ...]:
    """Slugs of causes that are seen as well and come before this one."""
    mine = one.known.cause.caused_by
    return tuple(
        o.known.slug
        for o in decided
        if o is not one
        and not o.known.cause.benign
        and (o.known.names.intersection(mine) or ("*" in mine and "*" not in o.known.cause.caused_by))
        and not one.known.names.intersection(o.known.cause.caused_by)
    )


def _explained(one: Support, guilty: list[Support], decided: list[Support]) -> bool:
    """Whether a cause that was found makes this starting point superfluous."""
    mine = one.known.cause.caused_by or ("*",)
    if any(o.known.names.intersection(mine) for o in decided):
        return True
    return bool(guilty) and ("*" in mine or not one.known.cause.inconclusive)


def _unexplained(lib: RuleSet, probes: dict[str, Matcher], show: Shower, seen: list[Support]) -> tuple[tuple[Line, ...], bool]:
    """Lines that report a failure and speak for no cause, in order; whether there may be more of them."""
    raws, more = _unexplained_lines(lib, probes, seen)
    return show.each(raws), more


def _unexplained_lines(lib: RuleSet, probes: dict[str, Matcher], seen: list[Support]) -> tuple[list[Raw], bool]:
    told = {(r.file, r.number) for s in seen for raws in s.by_role.values() for r in raws}
    mine = [probes[p] for p in lib.failure]
    return [h.line for p in mine for h in p.hits if (h.line.file, h.line.number) not in told], any(p.full for p in mine)


def _besides(lib: RuleSet, probes: dict[str, Matcher], show: Shower, seen: list[Support]) -> tuple[tuple[Line, ...], bool]:
    """The same beside causes and starting points, each text once: without what would speak for one of them as well."""
    raws, more = _unexplained_lines(lib, probes, seen)
    once = {r.cooked.text: r for r in sorted(raws, key=lambda r: -r.order)}
    mine = [probes[p] for p in {s.pattern for x in seen for s in x.known.cause.signatures if s.pattern}]
    return show.each([r for r in once.values() if not any(p.stands(r) for p in mine)]), more
