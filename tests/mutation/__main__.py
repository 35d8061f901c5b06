"""Mutation testing of the modules that decide (see [tool.mutmut] in pyproject.toml): every survivor must be explained.

    python -m tests.mutation            # runs mutmut in a copy of the tree; prints what survived
    python -m tests.mutation --keep     # leaves the copy for `mutmut show`, and names it

Exit codes: 0 all mutants were killed or are explained, 1 a survivor is not (or an explanation is stale), 3 nothing was tried.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from runbooks.core.base import Frozen
from tests.support.yaml_file import read_yaml

HERE = Path(__file__).resolve().parent
REPO = HERE.parents[1]
COPIED = ("runbooks", "tasks", "flows", "deployments", "tests", "pyproject.toml", "README.md", "CHANGELOG.md", "CONTRIBUTING.md")
LEAST = 400  # fewer mutants than this: the configuration did not find the modules
MUTMUT = Path(sys.executable).parent / "mutmut"


class Mutant(Frozen):
    """A change that no test noticed, or the explanation of one."""

    function: str
    was: str
    becomes: str
    why: str = ""

    @property
    def same(self) -> tuple[str, str, str]:
        """What tells it from others: mutmut's numbers move with every edit."""
        return self.function, self.was, self.becomes


def main(argv: list[str] | None = None) -> int:
    """Copies, mutates, compares."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__.split("\n")[0])
    parser.add_argument("--keep", action="store_true", help="leave the copy for `mutmut show`")
    keep = parser.parse_args(argv).keep
    folder = Path(tempfile.mkdtemp(prefix="mutants-"))
    try:
        return _judge(folder)
    finally:
        if keep:
            print(f"kept: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


def _judge(folder: Path) -> int:
    for name in COPIED:
        source = REPO / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.log"))
        else:
            shutil.copy(source, folder / name)
    log = folder / "mutmut.log"
    with log.open("w") as out:
        ended = subprocess.run([MUTMUT, "run"], cwd=folder, stdout=out, stderr=subprocess.STDOUT, check=False).returncode
    found = _results(folder)
    if ended or len(found) < LEAST:
        print("\n".join(re.split(r"[\r\n]+", log.read_text())[-15:]))
        print(f"mutation: mutmut ended with {ended} after {len(found)} mutants (at least {LEAST} are expected)")
        return 3
    return _compare(len(found), [_mutant(folder, name) for name, status in found.items() if status != "killed"])


def _compare(tried: int, survived: list[Mutant]) -> int:
    known = [Mutant.model_validate(m) for m in read_yaml(HERE / "survivors.yaml") or []]
    explained = {k.same for k in known if k.why.strip()}
    new = [m for m in survived if m.same not in explained]
    stale = [k for k in known if k.same not in {m.same for m in survived}]
    for m in new:
        print(f"survived, not explained: {m.function}\n  - {m.was}\n  + {m.becomes}")
    for k in stale:
        print(f"explained, but killed or gone: {k.function}\n  - {k.was}\n  + {k.becomes}")
    killed = tried - len(survived)
    print(f"mutation: {tried} mutants, {killed} killed, {len(survived) - len(new)} explained, {len(new)} not explained")
    return 1 if new or stale else 0


def _results(folder: Path) -> dict[str, str]:
    """Each mutant and what became of it."""
    said = subprocess.run([MUTMUT, "results", "--all", "true"], cwd=folder, capture_output=True, text=True, check=False).stdout
    return dict(re.findall(r"^\s*(\S+__mutmut_\d+): (.+?)\s*$", said, re.M))


def _mutant(folder: Path, name: str) -> Mutant:
    diff = subprocess.run([MUTMUT, "show", name], cwd=folder, capture_output=True, text=True, check=False).stdout
    lines = [line for line in diff.splitlines() if not line.startswith(("---", "+++"))]
    was, becomes = (" ".join(x[1:].strip() for x in lines if x.startswith(sign)) for sign in "-+")
    return Mutant(function=re.sub(r"__mutmut_\d+$", "", name), was=was, becomes=becomes)


if __name__ == "__main__":
    raise SystemExit(main())
