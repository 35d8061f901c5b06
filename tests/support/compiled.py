"""Python files are compiled once for a run, not by each of its hundreds of processes; test files by all workers together.

A process that may keep no compiled files (PYTHONDONTWRITEBYTECODE) compiles the whole product whenever it starts.
"""

import gc
import os
import sys
from pathlib import Path

import pytest
from _pytest.assertion import rewrite

from tests.support.sharing_out import for_another_run


def pytest_configure(config: pytest.Config) -> None:
    """Each worker rewrites its share of the test files; by the time that it reads them, others have done the rest."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    given = getattr(config, "workerinput", {})
    if not given:
        return
    number, count = int(given["workerid"].removeprefix("gw")), int(given["workercount"])
    tests, marks = config.rootpath / "tests", str(config.option.markexpr)
    if [config.rootpath / a for a in config.args] != [tests]:
        return
    files = [p for p in sorted(tests.rglob("test_*.py")) if not for_another_run(str(p.relative_to(config.rootpath)), marks)]
    for path in files[number::count]:
        folder = rewrite.get_cache_dir(path)
        pyc = folder / (path.name[:-3] + rewrite.PYC_TAIL)
        if rewrite.try_makedirs(folder) and rewrite._read_pyc(path, pyc) is None:
            digest, code = rewrite._rewrite_test(path, config)
            rewrite._write_pyc(config.stash[rewrite.assertstate_key], code, digest, pyc)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A file whose tests another command runs is not read: its import costs each worker."""
    if collection_path.suffix != ".py":
        return None
    return for_another_run(str(collection_path.relative_to(config.rootpath)), str(config.option.markexpr)) or None


def pytest_collection_finish() -> None:
    """The thousands of tests and their modules stay: no collection of garbage needs to look at them again."""
    gc.collect()
    gc.freeze()
