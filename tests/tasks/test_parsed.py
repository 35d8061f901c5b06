"""Python text is parsed in one thread at a time."""

import ast
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tasks.parsed import module_of
from tasks.remote.program import IMPORT

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "tasks/remote/probes/proc.py").read_text(encoding="utf-8")


def test_many_threads_may_parse() -> None:
    whole = ast.dump(ast.parse(TEXT))
    with ThreadPoolExecutor(8) as pool:
        modules = [pool.submit(module_of, TEXT) for _ in range(100)]
    assert all(ast.dump(m.result()) == whole for m in modules)


def test_what_a_probe_imports_is_found_without_parsing() -> None:
    for path in (ROOT / "tasks").glob("*/probes/*.py"):
        text = path.read_text(encoding="utf-8")
        named = {n.module or "" for n in ast.walk(ast.parse(text)) if isinstance(n, ast.ImportFrom)}
        assert set(IMPORT.findall(text)) == {m for m in named if m.startswith(("tasks.", "runbooks."))}, path
