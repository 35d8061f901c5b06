"""`gpu-runbooks secrets`: which credentials the fleet file names, where each is found, and a prompt for those that are missing.

A value comes from a prompt or from standard input, never from the command line, and goes into a Prefect Secret block.
"""

import argparse
import getpass
import json
import os
import sys
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from deployments.cli.needed_secrets import USED_BY, NeededSecret, needs, needs_of_channels
from deployments.errors import CommandError
from runbooks.core.names import there_are
from runbooks.core.orchestrator_config import DatabaseConfig

LARGEST = 64 << 10


def cmd_secrets(ns: argparse.Namespace) -> int:
    """`gpu-runbooks secrets`: 0 if nothing is missing at the end, else 1."""
    from deployments.cli.missing_secrets import warn_missing
    from deployments.cli.run import ready
    from flows.config import load_fleet
    from flows.notify.notify_file import load_notifications

    fleet = load_fleet(ns.fleet)
    wanted = needs(fleet)
    if wanted or ns.set:
        ready()
    if ns.set:
        known = {n.name: n for n in (*wanted, *needs_of_channels(load_notifications()))}
        if ns.set not in known:
            raise CommandError(f"--set {ns.set}: neither the fleet file nor notifications.yaml names it; {there_are(ns.set, known)}")
        need = known[ns.set]
        store_value(need, _ask(need))
        print(f"stored as Prefect Secret {need.in_block}", file=sys.stderr)
        return 0
    warn_missing(fleet)
    rows = _either([(n, place_of(n)) for n in wanted])
    if ns.json:
        print(json.dumps([n.model_dump() | {"found": place} for n, place in rows], indent=1))
        return 0 if all(place for _, place in rows) else 1
    for need, place in rows:
        print(f"{need.name}  {place or 'MISSING'}  ({need.field}; used by {need.used_by})")
    if not rows:
        print("the fleet file names no credential")
    return _fill([n for n, place in rows if not place])


def _either(rows: list[tuple[NeededSecret, str]]) -> list[tuple[NeededSecret, str]]:
    """The same, where one of two ways to the same thing is whole: what the other way lacks is not missing."""
    place = {n.field: found for n, found in rows}
    ways = [tuple(f"orchestrator.database.{name}" for name in way) for way in DatabaseConfig.WAYS]
    whole = [way for way in ways if all(place.get(field) for field in way)]
    spare = {field for way in ways for field in way if whole and way not in whole}
    return [(n, found or (f"not needed: {' and '.join(whole[0])} is enough" if n.field in spare else "")) for n, found in rows]


def _fill(missing: list[NeededSecret]) -> int:
    """Prompts for each; an empty answer leaves it missing."""
    if not missing or not sys.stdin.isatty():
        return 1 if missing else 0
    left = 0
    for need in missing:
        value = "" if need.variable else _ask(need)
        if value:
            store_value(need, value)
        left += not value
    return 1 if left else 0


def place_of(need: NeededSecret) -> str:
    """Where the value is found now; "" if nowhere."""
    from tasks.credentials import read_secret

    if not need.block and os.environ.get(need.name, "").strip():
        return "in this environment (workers need it there too)"
    if need.variable:
        return ""
    try:
        return f"Prefect Secret {need.in_block}" if read_secret(need.in_block).strip() else ""
    except Exception:  # no such block: the client's errors have no common base
        return ""


def _ask(need: NeededSecret) -> str:
    """One line from a hidden prompt, or all of standard input where it is no terminal (a key has many lines)."""
    if sys.stdin.isatty():
        return getpass.getpass(f"{need.name} (hidden; empty to skip; a key with several lines: --set {need.name} < FILE): ")
    text = sys.stdin.read(LARGEST + 1)
    if not text.strip() or len(text) > LARGEST:
        raise CommandError(f"{need.name}: standard input is empty, or larger than {LARGEST >> 10} KiB")
    return text.rstrip("\n") + ("\n" if "\n" in text.strip() else "")


def store_value(need: NeededSecret, value: str) -> None:
    """Creates or replaces the Secret block. Raises CommandError that never holds the value."""
    from typing import cast

    from prefect.blocks.system import Secret

    if not value.strip():
        raise CommandError(f"{need.name}: no value was given, nothing is stored")
    try:
        cast(Any, Secret)(value=value).save(need.in_block, overwrite=True, _sync=True)
    except Exception as e:
        raise CommandError(f"Prefect Secret {need.in_block} cannot be stored: {type(e).__name__}", 3) from None


def table() -> str:
    """Which credential is used where, with the default names, as deployments/README.md shows it."""
    rows = [
        ("`nodes[].key.env`", "as you name it; a variable only", "private SSH key", USED_BY["nodes"]),
        ("`nodes[].key.secret`", "as you name it; a Secret block only", "private SSH key", USED_BY["nodes"]),
        ("`leader.token_env`", "as you name it", "bearer token", USED_BY["leader"]),
        *(
            (f"`{n.field}`", f"`{n.name}` / `{n.in_block}`", WHAT[n.field.rsplit(".", 1)[0]], n.used_by)
            for n in _defaults()
        ),
    ]
    head = "| fleet file | variable / Secret block | what | used by |\n|---|---|---|---|"
    return "\n".join([head, *(f"| {' | '.join(r)} |" for r in rows)])


WHAT = {
    "orchestrator.runpod": "RunPod API key",
    "orchestrator.database": "worker table: SQL URL, or REST URL and service key",
    "orchestrator.railway": "Railway token",
    "orchestrator.ssh": "key pair of the pods",
}


def _defaults() -> Iterator[NeededSecret]:
    """The orchestrator's credentials under their default names, from the models."""
    from runbooks.core.orchestrator_config import Orchestrator

    for section, field in Orchestrator.model_fields.items():
        for kind in _models(field.annotation):
            for name, inner in kind.model_fields.items():
                if name.endswith("_env") and isinstance(inner.default, str):
                    yield NeededSecret(
                        name=inner.default, field=f"orchestrator.{section}.{name}", used_by=USED_BY["orchestrator"]
                    )


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    from typing import get_args

    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models(part)
