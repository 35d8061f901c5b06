"""Says what a GPU's model name tells of its memory."""

import re

_INTEGRATED = re.compile(r"\b(?:GB10|Orin|Thor|Xavier|Tegra|Jetson)\b")


def is_integrated(name: str) -> bool:
    """Whether a model of that name has no memory of its own and uses the machine's (DGX Spark, Jetson)."""
    return bool(_INTEGRATED.search(name))
