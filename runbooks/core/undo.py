"""How a step is undone: words and commands of the action table, with the facts of the step in their places. Pure.

The facts are the step's own arguments, its `owner`, what it `lost`, and what the action found when it ran (a backup's path,
a new id). A fact that nobody knows leaves its name in capitals in the words, and no command.
"""

import shlex
from collections.abc import Callable, Iterator, Mapping
from string import Formatter
from typing import Any

from runbooks.core.by_hand import signalled, while_booted

Facts = Mapping[str, Any]
Commands = Callable[[Facts], Iterator[str]]
NO_FACTS: Facts = {}


class _Words(dict[str, str]):
    def __missing__(self, name: str) -> str:
        return name.upper()


class _Command(Formatter):
    """Each value is one word of a shell, or several where it is a list."""

    def format_field(self, value: Any, format_spec: str) -> str:
        if format_spec:
            return format(value, format_spec)
        return shlex.join(map(str, value)) if isinstance(value, list | tuple) else shlex.quote(str(value))


def in_words(text: str, facts: Facts = NO_FACTS) -> str:
    """`text` with each `{fact}` in its place; without facts as the tables show it."""
    return text.format_map(_Words({name: str(value) for name, value in _known(facts).items()}))


def _known(facts: Facts) -> Facts:
    return {name: value for name, value in facts.items() if value not in (None, "")}


def nothing_to_type(_facts: Facts) -> Iterator[str]:
    """The words say all."""
    yield from ()


def typed(*lines: str) -> Commands:
    """Commands with their `{facts}`: all of them, or none where a fact is not known."""

    def commands(facts: Facts) -> Iterator[str]:
        try:
            yield from [_Command().vformat(line, (), _known(facts)) for line in lines]
        except KeyError:
            return

    return commands


def stopped_again(facts: Facts) -> Iterator[str]:
    """For continued processes: each, where it is still the one that was judged."""
    for one in facts["processes"]:
        yield while_booted(str(facts["boot_id"]), signalled(one["pid"], one["start_ticks"], "STOP"))


def job_ended(facts: Facts) -> Iterator[str]:
    """For a job that was started, where the process that was started is its own."""
    if "pid" in facts:
        yield while_booted(str(facts["boot_id"]), signalled(facts["pid"], facts["start_ticks"], "TERM"))


def unmounted(facts: Facts) -> Iterator[str]:
    """For a FUSE mount: on the host, or in its container."""
    inside = "" if facts["where"] == "host" else "{engine} exec {id} "
    return typed(f"{inside}umount {{path}}")(facts)


def unit_started(facts: Facts) -> Iterator[str]:
    """For a unit of the system, or of the user whose own systemd has it."""
    if facts.get("uid") is None:
        return typed("systemctl start {unit}")(facts)
    return typed('runuser -u "$(id -un {uid})" -- env XDG_RUNTIME_DIR=/run/user/{uid} systemctl --user start {unit}')(facts)
