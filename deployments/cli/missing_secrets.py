"""Refuses a fleet or notifications file that names a Prefect Secret block which the server does not have, with the nearest that it has."""

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from deployments.errors import CommandError

if TYPE_CHECKING:
    from deployments.cli.needed_secrets import NeededSecret
    from runbooks.core.fleet import Fleet
    from runbooks.notify.config import Notifications

MOST = 8  # names in a line
_WARNED: set[str] = set()


class Missing(NamedTuple):
    """A credential of a file, and what is wrong with its name."""

    need: "NeededSecret"
    why: str

    @property
    def says(self) -> str:
        """With the field."""
        return f"{self.need.field}: {self.why}"


class FoundSecrets(NamedTuple):
    """What the server's list of Secret blocks says of the names in a file."""

    missing: tuple[Missing, ...] = ()
    unasked: str = ""  # why there is no list


def check_secrets(fleet: "Fleet", path: str | None) -> None:
    """Before a command begins, as every other name of its fleet file is checked. Raises ConfigError with line and field.

    Where no server answers, that is said on stderr, once a process. A name that may be a variable is only told: workers may have it."""
    from deployments.cli.needed_secrets import needs
    from flows.config import fleet_file
    from runbooks.core.fleet import Fleet

    _check(needs(fleet), fleet_file(path), Fleet)


def check_channels(config: "Notifications", path: str | None) -> None:
    """The same for the channels of notifications.yaml."""
    from deployments.cli.needed_secrets import needs_of_channels
    from flows.notify.notify_file import notifications_file
    from runbooks.notify.config import Notifications

    _check(needs_of_channels(config), path or notifications_file(), Notifications)


def _check(wanted: Sequence["NeededSecret"], path: str | None, model: "type[Fleet | Notifications]") -> None:
    from flows.config import read_text
    from runbooks.core.config import ConfigError, parse_yaml

    found = find_missing(wanted)
    _warn(wanted, found._replace(missing=tuple(m for m in found.missing if not m.need.block)))
    wrong = [m for m in found.missing if m.need.block]
    if wrong and path:
        parse_yaml(read_text(path), model, path, lambda _: [(m.need.at, m.why) for m in wrong])  # names the line, and raises
        raise ConfigError("\n".join(m.says for m in wrong))  # the file is another one by now


def warn_missing(fleet: "Fleet") -> None:
    """The same on stderr for a command by which the missing block can be stored: it goes on."""
    from deployments.cli.needed_secrets import needs

    wanted = needs(fleet)
    _warn(wanted, find_missing(wanted))


def find_missing(wanted: Sequence["NeededSecret"]) -> FoundSecrets:
    """Each that no block is there for. Starts nothing, reads no value.

    What may also be a variable is told only where a block of almost its name belongs to nobody: it may be set for workers alone.
    """
    wanted = [n for n in wanted if not n.variable]
    if not wanted:
        return FoundSecrets()
    blocks = _blocks()
    if isinstance(blocks, str):
        return FoundSecrets(unasked=blocks)
    spare = [b for b in blocks if b not in {n.in_block for n in wanted}]
    told = (Missing(n, _why_missing(n, blocks, spare)) for n in wanted if n.in_block not in blocks)
    return FoundSecrets(tuple(missing for missing in told if missing.why))


def _warn(wanted: Sequence["NeededSecret"], found: FoundSecrets) -> None:
    lines = [f"warning: {missing.says}" for missing in found.missing]
    only_blocks = list(dict.fromkeys(n.in_block for n in wanted if n.block))
    if found.unasked and only_blocks:
        more = f" and {len(only_blocks) - MOST} more" if len(only_blocks) > MOST else ""
        lines.append(f"not checked: whether there are Prefect Secret blocks {', '.join(only_blocks[:MOST])}{more}: {found.unasked}")
    for line in lines:
        if line not in _WARNED:
            print(line, file=sys.stderr, flush=True)
        _WARNED.add(line)


def _blocks() -> tuple[str, ...] | str:
    """The names that there are; in words why they cannot be listed."""
    from deployments.contact import in_words
    from deployments.serving import use_answering_server
    from tasks.credentials import secret_blocks

    try:
        use_answering_server()
    except CommandError as e:
        return str(e).partition(". What to do: ")[0]
    try:
        return secret_blocks()
    except Exception as e:  # a server that goes away meanwhile, or refuses: the client's errors have no common base
        return f"the Prefect server {in_words(e) or f'does not list them ({type(e).__name__})'}"


def _why_missing(need: "NeededSecret", blocks: tuple[str, ...], spare: list[str]) -> str:
    from runbooks.core.names import nearest, there_are

    if need.block:
        store = f"correct it, or store it: gpu-runbooks secrets --set {need.name}"
        return f"no Prefect Secret block {need.in_block!r}; {there_are(need.in_block, blocks, MOST)}; {store}"
    near = "" if os.environ.get(need.name, "").strip() else nearest(need.in_block, spare)
    return near and f"no variable {need.name} and no Prefect Secret block {need.in_block!r}; nearest: {near}"
