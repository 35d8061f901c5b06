"""CONTRIBUTING's "Add a runbook" works as it stands on the page."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import runbooks
import tasks
from deployments.cli.run_offline import run_offline
from flows.spec import RunbookSpec
from runbooks.core.config import parse_yaml
from runbooks.core.fleet import LOCAL_FLEET
from runbooks.core.knowledge import Runbook
from runbooks.core.outcome import Outcome

PAGE = Path(__file__).parents[1] / "CONTRIBUTING.md"
BLOCK = re.compile(
    r"^`((?:runbooks|tasks)/disk/\S+)`\n\n```\w+\n(.*?)^```$", re.M | re.S
)


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The page's files, found by import as if they lay in the repository."""
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    for name, text in blocks:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (tmp_path / "runbooks/disk/__init__.py").touch()
    (tmp_path / "tasks/disk/__init__.py").touch()
    monkeypatch.setattr(runbooks, "__path__", [*runbooks.__path__, str(tmp_path / "runbooks")])
    monkeypatch.setattr(tasks, "__path__", [*tasks.__path__, str(tmp_path / "tasks")])
    yield tmp_path
    for name in [m for m in sys.modules if m.startswith(("runbooks.disk", "tasks.disk"))]:
        del sys.modules[name]


def test_the_runbook_on_the_page_judges_this_machine(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib import import_module

    evidence, judge, gather = (
        import_module(m)
        for m in ("runbooks.disk.evidence", "runbooks.disk.diagnose", "tasks.disk.read")
    )
    path = page / "runbooks/disk/runbook.yaml"
    book = parse_yaml(path.read_text(encoding="utf-8"), Runbook, str(path))
    monkeypatch.setattr("flows.engine.observe.load_runbook", lambda _slug: book)
    spec = RunbookSpec(
        slug=book.slug,
        evidence=evidence.Evidence,
        limits=judge.Limits,
        gather=gather.gather_disk_space,
        diagnose=judge.diagnose,
    )
    report = run_offline(spec, LOCAL_FLEET, "local", page / "reports")
    assert report.outcome in (Outcome.HEALTHY, Outcome.UNHEALTHY)
    assert report.evidence["disks"]["kind"] == "known"


def test_the_page_is_short() -> None:
    """About 60 lines of code besides the knowledge."""
    code = [text for name, text in BLOCK.findall(PAGE.read_text(encoding="utf-8")) if name.endswith(".py")]
    lines = [line for text in code for line in text.splitlines() if line.strip() and not line.strip().startswith('"""')]
    assert len(lines) <= 75
