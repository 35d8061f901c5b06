"""Names each Prefect Secret block that the fleet file names and the server does not have, with the nearest one that it has."""

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from deployments.errors import CommandError

if TYPE_CHECKING:
    from deployments.cli.needed_secrets import NeededSecret
    from runbooks.core.fleet import Fleet

MOST = 8  # names in a line
_TOLD: set[str] = set()


class Missing(NamedTuple):
    """A credential of the fleet file, and what is wrong with its name."""

    need: "NeededSecret"
    says: str


def tell_missing(fleet: "Fleet") -> None:
    """On stderr, each once a process, before the command begins. It goes on: one node without its key hides no other."""
    for missing in missing_secrets(fleet):
        if missing.says not in _TOLD:
            print(f"warning: {missing.says}", file=sys.stderr, flush=True)
        _TOLD.add(missing.says)


def missing_secrets(fleet: "Fleet") -> tuple[Missing, ...]:
    """Each; () where the file names none or no server answers. Starts nothing, reads no value.

    What may also be a variable is told only where a block of almost its name belongs to nobody: it may be set for workers alone.
    """
    from deployments.cli.needed_secrets import needs

    wanted = [n for n in needs(fleet) if not n.variable]
    blocks = _blocks() if wanted else None
    if blocks is None:
        return ()
    spare = [b for b in blocks if b not in {n.in_block for n in wanted}]
    told = (Missing(n, _told(n, blocks, spare)) for n in wanted if n.in_block not in blocks)
    return tuple(missing for missing in told if missing.says)


def _blocks() -> tuple[str, ...] | None:
    """The names that there are; None where no server answers."""
    from deployments.serving import use_answering_server
    from tasks.credentials import secret_blocks

    with suppress(CommandError):
        use_answering_server()
        with suppress(Exception):  # a server that goes away meanwhile: the client's errors have no common base
            return secret_blocks()
    return None


def _told(need: "NeededSecret", blocks: tuple[str, ...], spare: list[str]) -> str:
    from runbooks.core.names import nearest, there_are

    if need.block:
        return f"{need.field}: no Prefect Secret block {need.in_block!r}; {there_are(need.in_block, blocks, MOST)}"
    near = "" if os.environ.get(need.name, "").strip() else nearest(need.in_block, spare)
    return near and f"{need.field}: no variable {need.name} and no Prefect Secret block {need.in_block!r}; nearest: {near}"
