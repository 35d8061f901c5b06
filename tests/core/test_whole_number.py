"""A whole number in a text: ASCII digits and not too many; int() raises for some that str.isdigit takes."""

from pathlib import Path

import pytest

from runbooks.core.whole_number import whole_number

ROOT = Path(__file__).parents[2]
BYTES = "runbooks/checkpoint/parsers/torch.py"  # digits of bytes are ASCII
ROOMS = ("runbooks", "tasks", "flows", "deployments")


@pytest.mark.parametrize(("value", "number"), [("22", 22), (" 7\n", 7), (0, 0), (2222, 2222), ("9" * 18, 10**18 - 1)])
def test_numbers(value: object, number: int) -> None:
    assert whole_number(value) == number


@pytest.mark.parametrize(
    "value", ["", "²", "٣", "-1", "+1", "1_0", "1.0", "x", "9" * 19, "9" * 5000, 10**18, -1, True, None, 1.0, ["1"], {}, b"1"]
)
def test_what_is_none(value: object) -> None:
    assert whole_number(value) is None


def test_no_text_is_asked_for_digits_that_int_refuses() -> None:
    """`isdecimal` holds for what int() takes; `isdigit` holds for `²` too. Probes read the kernel's own files."""
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for room in ROOMS
        for path in sorted((ROOT / room).rglob("*.py"))
        if "probes" not in path.parts and str(path.relative_to(ROOT)) != BYTES
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if ".isdigit()" in line and "isascii" not in line and "any(" not in line
    ]
    assert found == []
