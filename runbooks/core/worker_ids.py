"""Worker ids in commands and paths: they come from a table that others write. Pure."""

import re

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:@+=-]{0,127}")


def is_plain(worker: str) -> bool:
    """Whether an id may stand in a path, an object's key or an argument: no blank, quote, slash or `..`."""
    return bool(_PLAIN.fullmatch(worker)) and ".." not in worker


def in_shell(worker: str) -> str:
    """The id for a command by hand; a word in its place where it could be more than an id."""
    return worker if is_plain(worker) else "WORKER_ID"


def in_sql(text: str) -> str:
    """A literal for a statement by hand: quotes doubled, control characters gone."""
    return "'" + "".join(c for c in text if c.isprintable()).replace("'", "''") + "'"
