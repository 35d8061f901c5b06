"""An error that quotes what was read leaves no secret in Prefect's database, the log or the report."""

import ast
import logging
import os
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from flows.engine.ends import RunFailed, clean_end
from runbooks.core.error_text import error_text
from tasks.clean_log import clean_process, clean_traceback
from tests.support.engine_rig import REPO, Rig

SECRET = "hf_" + "aQ7" * 12
TEXT = f"Bearer {SECRET} {SECRET}"
PIECE = SECRET[3:9]  # a quotation cut in the middle keeps an end


def decorated() -> list[tuple[str, list[str]]]:
    """Every function that Prefect runs for us, with its decorators from Prefect's on, outermost first."""
    found = []
    for path in sorted(p for top in ("flows", "tasks") for p in (REPO / top).rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                names = [ast.unparse(d).partition("(")[0] for d in node.decorator_list]
                if mine := {"task", "flow"} & set(names):
                    found.append((f"{path.name}:{node.name}", names[names.index(mine.pop()) :]))
            elif isinstance(node, ast.Call) and ast.unparse(node.func) == "Flow":
                fn = next(ast.unparse(k.value) for k in node.keywords if k.arg == "fn")
                found.append((f"{path.name}:Flow", ["Flow", fn.partition("(")[0]]))
    return found


def test_whatever_prefect_runs_ends_clean() -> None:
    found = decorated()
    assert len(found) >= 9
    assert [name for name, names in found if names[1:] != ["clean_end"]] == ["task_run.py:shown"], "keeps an error with its caller"


def test_each_service_cleans_its_log() -> None:
    """Where a process of ours sets up its log, it cleans it first."""
    for path in (REPO / "deployments").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert text.count("logging.basicConfig(") == text.count("clean_process()\n    logging.basicConfig("), path


def test_what_is_raised_hangs_on_nothing() -> None:
    @clean_end
    def read() -> None:
        try:
            raise KeyError(TEXT)
        except KeyError as e:
            e.add_note(TEXT)
            raise ValueError(TEXT) from e

    with pytest.raises(RunFailed) as caught:
        read()
    e = caught.value
    assert PIECE not in str(e)
    assert str(e).startswith("ValueError: Bearer <secret:")
    assert (e.__cause__, e.__context__, getattr(e, "__notes__", [])) == (None, None, [])


@pytest.mark.parametrize("how", ["pydantic", "group", "chain"])
def test_an_error_in_any_shape_says_what_failed_and_no_secret(how: str, caplog: pytest.LogCaptureFixture) -> None:
    from tests.support.toy import _raise

    clean_process()
    with pytest.raises((ValueError, RuntimeError, ExceptionGroup)) as caught:
        _raise(how, TEXT)
    assert PIECE in "".join(map(str, [caught.value, *getattr(caught.value, "exceptions", ())]))  # it was there
    logging.getLogger("x").error("it failed: %s %s", TEXT, 5, exc_info=caught.value)
    said = [clean_traceback(caught.value), caplog.text, logging.Formatter().format(caplog.records[-1])]
    assert all("toy.py" in s and "Error" in s for s in said)
    assert [s for s in said if PIECE in s] == []
    assert " 5" in caplog.records[-1].getMessage()
    assert "sick: " in error_text(caught.value) or how != "pydantic"  # which field it was


def database(home: Path) -> bytes:
    """Everything in the server's database, as text of every row and as raw bytes."""
    (file,) = (home / "state").rglob("*.db")
    with sqlite3.connect(f"file:{file}?mode=ro", uri=True) as db:
        rows = "\n".join(db.iterdump())
    return rows.encode() + b"".join(p.read_bytes() for p in file.parent.glob(f"{file.name}*"))


@pytest.mark.parametrize("how", ["pydantic"])  # a chain of errors: tests/notify/test_secret_scan.py
def test_no_secret_of_an_error_is_in_prefects_database(rig: Rig, how: str) -> None:
    """As a user runs it: a process of its own, whose log goes to the server."""
    w = rig.world(raises=how, raised=TEXT)
    command = ["run", "zombie-gpu", w.name, "--fleet", str(w.fleet), "--out", str(w.out)]
    done = subprocess.run(
        [sys.executable, "-m", "deployments.cli.main", *command],
        env=os.environ | {"PYTHONPATH": f"{REPO / 'tests/faults/inject'}:{REPO}", "PREFECT_API_URL": rig.state.api},
        cwd=REPO,
        capture_output=True,
        text=True,
        timeout=120,
    )
    (report,) = w.reports()
    assert report["headline"].startswith("the run itself failed: ")
    assert "ValidationError" in report["headline"]
    deadline = time.monotonic() + 20
    wanted = (f"toy world · {w.name}".encode(), b"toy.py", b"prefect.task-run.Failed")
    while not all(x in (kept := database(rig.home)) for x in wanted):  # events and log lines come a moment later
        assert time.monotonic() < deadline, [x for x in wanted if x not in kept]
        time.sleep(0.3)
    everything = [kept.decode(errors="replace"), done.stdout, done.stderr, str(w.reports())]
    everything += [p.read_text() for p in w.out.rglob("*") if p.is_file()]
    assert [i for i, text in enumerate(everything) if PIECE in text] == []
