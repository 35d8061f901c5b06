"""A runbook's knowledge: runbook.yaml as types. Everything a person reads about a cause is written there, once."""

from collections.abc import Iterable
from enum import StrEnum
from functools import cache, lru_cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any

from pydantic import Field, model_validator

from runbooks.core.base import Frozen
from runbooks.core.names import there_are


class Role(StrEnum):
    """What a matching line says about its cause."""

    ROOT = "root"  # this line is where it began
    FOLLOWS = "follows"  # usually the consequence of something earlier
    CONFIRMS = "confirms"  # says nothing alone, strengthens a cause that something else points to


class Reach(StrEnum):
    """Where a signature's conditions may stand. In a text of a few hundred lines both mean the same."""

    NEARBY = "nearby"  # around the match: some hundred lines, and what is said at the same moment
    ANYWHERE = "anywhere"  # in the whole text: what counts over all of it ("received twice") says so


class Signature(Frozen):
    """A text pattern of a cause, for logs and command output. Python `re`, searched per line.

    Conditions in `where` are comparisons over the pattern's named groups and over facts found in the text or given
    (runbooks/triage/expr.py, names in runbooks/knowledge/facts.yaml): "free > tried", "exit_code == 137". A number that
    is not known makes its condition false. Without a pattern, the conditions alone are the signature. A named group that
    the pattern shares with one of `unless`, `recovered` or `needs` must have taken the same text: the same thing. A limit of a
    runbook is named, never repeated: "age >= {{stuck-spawning.heartbeat_s}}".
    """

    pattern: str = ""
    role: Role
    example: str  # a real line that matches
    counter_example: str = ""  # a real line that looks alike and must not match
    unless: tuple[str, ...] = ()  # patterns that take this match away
    recovered: tuple[str, ...] = ()  # patterns of a success that take it away when they come after it, in the same file
    needs: tuple[str, ...] = ()  # patterns that must be found as well
    reach: Reach = Reach.NEARBY  # of `unless`, `needs`, `recovered` and of the facts in `where`
    near: tuple[str, ...] = ()  # patterns that must be found within `within` lines of the match
    not_near: tuple[str, ...] = ()  # patterns that must not be found within `within` lines of it
    within: int = 20
    where: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _says_something(self) -> "Signature":
        if not self.pattern and not self.where:
            raise ValueError("give a pattern, or conditions in `where`")
        return self


class CauseKnowledge(Frozen):
    """One cause as the runbook knows it."""

    title: str
    explanation: str
    decided_by: tuple[str, ...] = Field(min_length=1)
    remedy: str
    orders: dict[str, str] = {}  # action kind -> the part of `remedy` that asks for it: left out where the report speaks against that
    must_not: tuple[str, ...] = ()
    benign: bool = False
    signatures: tuple[Signature, ...] = ()
    no_text: str = ""  # why no text can say this cause, where it has no signature: only readings can
    references: tuple[str, ...] = ()
    rests_on: tuple[str, ...] = ()  # readings that decide it: without them not confirmed, and no plan; "a or b": one is enough
    excluded_by: dict[str, str] = {}  # what else it could be (a cause of this runbook, or in words) -> the reading that excludes it
    plan_needs: tuple[str, ...] = ()  # further readings without which no plan for it is offered
    mildest: dict[str, str] = {}  # the kind of the mildest repair -> the words with which a report says why it has none
    forbids: tuple[str, ...] = ()  # action kinds that no plan of a report with this cause, or a finding of it, may have
    forbids_on_it: tuple[str, ...] = ()  # the same, but only for steps about the cause's own subject
    caused_by: tuple[str, ...] = ()  # slugs of causes that, when seen as well, come first; "*": any other root
    inconclusive: bool = False  # a starting point, not a cause: answered with "not enough" and `decided_by`

    def remedy_without(self, kinds: Iterable[str]) -> str:
        """The remedy without its orders of these kinds; "" if nothing is left."""
        text = self.remedy
        for kind in kinds:
            text = text.replace(self.orders.get(kind, ""), "")
        return text.strip()


class Limit(Frozen):
    """A number with its unit and where it comes from."""

    value: float | int | str | bool
    unit: str
    source: str


class Option(Frozen):
    """Something that a run may be told besides its target. Always text; `pattern` and `choices` say which."""

    title: str
    help: str  # what it is good for, in one or two sentences
    unit: str = ""
    pattern: str = ""  # regular expression for the whole text
    choices: tuple[str, ...] = ()
    example: str = ""


class Cover(Frozen):
    """Why a healthy verdict stands without a reading: what covers it, and how."""

    covered_by: tuple[str, ...] = Field(min_length=1)  # readings, by their paths; all of them must have been read
    because: str = Field(min_length=20)
    if_not_asked: bool = False  # only where the run named nothing to read; what was named and could not be read is missed


class Runbook(Frozen):
    """A runbook.yaml."""

    slug: str = Field(pattern=r"^[a-z][a-z0-9-]*$")
    title: str
    summary: str
    symptoms: tuple[str, ...]
    target: str  # what one run is about, in words: "a node of the fleet"
    actions: tuple[str, ...] = ()  # kinds of action that its plans may hold, sorted
    plan: str = ""  # a plan's name, as an example of what `choice` takes
    scenario: str = ""  # what `gpu-runbooks lab <slug>` breaks
    options: dict[str, Option] = {}
    may_be_unread: dict[str, Cover] = {}  # by path, "tiers[].space"; a healthy verdict needs every other reading
    speaks: tuple[str, ...] = ()  # where the evidence holds words: what reports a failure there must be explained
    judges_one: bool = False  # whatever their subjects: all causes of a report are about one and the same thing
    causes: dict[str, CauseKnowledge]
    limits: dict[str, Limit]
    references: tuple[str, ...] = ()

    def limit_values(self, overrides: dict[str, Any] | None = None) -> dict[str, Any]:
        """Limits as plain values, for the pydantic `Limits` of the runbook; `overrides` come from the fleet file."""
        return {name: limit.value for name, limit in self.limits.items()} | (overrides or {})

    def prohibitions(self, slugs: Iterable[str]) -> tuple[str, ...]:
        """What must not be done while these causes stand, each once."""
        return tuple(dict.fromkeys(line for slug in slugs for line in self.causes[slug].must_not))


@cache
def _folders() -> dict[str, str]:
    return folders_in(resources.files("runbooks"))


def folders_in(runbooks: Traversable) -> dict[str, str]:
    """Slug -> the runbook's package below that folder: "gpu", or "gpu.zombie" where a subject has several. Sorted by slug."""
    subjects = [d for d in runbooks.iterdir() if d.is_dir()]
    found = [(d.name, d) for d in subjects]
    found += [(f"{s.name}.{d.name}", d) for s in subjects for d in s.iterdir() if d.is_dir()]
    files = [(name, d.joinpath("runbook.yaml")) for name, d in found]
    return dict(sorted((_slug(file), name) for name, file in files if file.is_file()))


def _slug(file: Traversable) -> str:
    """The first line of every runbook.yaml says it."""
    with file.open(encoding="utf-8") as f:
        return f.readline().removeprefix("slug:").strip()


def runbook_slugs() -> tuple[str, ...]:
    """Slugs of every runbook, sorted: a folder with a runbook.yaml is a runbook."""
    return tuple(_folders())


def folder_of(slug: str) -> str:
    """The runbook's package below runbooks/, dotted. Raises KeyError that names those there are."""
    if slug not in _folders():
        raise KeyError(f"no runbook {slug!r}; {there_are(slug, _folders())}")
    return _folders()[slug]


def runbook_file(slug: str) -> Traversable:
    """Its runbook.yaml."""
    return resources.files("runbooks").joinpath(*folder_of(slug).split("."), "runbook.yaml")


def load_runbook(slug: str) -> Runbook:
    """The runbook's knowledge. Raises ConfigError naming file, line and field; KeyError if there is no such runbook."""
    path = runbook_file(slug)
    return _parsed(path.read_text(encoding="utf-8"), str(path))


@lru_cache(64)
def _parsed(text: str, path: str) -> Runbook:
    """Once for each text: every judgment asks for it."""
    from runbooks.core.config import parse_yaml  # PyYAML takes longer to import than triage takes for a small text

    return parse_yaml(text, Runbook, path)


@cache
def usual_limits(slug: str) -> dict[str, Any]:
    """The runbook's limits where no fleet file changes them. Raises as load_runbook does."""
    return load_runbook(slug).limit_values()


def load_table(name: str) -> dict[str, Any]:
    """A table of runbooks/knowledge/, as plain data (Xids, exit codes, errno …)."""
    from runbooks.core.yaml_loader import load_yaml

    path = resources.files("runbooks") / "knowledge" / f"{name}.yaml"
    table = load_yaml(path.read_text(encoding="utf-8"))
    if not isinstance(table, dict):
        raise TypeError(f"{path}: a table must be a mapping")
    return table
