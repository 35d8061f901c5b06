"""Which credentials a fleet file names, and what uses each."""

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, Field

from runbooks.core.base import Frozen
from runbooks.core.fleet import Fleet, KeySource
from runbooks.notify.config import Notifications

USED_BY = {
    "nodes": "every runbook on that node, nightly, sweep, doctor",
    "leader": "zombie-gpu, nightly, sweep, doctor",
    "orchestrator": "stuck-spawning, nightly, doctor",
}


class NeededSecret(Frozen):
    """A credential that the fleet file names."""

    name: str  # environment variable, or block if `block`
    field: str
    used_by: str
    block: bool = False  # only a Secret block, no variable
    variable: bool = False  # only a variable, no Secret block
    at: tuple[str | int, ...] = Field(default=(), exclude=True)  # where in the file: the path of the field, with places in lists

    @property
    def in_block(self) -> str:
        """The Secret block that holds it."""
        from tasks.credentials import block_name

        return self.name if self.block else block_name(self.name)


def needs(fleet: Fleet) -> tuple[NeededSecret, ...]:
    """Every credential of the fleet file, by name, once. Files and agents are left out: they are on the worker."""
    found = {n.name: n for section in USED_BY for n in _in(getattr(fleet, section), (section,), USED_BY[section])}
    return tuple(found[name] for name in sorted(found))


def needs_of_channels(config: Notifications | None) -> tuple[NeededSecret, ...]:
    """The Secret blocks that notifications.yaml names."""
    named = [(("channels", name, "url", "secret"), c.url.secret) for name, c in (config.channels.items() if config else ()) if c.url.secret]
    return tuple(NeededSecret(name=block, field=".".join(at), used_by="notify", block=True, at=at) for at, block in named)


def _in(value: Any, at: tuple[str | int, ...], used_by: str) -> Iterator[NeededSecret]:
    if isinstance(value, KeySource):
        if value.env:
            yield _need(value.env, (*at, "env"), used_by, variable=True)
        if value.secret:
            yield _need(value.secret, (*at, "secret"), used_by, block=True)
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from _in(getattr(value, name), (*at, name), used_by)
    elif isinstance(value, tuple):
        for place, part in enumerate(value):
            yield from _in(part, (*at, place), used_by)
    elif isinstance(value, str) and str(at[-1]).endswith("_env"):
        yield _need(value, at, used_by)


def _need(name: str, at: tuple[str | int, ...], used_by: str, *, block: bool = False, variable: bool = False) -> NeededSecret:
    field = ".".join(part for part in at if isinstance(part, str))
    return NeededSecret(name=name, field=field, used_by=used_by, block=block, variable=variable, at=at)
