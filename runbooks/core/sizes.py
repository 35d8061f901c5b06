"""Sizes as a person reads them."""

_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB")


def size(count: float) -> str:
    """Bytes in the unit that keeps it short: "512 bytes", "12.5 MiB", "79.2 GiB". Whole numbers without a digit behind the point."""
    if abs(count) < 1024:
        return f"{count:.0f} byte" + ("" if abs(count) == 1 else "s")
    for unit in _UNITS:
        count /= 1024
        if abs(count) < 1024 or unit == _UNITS[-1]:
            break
    return f"{count:.0f} {unit}" if round(count, 1) == round(count) else f"{count:.1f} {unit}"
