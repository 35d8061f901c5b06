"""Everything that triage knows: the causes of all runbooks and family files, facts and failure words, as probes."""

from functools import cached_property, lru_cache
from importlib import resources
from typing import Any

from pydantic import Field

from runbooks.core.base import Frozen
from runbooks.core.distinct import distinct, prohibitions
from runbooks.core.knowledge import CauseKnowledge, Signature, runbook_file, runbook_slugs
from runbooks.triage.cache import digest_of, keep, kept
from runbooks.triage.codes import CodeTable, xid_table
from runbooks.triage.failing import FailureWords
from runbooks.triage.literals import required
from runbooks.triage.probe import Plan, plan_of
from runbooks.triage.words import limits_by_name, put_limits, spelled

FORMAT = 18  # of the cache file


class FamilyCause(CauseKnowledge):
    """A cause of a family file: as in a runbook, and which runbook reads the machine for it."""

    runbook: str = ""
    target: str = ""
    same_as: str = ""  # "runbook/slug" under which a runbook knows this cause; that text wins
    also: tuple[str, ...] = ()  # other "runbook/slug" for which `caused_by`, `never_when` and `only_when` hold as well
    never_when: tuple[str, ...] = ()  # patterns that exclude this cause, whatever its signatures say
    only_when: tuple[str, ...] = ()  # patterns of which one must stand in the text
    replaces_signatures: bool = False  # these signatures instead of the runbook's own for the same cause
    hides: tuple[str, ...] = ()  # "runbook/slug" of the same cause in other runbooks: not shown besides this one
    superseded_by: tuple[str, ...] = ()  # finer causes of a runbook; with one of them seen, this one is not shown


class Family(Frozen):
    """A file of runbooks/knowledge/families/."""

    family: str = Field(pattern=r"^[a-z][a-z0-9-]*$")
    title: str
    runbook: str = ""  # default for its causes
    target: str = ""
    causes: dict[str, FamilyCause]


class FactKnowledge(Frozen):
    """A number or word that is read out of the text."""

    kind: str  # number | count (may be a word) | size | seconds | percent | word | flag | version | repeats | distinct
    about: str
    patterns: tuple[str, ...]  # group `v` is the value; a flag needs none
    examples: tuple[str, ...] = ()


class Rule(Frozen):
    """One cause, wherever it was written down."""

    slug: str
    family: str
    cause: FamilyCause
    aliases: tuple[str, ...] = ()  # slugs under which family files know it

    @property
    def names(self) -> frozenset[str]:
        """Every slug that means this cause."""
        return frozenset((self.slug, *self.aliases))


class RuleSet(Frozen):
    """All causes, all facts, and for every pattern the texts that it cannot match without."""

    causes: tuple[Rule, ...]
    facts: dict[str, FactKnowledge]
    codes: dict[str, CodeTable]
    failure: tuple[str, ...]  # patterns of lines that report a failure, known or not
    denied: tuple[str, ...] = ()  # patterns of words that take this back: none failed, it was meant, it came right
    literals: dict[str, tuple[str, ...]]

    @cached_property
    def plans(self) -> dict[str, tuple[bool, Plan]]:
        """For every pattern whether it is only context, and how it is looked for: worked out once, not for each text."""
        shown = {s.pattern for k in self.causes for s in k.cause.signatures} | {t.pattern for t in self.codes.values()}
        bytes_of = {p: tuple(t.encode("utf-8", "surrogateescape") for t in ts) for p, ts in self.literals.items()}
        return {p: (p not in shown, plan_of(p, texts)) for p, texts in bytes_of.items()}

    @cached_property
    def named(self) -> dict[tuple[str, str], CauseKnowledge]:
        """Every cause by its family and slug."""
        return {(k.family, k.slug): k.cause for k in self.causes}

    @cached_property
    def words(self) -> frozenset[bytes]:
        """Every word without which some pattern cannot match."""
        return frozenset(w for _, (_, words, _) in self.plans.values() for part in words for w in part)


def _sources() -> list[tuple[str, str]]:
    """(path below runbooks/, a runbook by its slug, text) of every file that knowledge is read from."""
    root = resources.files("runbooks")
    books = [(f"{slug}/runbook.yaml", runbook_file(slug)) for slug in runbook_slugs()]
    tables = root / "knowledge"
    found = [f for f in (tables / "families").iterdir() if f.name.endswith(".yaml")]
    found += [tables / name for name in ("facts.yaml", "failure.yaml", "codes.yaml", "xids.yaml")]
    named = [*books, *((str(f).rsplit("runbooks/", 1)[-1], f) for f in found)]
    return sorted((name, spelled(f.read_text(encoding="utf-8"))) for name, f in named)


@lru_cache(maxsize=1)
def library() -> RuleSet:
    """The knowledge, from the cache where the files have not changed. Raises pydantic.ValidationError on bad files."""
    sources = _sources()
    digest = digest_of((FORMAT, sources))
    try:
        return RuleSet.model_validate_json(kept("triage", digest) or b"")
    except ValueError:
        built = build(sources)
        keep("triage", digest, built.model_dump_json().encode())
        return built


def build(sources: list[tuple[str, str]]) -> RuleSet:
    """The library from the files' texts."""
    causes: dict[tuple[str, str], Rule] = {}
    facts: dict[str, FactKnowledge] = {}
    codes: dict[str, CodeTable] = {}
    said = FailureWords(says={}, denies={})
    families: list[Family] = []
    parsed = [(path, _parse(text)) for path, text in sources]
    limits = limits_by_name(data for path, data in parsed if path.endswith("runbook.yaml"))
    for path, data in parsed:
        put_limits(data.get("causes", {}), limits)
        if path.endswith("runbook.yaml"):
            for known in _runbook_causes(data):
                causes[known.family, known.slug] = known
        elif path.endswith("facts.yaml"):
            facts = {k: FactKnowledge.model_validate(v) for k, v in data["facts"].items()}
        elif path.endswith("failure.yaml"):
            said = FailureWords.model_validate(data)
        elif path.endswith("codes.yaml"):
            codes |= {kind: CodeTable.model_validate(table) for kind, table in data.items()}
        elif path.endswith("xids.yaml"):
            codes["xid"] = xid_table(data)
        else:
            families.append(Family.model_validate(data))
    for family in families:
        _add_family(family, causes)
    for family in families:
        _hide(family, causes)
    library = tuple(sorted(causes.values(), key=lambda k: (k.family, k.slug)))
    failure, denied = said.patterns
    literals = _literals(library, facts, (*failure, *(t.pattern for t in codes.values())))
    return RuleSet(causes=library, facts=facts, codes=codes, failure=failure, denied=denied, literals=literals)


def _parse(text: str) -> Any:
    from runbooks.core.yaml_loader import load_yaml  # PyYAML only where the cache does not hold

    return load_yaml(text)


def _runbook_causes(data: dict[str, Any]) -> list[Rule]:
    extra = {"runbook": data["slug"], "target": data.get("target", "")}
    return [
        Rule(slug=s, family=data["slug"], cause=FamilyCause.model_validate({**c, **extra}))
        for s, c in data["causes"].items()
    ]


def _add_family(family: Family, causes: dict[tuple[str, str], Rule]) -> None:
    """A runbook's cause of the same slug keeps its words and gains the family's signatures."""
    for slug, cause in family.causes.items():
        runbook = cause.runbook or family.runbook
        for other in cause.also:
            _narrow(causes, other, cause)
        key = tuple(cause.same_as.split("/", 1)) if cause.same_as else (runbook or family.family, slug)
        known = causes.get((key[0], key[1]))
        if known is None:
            filled = cause.model_copy(update={"runbook": runbook, "target": cause.target or family.target})
            causes[key[0], slug] = Rule(slug=slug, family=family.family, cause=filled)
            continue
        own = () if cause.replaces_signatures else known.cause.signatures
        more = [s for s in cause.signatures if s.pattern not in {k.pattern for k in own if k.pattern}]
        words = cause if cause.inconclusive else known.cause  # a starting point is told as one
        both = known.cause.model_copy(
            update={
                "title": words.title,
                "explanation": words.explanation,
                "remedy": words.remedy,
                "decided_by": distinct((*words.decided_by, *known.cause.decided_by, *cause.decided_by))[:5],
                "signatures": (*own, *more),
                "caused_by": (*known.cause.caused_by, *cause.caused_by),
                "superseded_by": (*known.cause.superseded_by, *cause.superseded_by),
                "never_when": (*known.cause.never_when, *cause.never_when),
                "only_when": (*known.cause.only_when, *cause.only_when),
                "inconclusive": known.cause.inconclusive or cause.inconclusive,
                "benign": known.cause.benign or cause.benign,
                "must_not": prohibitions((*known.cause.must_not, *cause.must_not)),
            }
        )
        causes[key[0], key[1]] = known.model_copy(update={"cause": both, "aliases": (*known.aliases, slug)})


def _hide(family: Family, causes: dict[tuple[str, str], Rule]) -> None:
    for slug, cause in family.causes.items():
        for other in cause.hides:
            owner, _, name = other.partition("/")
            if known := causes.get((owner, name)):
                covered = known.cause.model_copy(update={"superseded_by": (*known.cause.superseded_by, slug)})
                causes[owner, name] = known.model_copy(update={"cause": covered})


def _narrow(causes: dict[tuple[str, str], Rule], name: str, cause: FamilyCause) -> None:
    family, _, slug = name.partition("/")
    if known := causes.get((family, slug)):
        narrower = known.cause.model_copy(
            update={
                "caused_by": (*known.cause.caused_by, *cause.caused_by),
                "never_when": (*known.cause.never_when, *cause.never_when),
                "only_when": (*known.cause.only_when, *cause.only_when),
            }
        )
        causes[family, slug] = known.model_copy(update={"cause": narrower})


def signature_patterns(signature: Signature) -> tuple[str, ...]:
    """Every pattern that has to be looked for to judge it."""
    s = signature
    return tuple(p for p in (s.pattern, *s.needs, *s.unless, *s.recovered, *s.near, *s.not_near) if p)


def patterns_of(causes: tuple[Rule, ...], facts: dict[str, FactKnowledge]) -> list[str]:
    """Every pattern that has to be looked for to judge these causes."""
    patterns = [p for k in causes for s in k.cause.signatures for p in signature_patterns(s)]
    patterns += [p for k in causes for p in (*k.cause.never_when, *k.cause.only_when)]
    return patterns + [p for f in facts.values() for p in f.patterns]


def _literals(causes: tuple[Rule, ...], facts: dict[str, FactKnowledge], failure: tuple[str, ...]) -> dict[str, Any]:
    patterns = [*patterns_of(causes, facts), *failure]
    return {p: tuple(t.decode("utf-8", "surrogateescape") for t in required(p)) for p in dict.fromkeys(patterns)}
