"""One way to turn any text into a key that Prefect takes."""

import hashlib
import re

LONGEST = 60  # Prefect artifact keys and tags stay readable below this

LABEL = "label:"  # a target that stands for every node with that label: label:gpu=h100


def slug(*parts: str) -> str:
    """`[a-z0-9-]` key for `parts`. Names that differ give keys that differ (a short hash is added when text was lost)."""
    raw = "/".join(parts)
    plain = re.sub(r"[^a-z0-9]+", "-", raw.lower()).strip("-")
    if plain == "-".join(parts) and len(plain) <= LONGEST:
        return plain
    mark = hashlib.sha256(raw.encode()).hexdigest()[:8]
    return f"{plain[: LONGEST - 9].rstrip('-')}-{mark}".lstrip("-")
