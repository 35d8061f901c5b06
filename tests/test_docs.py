"""The documents: short where they are read first, made where they can be made, and every link leads somewhere."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from deployments.runbook_pages import CONTRIBUTING, README, contributing, folder, page, readme
from runbooks.core.knowledge import runbook_slugs
from tests.support.prose import LONGEST, blocks, faults
from tests.support.shown import actions, forms, helps, messages, outcomes, refusals, templates

ROOT = Path(__file__).parents[1]
PAGES = sorted(p for pattern in ("*.md", "*/*.md", "runbooks/*/*.md") for p in ROOT.glob(pattern) if ".venv" not in p.parts)
PROSE = (  # pages that a person wrote
    "*.md", "deployments/*.md", "deployments/*/*.md", "runbooks/*/guide.md", "runbooks/triage/README.md", "tests/RESULTS.md",
)  # fmt: skip
LINK = re.compile(r"(?<!`)\]\(([^)\s]+)\)")


def test_the_readme_is_read_at_3_am() -> None:
    assert len((ROOT / "README.md").read_bytes()) <= 8_000


@pytest.mark.parametrize("slug", runbook_slugs())
def test_a_runbooks_page_is_what_runbook_yaml_makes(slug: str) -> None:
    found = (folder(slug) / "README.md").read_text(encoding="utf-8")
    assert found == page(slug), "run: python -m deployments.runbook_pages"


@pytest.mark.parametrize(("path", "made"), [(CONTRIBUTING, contributing), (README, readme)], ids=["CONTRIBUTING.md", "README.md"])
def test_what_is_made_in_a_page_is_as_it_is_made_now(path: Path, made: Callable[[str], str]) -> None:
    text = path.read_text(encoding="utf-8")
    assert text == made(text), "run: python -m deployments.runbook_pages"


@pytest.mark.parametrize("path", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_link_leads_somewhere(path: Path) -> None:
    text = re.sub(r"^(`{3,})[^\n]*\n.*?^\1$", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    links = [link for link in LINK.findall(text) if not link.startswith(("http://", "https://", "#", "mailto:"))]
    assert [link for link in links if not (path.parent / link.partition("#")[0]).exists()] == []


def test_a_test_that_a_page_names_is_there() -> None:
    for path in PAGES:
        text = re.sub(r"<!-- new runbook -->.*?<!-- end of new runbook -->", "", path.read_text(encoding="utf-8"), flags=re.S)
        for name in re.findall(r"`(tests/[\w/]+\.(?:py|yaml|json|md))`", text):
            assert (ROOT / name).exists(), f"{path.name}: {name}"


def test_every_promise_names_its_test() -> None:
    """By its whole path: a file that was renamed is missed then."""
    rows = [line for line in (ROOT / "SECURITY.md").read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    promises = [row.split(" | ") for row in rows if row != "| promise | test |"]
    assert len(promises) > 20
    for _promise, tests in promises:
        assert re.fullmatch(r"`tests/[\w/]+\.py`(, `tests/[\w/]+\.py`)* \|", tests), tests


def written() -> list[Path]:
    return sorted(p for place in PROSE for p in ROOT.glob(place))


@pytest.mark.parametrize("path", written(), ids=lambda p: str(p.relative_to(ROOT)))
def test_a_page_is_read_once(path: Path) -> None:
    """Its sentences are short, and its words are those of any on-call engineer."""
    assert faults(blocks(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize("shown", [helps, refusals, forms, actions, outcomes, templates, messages])
def test_what_the_program_says_of_itself_is_read_once(shown: Callable[[], list[str]]) -> None:
    texts = shown()
    assert len(texts) > 20
    assert faults(texts) == []


def test_what_makes_a_page_hard_to_read_is_seen() -> None:
    long = " ".join(["word"] * (LONGEST + 1)) + "."
    page = f"# Title\n\nShort. {long} Short `a b c` again.\n\n- It is put\n  right.\n\n| a | it was told |\n|---|---|\n\n```\nbegun\n```\n"
    assert len(faults(blocks(page))) == 3


def test_a_change_is_one_line() -> None:
    lines = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").partition("\n## ")[2].splitlines()[1:]
    assert [line for line in lines if line and not line.startswith(("- ", "### ", "## "))] == []
    assert [line for line in lines if len(line) > 200] == []
