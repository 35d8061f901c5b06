"""A whole number as another tool's file writes it."""

MOST_DIGITS = 18  # int() refuses a text of thousands, and str() such a number


def whole_number(value: object) -> int | None:
    """The number that `value` is or says in ASCII digits, 18 of them at most; None for anything else."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value if 0 <= value < 10**MOST_DIGITS else None
    text = value.strip() if isinstance(value, str) else ""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS else None
