"""A person sees every time in one form: `2026-03-02 02:14:05 UTC`. One function makes it, for reports, pages, messages and commands."""

import ast
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from runbooks.core.render import render
from runbooks.core.render_nightly import render_nightly
from runbooks.core.times import read_time, utc, utc_first, utc_of
from runbooks.core.waiting import waits_words
from tests.core.nights import TONIGHT
from tests.core.test_render import KNOWLEDGE, REPORTS

ROOT = Path(__file__).parents[2]
TIME = r"(?:\d{4}-)?(?:\d\d-\d\d[ T])?\b\d?\d:\d\d(?::\d\d)?(?:\.\d+)?(?:Z|[+-]\d\d:\d\d| UTC)?(?!\d|:\d)"
SHOWN = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC"
STAMPS = re.compile(r"%Y%m%d(T%H%M%SZ?|%H%M%S)?\Z")  # in names of files, runs and incidents
OWN = ("runbooks/core/times.py", "deployments/lab/")  # the lab speaks as the programs that it stands for


@pytest.mark.parametrize(
    "at",
    [
        datetime(2026, 3, 2, 2, 14, 5, 999_999, tzinfo=UTC),
        datetime(2026, 3, 2, 3, 14, 5, tzinfo=timezone(timedelta(hours=1))),
        datetime(2026, 3, 2, 2, 14, 5),  # noqa: DTZ001 - stored by something that gave no zone
        datetime(2026, 3, 2, 2, 14, 5, tzinfo=UTC).timestamp(),
    ],
)
def test_the_form(at: datetime | float) -> None:
    assert utc(at) == "2026-03-02 02:14:05 UTC"


def test_a_stored_text() -> None:
    assert utc_of("2026-03-02T03:14:05+01:00") == "2026-03-02 02:14:05 UTC"
    assert utc_of("noon") == "noon"
    assert utc_first("2026-03-02T03:14:05+01:00 by  ana") == "2026-03-02 02:14:05 UTC by  ana"
    assert [utc_first(text) for text in ("noon by ana", "no reason given", "")] == ["noon by ana", "no reason given", ""]
    assert read_time("noon") is None


def test_reports_pages_and_questions_show_no_other() -> None:
    asked = datetime(2026, 3, 2, 2, 14, 5, 999, tzinfo=UTC)
    texts = [render(report, KNOWLEDGE).partition("## Raw readings")[0] for report in REPORTS.values()]
    texts += [render_nightly(TONIGHT), waits_words(asked, asked + timedelta(hours=4))]
    ours = [re.sub(r"1 GPU idle since 02:10 UTC|127\.0\.0\.1:\d+", "", text) for text in texts]  # of the made-up judgment
    found = [t for text in ours for t in re.findall(TIME, text)]
    assert len(found) > 10
    assert [t for t in found if not re.fullmatch(SHOWN, t)] == []


def formats(tree: ast.AST) -> Iterator[str]:
    """What times are formatted by: the text behind the colon in an f-string, the argument of strftime."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FormattedValue) and isinstance(node.format_spec, ast.JoinedStr):
            yield "".join(str(part.value) for part in node.format_spec.values if isinstance(part, ast.Constant))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "strftime":
            yield from (str(arg.value) for arg in node.args if isinstance(arg, ast.Constant))


def test_nobody_else_formats_a_time() -> None:
    files = [p for room in ("runbooks", "flows", "deployments", "tasks") for p in sorted((ROOT / room).rglob("*.py"))]
    names = {str(path.relative_to(ROOT)): path for path in files}
    own = [
        f"{name}: {text}"
        for name, path in names.items()
        if not name.startswith(OWN)
        for text in formats(ast.parse(path.read_text(encoding="utf-8")))
        if "%" in text and re.search("%[YmdHMSb]", text) and not STAMPS.match(text)
    ]
    assert own == []
    assert [t for t in formats(ast.parse(names["runbooks/core/times.py"].read_text(encoding="utf-8"))) if "%" in t] == ["%Y-%m-%d %H:%M:%S"]
