"""The form of an id that may stand in a path or an object's key. Pure."""

import re

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def is_plain_id(id: str) -> bool:
    """Whether it has no blank, quote, slash or `..`."""
    return bool(_PLAIN.fullmatch(id)) and ".." not in id
