"""`gpu-runbooks new-runbook NAME`: writes a small runbook that works into this checkout, and says what is left to do in it."""

import argparse
import json
import keyword
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from deployments.errors import CommandError

NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
LONGEST, MOST_WORDS = 40, 5
SKELETON = Path(__file__).with_name("skeleton")
FILES = {  # template -> file; an empty one makes a package
    "runbook.yaml.j2": "runbooks/{}/runbook.yaml",
    "evidence.py.j2": "runbooks/{}/evidence.py",
    "diagnose.py.j2": "runbooks/{}/diagnose.py",
    "read.py.j2": "tasks/{}/read.py",
    "situations.yaml.j2": "tests/runbooks/{}/situations.yaml",
}
PACKAGES = ("runbooks/{}/__init__.py", "tasks/{}/__init__.py")
MADE = ("runbooks/{}/README.md", "README.md", "deployments/prefect.yaml")
CHECKOUT = ("CONTRIBUTING.md", "deployments/runbook_pages.py", "runbooks/core/knowledge.py", "tests/runbooks/every.py")
TODO = "TODO: "


def cmd_new_runbook(ns: argparse.Namespace) -> int:
    """Writes the files, or nothing. Raises CommandError."""
    root = checkout(Path.cwd())
    package = checked(ns.name, root)
    texts = skeleton(ns.name)
    _write(root, texts, package)
    made = [name.format(package) for name in MADE]
    lines = [(f"{name}:{n}", line) for name, text in texts.items() for n, line in enumerate(text.splitlines(), 1)]
    todo = [f"{place}: {line.partition(TODO)[2]}" for place, line in lines if TODO in line]
    facts = {"runbook": ns.name, "checkout": str(root), "files": list(texts), "made": made, "todo": todo, "next": following(ns.name)}
    print(json.dumps(facts, indent=1) if ns.json else "\n".join(_lines(root, facts)))
    return 0


def checkout(start: Path) -> Path:
    """The checkout of gpu-runbooks that this folder lies in."""
    for folder in (start, *start.parents):
        if all((folder / part).is_file() for part in CHECKOUT):
            return folder
    raise CommandError(f"{start} is not in a checkout of gpu-runbooks. A new runbook is source code: clone the repository and start there")


def checked(name: str, root: Path) -> str:
    """The package of a new runbook of that name. Raises CommandError where it cannot be one, or is taken."""
    import yaml

    from flows.specs import SWEEPS
    from runbooks.core.knowledge import folders_in

    package = name.replace("-", "_")
    fits = NAME.fullmatch(name) and len(name) <= LONGEST and name.count("-") < MOST_WORDS
    if not fits or keyword.iskeyword(package) or yaml.safe_load(name) != name:
        raise CommandError(
            f"{name[:80]!r} cannot be the name of a runbook. A name like read-only-mounts has one to {MOST_WORDS} words of a-z and 0-9, "
            f"with hyphens between them. It starts with a letter, has at most {LONGEST} characters, and is no word of Python or YAML"
        )
    if folder := folders_in(root / "runbooks").get(name):
        raise CommandError(f"the runbook {name} is there already: runbooks/{folder.replace('.', '/')}")
    if name in (*SWEEPS, "act"):  # the last is the flow of flows/engine/action_run.py
        raise CommandError(f"{name} is the name of a flow that is no runbook; choose another")
    rooms = [f"{room}/{package}{end}" for room in ("runbooks", "tasks", "tests/runbooks") for end in ("", ".py")]
    if taken := [place for place in rooms if os.path.lexists(root / place)]:
        raise CommandError(f"{', '.join(taken)} is there already, and nothing is overwritten; choose another name")
    return package


def skeleton(name: str) -> dict[str, str]:
    """Path below the checkout -> text, of each file that a person then changes."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    env = Environment(  # noqa: S701 - not HTML: source code, and the name is of a-z, 0-9 and hyphens
        loader=FileSystemLoader(SKELETON), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    package = name.replace("-", "_")
    words = {"name": name, "package": package, "title": name.replace("-", " ").capitalize()}
    return {path.format(package): env.get_template(template).render(words) for template, path in FILES.items()}


def following(name: str) -> list[str]:
    """The commands that come next, to be given at the checkout's root."""
    return [
        f"gpu-runbooks run {name} local --no-server",
        "python -m pytest -q tests/runbooks/test_situations.py tests/test_structure.py tests/test_subjects.py",
        "python -m deployments.runbook_pages    # after each change of runbook.yaml",
    ]


def _write(root: Path, texts: dict[str, str], package: str) -> None:
    """All files and what is made from them; where that fails, none."""
    written: list[Path] = []
    pages = {path: path.read_bytes() for made in MADE if (path := root / made.format(package)).exists()}
    try:
        for name, text in ({p.format(package): "" for p in PACKAGES} | texts).items():
            path = root / name
            path.parent.mkdir(exist_ok=True)
            with path.open("x", encoding="utf-8") as out:
                written.append(path)
                out.write(text)
        _make_pages(root)
    except BaseException:
        _undo(root, [*written, *(root / made.format(package) for made in MADE if root / made.format(package) not in pages)], pages)
        raise


def _make_pages(root: Path) -> None:
    """In a process of its own, which sees the new folder."""
    command = [sys.executable, "-B", "-m", "deployments.runbook_pages"]
    done = subprocess.run(command, cwd=root, env=os.environ | {"PYTHONPATH": str(root)}, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CommandError(f"`python -m deployments.runbook_pages` failed, and nothing was written: {done.stderr.strip()[-500:]}")


def _undo(root: Path, written: list[Path], pages: dict[Path, bytes]) -> None:
    for path in written:
        path.unlink(missing_ok=True)
    for folder in {path.parent for path in written} - {root}:
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
    for path, text in pages.items():
        path.write_bytes(text)


def _lines(root: Path, facts: dict[str, Any]) -> Iterator[str]:
    heads = {
        "files": f"Wrote a runbook that works into {root}:", "made": "Made from these files:",
        "todo": "It judges something small. To do before others run it:", "next": "Next:",
    }  # fmt: skip
    for name, head in heads.items():
        yield head
        yield from (f"  {line}" for line in facts[name])
