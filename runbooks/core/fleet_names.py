"""The name of a fleet that nobody named."""

UNNAMED = "default"  # as all of them were called before each had a name of its own


def unnamed(mark: str) -> str:
    """The name of a fleet that nobody named; `mark` tells it from others."""
    return f"{UNNAMED}-{mark}"


def names_of(fleet: str) -> tuple[str, ...]:
    """The fleet's name, and the one that its older records have."""
    return (fleet, UNNAMED) if fleet.startswith(unnamed("")) else (fleet,)
