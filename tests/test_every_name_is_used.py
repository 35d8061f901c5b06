"""Nothing stands in the product that nobody uses: no public function, class, constant or method without a second mention.

A mention is a name, an attribute, an import, a word of a text (`"module:function"`) or of prefect.yaml, or the prefix of a name
that is put together (`getattr(module, f"gather_{name}")`). What only tests use lives in tests/support.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
ROOMS = ("runbooks", "tasks", "flows", "deployments")
WORD = re.compile(r"[A-Za-z_]\w+")


class Defined(NamedTuple):
    """A public name, and the node that defines it: what that mentions of itself does not count."""

    place: str
    name: str
    node: ast.AST


def mentions(node: ast.AST) -> Iterator[str]:
    """Every name that a piece of code mentions, but in a docstring."""
    said: set[int] = set()
    for n in ast.walk(node):  # a docstring's statement comes before its text
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load):
            yield n.id
        elif isinstance(n, ast.Attribute):
            yield n.attr
        elif isinstance(n, ast.Import | ast.ImportFrom):
            yield from (a.name for a in n.names)
        elif isinstance(n, ast.Expr):
            said.add(id(n.value))
        elif isinstance(n, ast.Constant) and isinstance(n.value, str) and id(n) not in said:
            yield from WORD.findall(n.value)
        elif isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == "getattr":
            yield from (f"{v.values[0].value!s}*" for v in n.args if isinstance(v, ast.JoinedStr) and isinstance(v.values[0], ast.Constant))


def defined(place: str, tree: ast.Module, ours: set[str]) -> Iterator[Defined]:
    """Public names of a module, and methods of its classes whose bases are all ours: others may be called by their base."""
    for n in tree.body:
        if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield Defined(place, n.name, n)
        if isinstance(n, ast.ClassDef) and all(isinstance(b, ast.Name) and b.id in ours for b in n.bases):
            yield from (Defined(place, m.name, m) for m in n.body if isinstance(m, ast.FunctionDef | ast.AsyncFunctionDef))
        targets = n.targets if isinstance(n, ast.Assign) else [n.target] if isinstance(n, ast.AnnAssign) else []
        yield from (Defined(place, x.id, n) for t in targets for x in ast.walk(t) if isinstance(x, ast.Name))


def unused(modules: dict[str, ast.Module], more: str = "") -> list[str]:
    """`place: name` of every public name that nothing mentions but its own definition."""
    used = {place: Counter(mentions(tree)) for place, tree in modules.items()}
    places = Counter(name for found in used.values() for name in found) + Counter(set(WORD.findall(more)))
    begin = tuple(name[:-1] for name in places if name.endswith("*"))
    ours = {n.name for tree in modules.values() for n in tree.body if isinstance(n, ast.ClassDef)}

    def lonely(d: Defined) -> bool:
        here = used[d.place][d.name]
        return places[d.name] <= (here > 0) and here <= sum(name == d.name for name in mentions(d.node))

    names = [d for place, tree in modules.items() for d in defined(place, tree, ours)]
    return [f"{d.place}: {d.name}" for d in names if not d.name.startswith(("_", *begin)) and lonely(d)]


def test_every_public_name_is_used() -> None:
    files = [p for room in ROOMS for p in sorted((ROOT / room).rglob("*.py"))]
    modules = {str(p.relative_to(ROOT)): ast.parse(p.read_text(encoding="utf-8")) for p in files}
    assert unused(modules, (ROOT / "deployments/prefect.yaml").read_text(encoding="utf-8")) == []


def test_what_counts_as_used() -> None:
    """A call of itself, a docstring and a test's import are no use."""
    text = '''
        import flask

        LEFT = 1
        RIGHT = 2

        def again(n):
            """Nobody calls `alone`."""
            return again(n - 1) + RIGHT

        def gather_disks():
            return getattr(flask, f"gather_{'disks'}")

        class Kept:
            def dead(self):
                return 1

        class Theirs(flask.View):
            def called_by_its_base(self):
                return Kept
    '''
    tree = ast.parse("\n".join(line[8:] for line in text.splitlines()))
    assert unused({"m.py": tree}, "entrypoint: m.Theirs") == ["m.py: LEFT", "m.py: again", "m.py: dead"]
