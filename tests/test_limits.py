"""Holds each threshold to one place: a limit of a runbook.yaml stands nowhere a second time, in no default, constant or signature."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from runbooks.core.knowledge import folder_of, load_runbook, runbook_slugs, usual_limits
from runbooks.triage.expr import parse
from runbooks.triage.load import library
from runbooks.triage.words import put_limits

ROOT = Path(__file__).parents[1]
ROOMS = ("runbooks", "tasks")
ALIKE = {  # the same number as a limit of its subject, about something else
    "node_s": "the watch's grace for a network, not for a kill",
    "RANK_TTL_S": "etcd's own time-to-live of a rank",
    "REACHES_BACK_S": "what the boot itself takes to write its first kernel line",
    "SMART_S": "a command's time-out",
    "LIMIT_S": "a command's time-out",
    "SAMPLE_LIMIT_S": "a command's time-out",
    "limit_s": "a command's time-out",
    "MOST_KEYS": "what is offered by the reader itself, whatever an agent may hold",
}
SAID = {  # a condition's number that equals a limit of its runbook, about something else
    "used >= 95": "of /dev/shm, which nobody cleans up in time, not of a disk",
    "gpu_util >= 50": "of a GPU, not of a core",
    "gpu_util < 20": "use, not memory",
    "seq <= 10": "collectives, not seconds",
    "age >= 600": "a defunct process by a text alone, of which a second look is missing",
    "age < 120": "a process that just started, not two that started together",
}


def _limits_of_subjects() -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for slug in runbook_slugs():
        numbers = {n: float(v) for n, v in usual_limits(slug).items() if isinstance(v, int | float)}
        found.setdefault(folder_of(slug).partition(".")[0], {}).update(numbers)
    return found


def _number(node: ast.AST | None) -> float | None:
    """Of `900.0`, `1 << 30` or `60 * 60`."""
    if isinstance(node, ast.BinOp):
        left, right = _number(node.left), _number(node.right)
        if left is None or right is None:
            return None
        shifted = isinstance(node.op, ast.LShift) and right < 64
        return left * 2**right if shifted else left * right if isinstance(node.op, ast.Mult) else None
    plain = isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool)
    return float(node.value) if plain else None  # type: ignore[union-attr]


def _named_numbers(tree: ast.Module) -> Iterator[tuple[str, float, int]]:
    """(name, number, line) of every constant, field and default, and of every second argument of `get`."""
    pairs: list[tuple[str, ast.AST | None]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            usual = [*node.args.posonlyargs, *node.args.args]
            late = usual[len(usual) - len(node.args.defaults):]
            pairs += [(a.arg, d) for a, d in zip(late, node.args.defaults, strict=True)]
            pairs += [(a.arg, d) for a, d in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            pairs.append((node.target.id, node.value))
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                names = target.elts if isinstance(target, ast.Tuple) else [target]
                values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
                pairs += [(n.id, v) for n, v in zip(names, values, strict=False) if isinstance(n, ast.Name)]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get" and len(node.args) == 2:
            name = node.args[0]
            pairs += [(str(name.value), node.args[1])] if isinstance(name, ast.Constant) else []
    yield from ((n, v, getattr(node, "lineno", 0)) for n, node in pairs if (v := _number(node)) is not None)


def _repeats(name: str, number: float, limits: dict[str, float]) -> list[str]:
    """Limits that this number is: by its name, or by value and unit (the last word of the name); a share by its value alone."""
    unit = name.lower().rpartition("_")[2]
    return [
        n for n, v in limits.items()
        if v == number and (name.lower() == n or 0 < v < 1 or (v > 2 and unit == n.rpartition("_")[2] and "timeout" not in name))
    ]  # fmt: skip


def repeated(text: str, limits: dict[str, float]) -> list[tuple[str, str]]:
    """(name, "line: which limit") of every number in a module that is a limit once more."""
    found = [(n, line, hit) for n, v, line in _named_numbers(ast.parse(text)) if (hit := _repeats(n, v, limits))]
    return [(n, f"{line}: {n} is {' or '.join(hit)}") for n, line, hit in found]


def test_no_constant_field_or_default_is_a_limit_a_second_time() -> None:
    found = {
        name: f"{path.relative_to(ROOT)}:{what}"
        for subject, limits in _limits_of_subjects().items()
        for room in ROOMS
        for path in sorted((ROOT / room / subject).rglob("*.py"))
        for name, what in repeated(path.read_text(encoding="utf-8"), limits)
    }
    assert {name: what for name, what in found.items() if name not in ALIKE} == {}, "ask context.limit(NAME, RUNBOOK)"
    assert sorted(ALIKE) == sorted(found), "an exception that is needed no more"


@pytest.mark.parametrize("text", [
    "def read(gap_s: float = 5.0) -> None: ...", "WINDOW_S, N = 5.0, 1", "x = ask.get('gap_s', 5)", "class A:\n    wait_s: float = 5",
    "NEAR = 0.8", "ROOM_BYTES = 1 << 30",
])  # fmt: skip
def test_a_second_one_is_found_in_every_form(text: str) -> None:
    assert len(repeated(text, {"gap_s": 5.0, "possible_share": 0.8, "free_bytes": float(1 << 30)})) == 1
    assert repeated(text, {"gap_s": 6.0, "possible_share": 0.7, "free_bytes": 7.0}) == []


def test_a_limit_is_read_without_a_default_of_its_own() -> None:
    asked = re.compile(r"\bcontext\.limits\.get\(")
    paths = [p for room in (*ROOMS, "flows") for p in sorted((ROOT / room).rglob("*.py"))]
    found = [str(p.relative_to(ROOT)) for p in paths if asked.search(p.read_text(encoding="utf-8"))]
    assert found == [], "ask context.limit(NAME, RUNBOOK)"


def _compared(condition: str) -> Iterator[float]:
    for node in ast.walk(parse(condition)):
        if isinstance(node, ast.Compare):
            yield from (n for part in node.comparators for n in [_number(part)] if n is not None and n > 2)


def test_no_signature_repeats_a_limit_of_its_runbook() -> None:
    """Seconds, minutes, shares and percentages: the condition names the limit as {{runbook.limit}}."""
    found = set()
    for slug in runbook_slugs():
        shares, times = _as_said(slug)
        for where in _written(slug):
            same = shares if re.search(r"util|used|percent|\bsm\b", where) else times
            found |= {where for number in _compared(re.sub(r"\{\{.*?\}\}", "0", where)) if number in same}
    assert sorted(found - set(SAID)) == []
    assert sorted(SAID) == sorted(found & set(SAID)), "an exception that is needed no more"


def _as_said(slug: str) -> tuple[set[float], set[float]]:
    """Its limits that are shares or sizes, as per cent or MiB, and those that are times, as seconds or minutes."""
    units = [(float(limit.value), limit.unit) for limit in load_runbook(slug).limits.values() if isinstance(limit.value, int | float)]
    shares = {v * 100 if "share" in u else v for v, u in units if re.search("share|per ?cent|MiB", u)}
    return shares, {n for v, u in units if u in ("s", "seconds") for n in (v, v / 60)}


def _written(slug: str) -> Iterator[str]:
    """Conditions as they are written, of the runbook and of every family cause that it owns ("": that no runbook owns)."""
    import yaml

    own = load_runbook(slug).causes.values() if slug else ()
    yield from (c for cause in own for s in cause.signatures for c in s.where)
    for path in sorted((ROOT / "runbooks/knowledge/families").glob("*.yaml")):
        family = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
        for cause in family["causes"].values():
            owner = cause.get("same_as", "").partition("/")[0] or cause.get("runbook") or family.get("runbook", "")
            if owner == slug:
                yield from (c for s in cause.get("signatures", ()) for c in s.get("where", ()))


def test_a_condition_names_no_limit_that_stands_for_something_else() -> None:
    """0 may mean that the number comes from a table by the card's model: a text says no model."""
    named = {m for slug in (*runbook_slugs(), "") for c in _written(slug) for m in re.findall(r"\{\{([\w-]+)\.(\w+)\}\}", c)}
    assert len(named) > 5
    assert [f"{slug}.{name}" for slug, name in sorted(named) if not float(usual_limits(slug)[name]) > 0] == []


def test_a_limit_in_a_condition_is_its_number_there() -> None:
    causes = {"slow": {"signatures": [{"where": ["age >= {{a-b.old_s}} * 2", "n > 1"]}, {"pattern": "x"}]}}
    put_limits(causes, {"a-b.old_s": 600})
    assert causes["slow"]["signatures"][0] == {"where": ["age >= 600 * 2", "n > 1"]}
    with pytest.raises(KeyError):
        put_limits({"slow": {"signatures": [{"where": ["age >= {{a-b.new_s}}"]}]}}, {"a-b.old_s": 600})
    assert [c for k in library().causes for s in k.cause.signatures for c in s.where if "{{" in c] == []
