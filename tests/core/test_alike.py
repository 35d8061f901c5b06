"""Many targets that fail alike: one judgment, which three ask."""

import ast
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from runbooks.core.alike import many_alike

NOW = datetime(2026, 11, 29, 3, tzinfo=UTC)
ROOT = Path(__file__).parents[2]


def seen(*pairs: tuple[float, str]) -> list[tuple[datetime, str]]:
    """(seconds ago, target)."""
    return [(NOW - timedelta(seconds=ago), target) for ago, target in pairs]


@pytest.mark.parametrize(
    ("failures", "targets"),
    [
        (seen((0, "n3"), (10, "n1"), (300, "n2")), ("n1", "n2", "n3")),  # the window's own edge counts
        (seen((0, "n3"), (10, "n1"), (301, "n2")), ()),
        (seen((0, "n1"), (10, "n1"), (20, "n1"), (30, "n2")), ()),  # one target that fails often is one target
        ([], ()),
    ],
)
def test_targets_are_counted_within_the_window(failures: list[tuple[datetime, str]], targets: tuple[str, ...]) -> None:
    assert many_alike(failures, NOW, 300, 3) == targets


def test_nobody_else_compares_with_how_many_are_many() -> None:
    found = set()
    for path in (p for room in ("runbooks", "tasks", "flows", "deployments") for p in sorted((ROOT / room).rglob("*.py"))):
        for node in (n for n in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(n, ast.Compare)):
            numbers = [p for p in (node.left, *node.comparators) if isinstance(p, ast.Attribute) and p.attr in ("alike", "fold")]
            found |= {f"{path.relative_to(ROOT)}:{n.lineno}" for n in numbers}
    assert found == set()


def test_the_engine_the_gateway_and_the_notifications_ask_it() -> None:
    paths = [p for room in ("flows", "deployments") for p in sorted((ROOT / room).rglob("*.py"))]
    found = {str(p.relative_to(ROOT)) for p in paths if "many_alike(" in p.read_text(encoding="utf-8")}
    assert found == {"flows/engine/common_cause.py", "flows/notify/outbox.py", "deployments/gateway/service.py"}
