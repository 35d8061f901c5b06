"""The documents: short where they are read first, made where they can be made, and every link leads somewhere."""

import re
from pathlib import Path

import pytest

from deployments.runbook_pages import CONTRIBUTING, folder, page, with_refusals
from runbooks.core.knowledge import runbook_slugs

ROOT = Path(__file__).parents[1]
PAGES = sorted(p for pattern in ("*.md", "*/*.md", "runbooks/*/*.md") for p in ROOT.glob(pattern) if ".venv" not in p.parts)
LINK = re.compile(r"(?<!`)\]\(([^)\s]+)\)")


def test_the_readme_is_read_at_3_am() -> None:
    assert len((ROOT / "README.md").read_bytes()) <= 8_000


@pytest.mark.parametrize("slug", runbook_slugs())
def test_a_runbooks_page_is_what_runbook_yaml_makes(slug: str) -> None:
    found = (folder(slug) / "README.md").read_text(encoding="utf-8")
    assert found == page(slug), "run: python -m deployments.runbook_pages"


def test_the_table_of_refusals_is_what_the_codes_make() -> None:
    text = CONTRIBUTING.read_text(encoding="utf-8")
    assert text == with_refusals(text), "run: python -m deployments.runbook_pages"


@pytest.mark.parametrize("path", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_link_leads_somewhere(path: Path) -> None:
    text = re.sub(r"^(`{3,})[^\n]*\n.*?^\1$", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    links = [link for link in LINK.findall(text) if not link.startswith(("http://", "https://", "#", "mailto:"))]
    assert [link for link in links if not (path.parent / link.partition("#")[0]).exists()] == []


def test_a_test_that_a_page_names_is_there() -> None:
    for path in PAGES:
        for name in re.findall(r"`(tests/[\w/]+\.(?:py|yaml|json|md))`", path.read_text(encoding="utf-8")):
            assert (ROOT / name).exists(), f"{path.name}: {name}"
