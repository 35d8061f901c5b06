"""Holds the structure: which way the rooms may call each other, names, sizes, locks, and the README's table."""

import ast
import re
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import metadata, packages_distributions
from pathlib import Path

import pytest

from runbooks.core.knowledge import folder_of, load_runbook, runbook_slugs

ROOT = Path(__file__).parents[1]
ROOMS = ("runbooks", "tasks", "flows", "deployments")
MAY_IMPORT = {  # room -> our own packages that it may import
    "runbooks": {"runbooks"},
    "tasks": {"tasks", "runbooks"},
    "flows": {"flows", "tasks", "runbooks"},
    "deployments": set(ROOMS),
}
PURE = {
    "pydantic",
    "pydantic_core",
    "yaml",
    "jinja2",
    "ahocorasick",
    "re2",
}  # what runbooks/ may use besides the standard library
IMPURE = {
    "subprocess",
    "socket",
    "http",
    "urllib",
    "ssl",
    "asyncio",
    "threading",
    "multiprocessing",
    "signal",
    "time",
    "select",
}
OPTIONAL = {"zstandard"}  # inside a function, with a plain error where it is missing
LONGEST = 250


def sources(room: str) -> list[Path]:
    return sorted(p for p in (ROOT / room).rglob("*.py") if "__pycache__" not in p.parts)


def imports(path: Path) -> Iterator[tuple[str, bool, int]]:
    """(module, is it at module level, line) of each import; an import under TYPE_CHECKING is at module level too."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    inside = {
        id(n) for f in ast.walk(tree) if isinstance(f, ast.FunctionDef | ast.AsyncFunctionDef) for n in ast.walk(f)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((a.name, id(node) not in inside, node.lineno) for a in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are absolute here"
            yield node.module or "", id(node) not in inside, node.lineno


def folder(slug: str) -> Path:
    """Where a runbook lies."""
    return ROOT.joinpath("runbooks", *folder_of(slug).split("."))


def faults(room: str, wrong: Callable[[str, bool], bool]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{line}: imports {module}"
        for path in sources(room)
        for module, top, line in imports(path)
        if wrong(module, top)
    ]


@pytest.mark.parametrize("room", ROOMS)
def test_arrow(room: str) -> None:
    """deployments -> flows -> tasks -> runbooks, never back; nothing imports tests."""

    def backwards(module: str, top: bool) -> bool:
        first = module.partition(".")[0]
        return first in {*ROOMS, "tests"} - MAY_IMPORT[room]

    assert faults(room, backwards) == []


def test_runbooks_are_pure() -> None:
    """Standard library without processes, network and threads; pydantic, pyyaml, jinja2."""

    def impure(module: str, top: bool) -> bool:
        first = module.partition(".")[0]
        if module == "urllib.parse" or (first in OPTIONAL and not top):
            return False
        return first in IMPURE or first not in {*sys.stdlib_module_names, *PURE, "runbooks"}

    assert faults("runbooks", impure) == []


def test_runbooks_do_not_look_at_the_clock() -> None:
    clock = re.compile(r"\b(datetime\.(now|utcnow|today)|date\.today|time\.time)\(")
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in sources("runbooks")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if clock.search(line)
    ]
    assert found == []


def test_prefect_is_for_flows_and_deployments() -> None:
    """In tasks/ only inside a function (a Secret block), so that reading needs no Prefect."""

    def early(module: str, top: bool) -> bool:
        return module.partition(".")[0] == "prefect" and top

    assert faults("tasks", early) == []


def test_specs_need_no_prefect() -> None:
    for name in ("spec.py", "specs.py", "config.py"):
        found = [m for m, _, _ in imports(ROOT / "flows" / name) if m.partition(".")[0] == "prefect"]
        assert found == [], f"flows/{name}"


def test_no_other_distribution_owns_our_names() -> None:
    owners = packages_distributions()
    assert {room: set(owners.get(room, ["gpu-runbooks"])) for room in ROOMS} == {
        room: {"gpu-runbooks"} for room in ROOMS
    }
    assert "Private :: Do Not Upload" in (metadata("gpu-runbooks").get_all("Classifier") or [])


def test_files_are_short() -> None:
    """Each module can be read in one sitting."""
    counts = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for room in ROOMS
        for path in sources(room)
    }
    assert {name: n for name, n in counts.items() if n >= LONGEST} == {}


def test_init_files_are_empty() -> None:
    """No re-exports, no registry by import."""
    full = [p for room in (*ROOMS, "tests") for p in sources(room) if p.name == "__init__.py" and imports_anything(p)]
    assert full == []


def imports_anything(path: Path) -> bool:
    return next(imports(path), None) is not None


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-dev.lock"])
def test_locks_hold_hashes_and_no_address(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert "://" not in text
    assert not re.search(r"^\s*(-i|--index|--extra-index|--find-links|-f)\b", text, re.MULTILINE)
    assert not re.search(r"(^|\s)/[a-z]+/", text), "a path of somebody's machine"
    pins = re.findall(r"^([A-Za-z0-9._-]+)==\S+.*\\$", text, re.MULTILINE)
    entries = re.findall(r"^[A-Za-z0-9].*$", text, re.MULTILINE)
    assert len(pins) == len(entries) > 50
    assert not (ROOT / "uv.lock").exists()


def test_the_dev_lock_contains_the_run_lock() -> None:
    def pins(name: str) -> set[str]:
        return set(re.findall(r"^\S+==\S+", (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE))

    assert pins("requirements.lock") <= pins("requirements-dev.lock")


def test_every_dependency_is_locked() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    locked = {
        n.lower()
        for n in re.findall(r"^([A-Za-z0-9._-]+)==", (ROOT / "requirements-dev.lock").read_text(), re.MULTILINE)
    }
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    names = {m[0].lower().replace("_", "-") for w in wanted if (m := re.match(r"[A-Za-z0-9._-]+", w))}
    assert names - locked == set(), "run `make lock`"


def test_readme_lists_every_runbook() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    table = readme.partition("\n## Runbooks\n")[2].partition("\n## ")[0]
    listed = dict(re.findall(r"^\| \[`([a-z0-9-]+)`\]\(runbooks/[a-z0-9_/]+/README\.md\) \| (.+?) \|", table, re.MULTILINE))
    titles = {slug: load_runbook(slug).title for slug in runbook_slugs()}
    rows = "\n".join(
        f"| [`{slug}`]({folder(slug).relative_to(ROOT)}/README.md) | {title} |" for slug, title in titles.items()
    )
    assert listed == titles, f"the table should read:\n{rows}"


@pytest.mark.parametrize("slug", runbook_slugs())
def test_a_runbook_names_the_kinds_of_action_that_its_plans_may_hold(slug: str) -> None:
    from flows.engine.actions import ACTIONS

    trees = [ast.parse(p.read_text(encoding="utf-8")) for p in folder(slug).rglob("*.py")]
    shared = ast.parse((ROOT / "runbooks/core/signals.py").read_text(encoding="utf-8")).body
    imports = [n for t in trees for n in ast.walk(t) if isinstance(n, ast.ImportFrom) and n.module == "runbooks.core.signals"]
    used = {a.name for n in imports for a in n.names}
    trees += [ast.Module([f], []) for f in shared if isinstance(f, ast.FunctionDef) and f.name in used]
    words = {n.value for t in trees for n in ast.walk(t) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    assert load_runbook(slug).actions == tuple(sorted(words & set(ACTIONS)))


def test_every_kind_of_action_stands_in_one_table_and_there_is_no_second() -> None:
    """runbooks/core/kinds.py says everything of a kind; beside it stand what it is told and what does it, and in runbook.yaml
    which runbook plans it."""
    from flows.engine.actions import ACTIONS
    from runbooks.core.args.table import ARGS
    from runbooks.core.kinds import KINDS

    done = {k for k in ACTIONS if not k.startswith("toy-")}
    rows = {k: row for k, row in KINDS.items() if not k.startswith("toy-")}
    assert set(rows) == done
    assert set(ARGS) == done
    assert done == {kind for slug in runbook_slugs() for kind in load_runbook(slug).actions}
    assert [k for k, row in rows.items() if not (row.changes and row.proven and row.undone)] == []
    assert _tables_of(done) == {"runbooks/core/kinds.py", "runbooks/core/args/table.py", "flows/engine/actions.py"}


def _tables_of(kinds: set[str]) -> set[str]:
    """Files with a dict, tuple, set or list that names several of these."""
    found = set()
    for path in (p for room in ROOMS for p in sources(room)):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            parts = node.keys if isinstance(node, ast.Dict) else getattr(node, "elts", [])
            if sum(isinstance(p, ast.Constant) and p.value in kinds for p in parts) > 3:
                found.add(str(path.relative_to(ROOT)))
    return found


@pytest.mark.parametrize("slug", runbook_slugs())
def test_a_runbook_is_whole(slug: str) -> None:
    """Knowledge and judgment in its folder, its reading under the same name in tasks/: found there, it is a spec and a flow."""
    from deployments.register import load
    from flows.specs import SLUGS, entrypoint, load_spec

    place = folder_of(slug).replace(".", "/")
    assert slug in SLUGS
    assert load(entrypoint(slug)).name == slug
    assert load_spec(slug).slug == slug
    assert load_runbook(slug).slug == slug
    wanted = [f"runbooks/{place}/{part}" for part in ("__init__.py", "evidence.py", "diagnose.py", "runbook.yaml")]
    wanted += [f"tasks/{place}/read.py"]
    assert [w for w in wanted if not (ROOT / w).is_file()] == []


def test_what_is_special_is_of_a_runbook_that_there_is() -> None:
    from flows import runbooks
    from flows.specs import SLUGS, SPECIAL

    assert sorted(SLUGS) == sorted(runbook_slugs())
    assert set(SPECIAL) | set(runbooks.ROWS) <= set(runbook_slugs())
    flows = {name for name in vars(runbooks) if name.islower() and not name.startswith("_")}
    assert {name.replace("_", "-") for name in flows} <= set(runbook_slugs()), "a runbook of that name would have no flow"


def test_each_module_says_what_it_is_for() -> None:
    """In one sentence, with which its docstring begins."""
    paths = [p for room in (*ROOMS, "tests") for p in sources(room) if p.read_text(encoding="utf-8").strip()]
    assert len(paths) > 1000
    docs = {p: ast.get_docstring(ast.parse(p.read_text(encoding="utf-8"))) or "" for p in paths}
    first = {str(p.relative_to(ROOT)): doc.partition("\n\n")[0] for p, doc in docs.items()}
    assert {name: text for name, text in first.items() if len(text.split()) < 5 or "." not in text} == {}


FORMS = {  # modules of runbooks that look into text themselves, and why that judges no meaning
    "checkpoint/places.py": "a device's name in a kernel line",
    "container/alive.py": "command lines of processes, by the fleet file's own pattern",
    "container/keepalive.py": "the form of a `sleep` in a container's command",
    "memory/device.py": "command lines of processes, by the fleet file's own pattern",
    "ray/phases.py": "marks of progress, by patterns of the fleet file and of knowledge/ray_phases.yaml",
    "rendezvous/life.py": "the form of an id",
    "rendezvous/runs.py": "a run's id in the symptom",
    "spawning/capacity.py": "names of variables",
    "gpu/activity.py": "names of open files",
    "gpu/dead.py": "names of kernel functions and programs",
    "gpu/benign.py": "names of kernel functions, programs and units",
    "gpu/mates.py": "names of launchers, shells and cgroups",
    "gpu/spin.py": "names of launchers in command lines",
}


def _looks_into_text(path: Path) -> list[str]:
    """Regular expressions, and phrases that are looked for in a text."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = [f"{line}: imports re" for module, _, line in imports(path) if module == "re"]
    phrases = {t.id for n in tree.body if isinstance(n, ast.Assign) and _has_phrase(n.value)
               for t in n.targets if isinstance(t, ast.Name)}  # fmt: skip
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
            lowered = any(isinstance(n, ast.Attribute) and n.attr in ("lower", "casefold") for n in ast.walk(node))
            if _has_phrase(node.left) or (lowered and isinstance(node.left, ast.Constant)):
                found.append(f"{node.lineno}: looks for a phrase")
        if isinstance(node, ast.GeneratorExp | ast.ListComp) and _goes_through(node, phrases):
            found.append(f"{node.lineno}: goes through a list of phrases")
    return found


def _goes_through(node: ast.GeneratorExp | ast.ListComp, phrases: set[str]) -> bool:
    """Whether each of a list of phrases is looked for: `any(p in text for p in PHRASES)`."""
    names = {g.target.id for g in node.generators if isinstance(g.iter, ast.Name) and g.iter.id in phrases
             and isinstance(g.target, ast.Name)}  # fmt: skip
    compared = [n.left for n in ast.walk(node) if isinstance(n, ast.Compare) and isinstance(n.ops[0], ast.In)]
    return any(isinstance(left, ast.Name) and left.id in names for left in compared)


def _has_phrase(node: ast.AST) -> bool:
    """Whether it is, or is a tuple, list or set of, texts of several words."""
    parts = node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else [node]
    return any(isinstance(p, ast.Constant) and isinstance(p.value, str) and " " in p.value.strip() for p in parts)


def test_what_a_text_means_is_judged_by_the_causes_signatures_alone() -> None:
    """No runbook has words of its own for a cause: it asks runbooks/triage/text.py; forms are read in parsers/."""
    folders = [folder(slug) for slug in runbook_slugs()]
    looking = {
        str(path.relative_to(ROOT / "runbooks")): found
        for folder in folders
        for path in sorted(folder.glob("*.py"))
        if (found := _looks_into_text(path))
    }
    assert {name: found for name, found in looking.items() if name not in FORMS} == {}
    assert sorted(FORMS) == sorted(looking), "an exception that is needed no more"


def test_one_place_resolves_paths() -> None:
    """Two readings of one setting would be two folders: `~` and relative paths are resolved by tasks/installation.py alone."""
    found = [p for room in ("tasks", "flows") for p in sources(room) if p.parent.name != "probes"]
    said = {
        str(p.relative_to(ROOT))
        for p in found
        if re.search(r"\.expanduser\(\)|\.cwd\(\)|\.resolve\(\)", p.read_text("utf-8"))
    }
    assert said == {"tasks/installation.py"}


def test_one_place_says_why_a_reading_is_unknown() -> None:
    """`Unknown.why`: reason and detail put together elsewhere read differently from runbook to runbook."""
    own = re.compile(r"\{(?P<r>[\w.]+)\.reason(?:\.words)?\}[: ]+\{(?P=r)\.detail\b")
    said = [str(p.relative_to(ROOT)) for p in sources("runbooks") if own.search(p.read_text(encoding="utf-8"))]
    assert said == ["runbooks/core/reading.py"]


BESIDE_THE_TABLE = {  # and why that list is none of what follows from an outcome
    "flows/engine/carry_out.py": "the two ends of a plan of which no step was done",
    "tasks/report_store.py": "what a look alone can say that is an answer",
}


def test_what_follows_from_an_outcome_stands_in_one_table() -> None:
    """No second list: a dict, tuple, set or list of several outcomes outside of the table is one."""
    lists = set()
    for room in ROOMS:
        for path in sources(room):
            if path.name == "outcome.py":
                continue
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                parts = node.keys if isinstance(node, ast.Dict) else getattr(node, "elts", [])
                named = [p for p in parts if isinstance(p, ast.Attribute) and isinstance(p.value, ast.Name) and p.value.id == "Outcome"]
                if len(named) > 1:
                    lists.add(str(path.relative_to(ROOT)))
    assert lists == set(BESIDE_THE_TABLE)


def test_links_into_prefects_ui_are_made_in_one_place() -> None:
    """flows/ui_pages.py knows which path the server in use has; an address written elsewhere is dead on the next server."""
    pages = re.compile(r"\bruns/flow-run\b|\bruns/task-run\b|/artifacts/(key|artifact)\b|/deployments/deployment\b")
    written = {
        str(path.relative_to(ROOT))
        for room in ROOMS
        for path in (*sources(room), *(ROOT / room).rglob("*.j2"))
        if any(pages.search(text) for text in _texts(path))
    }
    assert written == {"flows/ui_pages.py"}


def _texts(path: Path) -> Iterator[str]:
    """What a program can put into an address: every text in it but its docstrings; of a template every line."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield from text.splitlines()
        return
    tree = ast.parse(text)
    said = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
    yield from (n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str) and id(n) not in said)
