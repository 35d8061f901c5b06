"""From what an alert calls a machine to what the fleet file calls it. Exact names only: nothing means "all"."""

import re

from runbooks.core.fleet import Fleet

PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?\Z")


class NoTarget(ValueError):
    """No target of that name, or more than one. The message says what to do."""


def check_name(text: str) -> None:
    """Raises NoTarget if no target can be called so."""
    if not PLAIN.match(text):
        raise NoTarget(f"{text!r} cannot be a target's name (letters, digits . _ - and one /)")


def resolve(text: str, fleet: Fleet, others: tuple[str, ...]) -> str:
    """The target that `text` names: a node by name or address (a port behind it is cut off), or one of `others`."""
    check_name(text)
    first = text.split("/", 1)[0]
    if any(n.name == text for n in fleet.nodes) or first in others:
        return text
    host = text.rsplit(":", 1)[0] if text.count(":") == 1 else text
    for same in (_named(host, fleet), _addressed(host, fleet), _short(host, fleet)):
        if len(same) > 1:
            raise NoTarget(f"{text!r} can be {', '.join(sorted(same))}: use a label that names one of them")
        if same:
            return same.pop()
    raise NoTarget(f"{text!r} is no target of fleet {fleet.name!r}; add it to the fleet file, or change the rule's target")


def _named(host: str, fleet: Fleet) -> set[str]:
    return {n.name for n in fleet.nodes if n.name == host}


def _addressed(host: str, fleet: Fleet) -> set[str]:
    return {n.name for n in fleet.nodes if n.host and n.host.lower() == host.lower()}


def _short(host: str, fleet: Fleet) -> set[str]:
    """`node-a.example` and `node-a` are one machine, if only one node fits; addresses in figures have no short form."""
    if re.fullmatch(r"[0-9.]+", host):
        return set()
    short = host.lower().split(".", 1)[0]
    return {
        n.name
        for n in fleet.nodes
        if short in (n.name.lower(), (n.host or "").lower().split(".", 1)[0])
        and ("." not in host or "." not in (n.host or "") or (n.host or "").lower() == host.lower())
    }
