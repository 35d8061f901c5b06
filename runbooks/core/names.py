"""One way to turn any text into a key that Prefect takes, and one way to offer names for a misspelt one."""

import difflib
import hashlib
import re
from collections.abc import Iterable

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


def nearest(word: str, known: Iterable[str]) -> str:
    """The name most like `word`; "" if none is."""
    names = list(known)
    near = difflib.get_close_matches(word.lower(), [n.lower() for n in names], n=1, cutoff=0.6)
    return next((n for n in names if near and n.lower() == near[0]), "")


def there_are(word: str, known: Iterable[str], most: int = 40) -> str:
    """For an error about an unknown name: the names that there are (at most `most`) and the nearest to `word`."""
    names = list(dict.fromkeys(known))
    closest = nearest(word, names)
    shown = ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
    return f"there are: {shown or 'none'}" + (f"; nearest: {closest}" if closest else "")
