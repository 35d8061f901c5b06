"""etcd's v2 answers as types, and the keys of torch's two etcd backends sorted by run."""

import base64
import binascii
import json
import re
from enum import StrEnum
from typing import Any

from runbooks.core.base import Frozen
from runbooks.core.reading import ODD_ANSWER
from runbooks.parsers.fields import given
from runbooks.rendezvous.parsers.rdzv_state import DynamicState, decode_state
from runbooks.rendezvous.parsers.safe_pickle import Unreadable

DYNAMIC_ROOT = "/torch/elastic/rendezvous"
STORE_ROOT = "/torch/elastic/store"
LEGACY_ROOT = "/torchelastic/p2p"
_STORE_NAME = re.compile(r"^torch\.rendezvous\.(?P<run>.+?)\.(?P<round>\d+)/", re.DOTALL)


class Backend(StrEnum):
    """How torchrun's `--rdzv-backend` names them."""

    ETCD = "etcd"
    ETCD_V2 = "etcd-v2"
    C10D = "c10d"
    STATIC = "static"


class Key(Frozen):
    """One node of the v2 tree: a leaf, or a directory."""

    key: str
    dir: bool = False
    value: str | None = None
    ttl_s: int | None = None
    modified: int
    created: int = 0


class LegacyState(Frozen):
    """The JSON under rdzv/active_version of the backend `etcd`."""

    status: str  # setup | joinable | frozen | final | closed
    version: str = ""
    participants: tuple[int, ...] = ()
    waiting: int = 0


class RunKeys(Frozen):
    """Every key of one run in etcd, as one read found them."""

    run: str
    backend: Backend
    state: DynamicState | LegacyState | None = None  # None: no rendezvous key, or unreadable
    unreadable: str = ""  # why the rendezvous key cannot be read
    rendezvous: Key | None = None  # the key that holds the state
    store: tuple[Key, ...] = ()  # etcd-v2: this run's keys of the shared store
    tree: tuple[Key, ...] = ()  # etcd: every other key and directory of the run, parents first
    ranks: tuple[int, ...] = ()  # etcd: ranks of the active version whose 10 s keep-alive exists
    rounds: tuple[int, ...] = ()  # rounds (or versions) that have store keys
    master: str | None = None  # MASTER_ADDR:MASTER_PORT of the newest round in the store; "": it has none; None: not said
    ambiguous: tuple[str, ...] = ()  # store names that could belong to another run id as well

    cut: int = 0  # keys that were read and are not listed here

    @property
    def keys(self) -> tuple[Key, ...]:
        """All of it."""
        return (*self.store, *self.tree, *((self.rendezvous,) if self.rendezvous else ()))


LISTED = 3


def without_most_keys(run: RunKeys) -> RunKeys:
    """The run as it is judged, without the keys that only a deletion needs: a store keeps those of every run for ever."""
    store, tree = tuple(sorted(run.store, key=lambda k: k.key))[:LISTED], run.tree[:1]
    gone = len(run.store) - len(store) + len(run.tree) - len(tree)
    return run.model_copy(update={"store": store, "tree": tree, "cut": gone})


class NotEtcd(Exception):
    """The answer is not one of etcd's v2 API."""


def parse_tree(text: str) -> tuple[Key, ...]:
    """Every node of a recursive GET, parents first. A missing key (code 100) gives (). Raises NotEtcd."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as e:
        raise NotEtcd(f"not JSON: {text[:80]!r}") from e
    if isinstance(data, dict) and data.get("errorCode") == 100:
        return ()
    if not (isinstance(data, dict) and isinstance(data.get("node"), dict)):
        raise NotEtcd(f"no node in {text[:80]!r}")
    try:
        return tuple(_walk(data["node"]))
    except ODD_ANSWER as e:
        raise NotEtcd(f"not a node of etcd: {type(e).__name__}: {str(e)[:200]}") from e


def _walk(node: dict[str, Any]) -> list[Key]:
    found, todo = [], [node]
    while todo:
        item = todo.pop()
        children = given(item, "nodes", list) if "nodes" in item else []  # an empty directory has none
        if item.get("key") or not children:
            found.append(_key(item))
        todo.extend(reversed(children))
    return found


def _key(item: dict[str, Any]) -> Key:
    """A node: a directory says so, and anything else has a value."""
    folder = given(item, "dir", bool) if "dir" in item else False
    return Key(
        key=item["key"],
        dir=folder,
        value=item.get("value") if folder else given(item, "value", str),
        ttl_s=item.get("ttl"),
        modified=int(item["modifiedIndex"]),
        created=int(item.get("createdIndex", 0)),
    )


def store_name(key: str) -> str | None:
    """The name that torch gave a store key: the last part of `key` is its base64. None: not torch's."""
    try:
        return base64.b64decode(key.removeprefix(STORE_ROOT + "/"), validate=True).decode()
    except (binascii.Error, ValueError):
        return None


def belongs(name: str, run: str) -> bool:
    """Whether the store name `name` is of run `run`: `torch.rendezvous.<run>.<round>/…`, nothing longer."""
    return re.match(rf"torch\.rendezvous\.{re.escape(run)}\.\d+/", name) is not None


def dynamic_runs(states: tuple[Key, ...], store: tuple[Key, ...]) -> tuple[RunKeys, ...]:
    """Runs of the backend etcd-v2: the keys below DYNAMIC_ROOT, and those below STORE_ROOT."""
    leaves = {k.key.removeprefix(DYNAMIC_ROOT + "/"): k for k in states if not k.dir}
    named = [(k, name) for k in store if not k.dir and (name := store_name(k.key)) is not None]
    orphaned = {m["run"] for _, name in named if (m := _STORE_NAME.match(name)) and not _owner(name, leaves)}
    runs = sorted({*leaves, *orphaned})
    return tuple(_dynamic(run, leaves.get(run), named, runs) for run in runs)


def _owner(name: str, runs: dict[str, Key]) -> bool:
    return any(belongs(name, run) for run in runs)


def _dynamic(run: str, key: Key | None, named: list[tuple[Key, str]], runs: list[str]) -> RunKeys:
    mine = [(k, name) for k, name in named if belongs(name, run)]
    others = [r for r in runs if r != run]
    state, unreadable = _decode(key)
    return RunKeys(
        run=run,
        backend=Backend.ETCD_V2,
        state=state,
        unreadable=unreadable,
        rendezvous=key,
        store=tuple(k for k, _ in mine),
        rounds=tuple(sorted({_round(name, run) for _, name in mine})),
        master=_master(mine, run),
        ambiguous=tuple(name for _, name in mine if any(belongs(name, other) for other in others)),
    )


def _round(name: str, run: str) -> int:
    return int(name[len(f"torch.rendezvous.{run}.") :].split("/", 1)[0])


def _decode(key: Key | None) -> tuple[DynamicState | None, str]:
    if key is None:
        return None, ""
    try:
        return decode_state(key.value or ""), ""
    except Unreadable as e:
        return None, str(e)


def _text(key: Key) -> str:
    try:
        return base64.b64decode(key.value or "", validate=True).decode()
    except (binascii.Error, ValueError):
        return ""


def _master(mine: list[tuple[Key, str]], run: str) -> str:
    rounds = sorted({_round(name, run) for _, name in mine}, reverse=True)
    for number in rounds:
        values = {n.rsplit("/", 1)[1]: _text(k) for k, n in mine if _round(n, run) == number}
        if values.get("MASTER_ADDR"):
            return f"{values['MASTER_ADDR']}:{values.get('MASTER_PORT', '?')}"
    return ""


def legacy_runs(tree: tuple[Key, ...], root: str = LEGACY_ROOT) -> tuple[RunKeys, ...]:
    """Runs of the backend etcd: the directories `run_<id>` below `root`."""
    prefix = root.rstrip("/") + "/run_"
    tops = [k for k in tree if k.dir and k.key.startswith(prefix) and "/" not in k.key[len(prefix) :]]
    return tuple(_legacy(top, [k for k in tree if k.key.startswith(top.key + "/")], prefix) for top in tops)


def _legacy(top: Key, below: list[Key], prefix: str) -> RunKeys:
    active = next((k for k in below if k.key == f"{top.key}/rdzv/active_version"), None)
    state, unreadable = _legacy_state(active)
    version = f"{top.key}/rdzv/v_{state.version if state else ''}/"
    ranks = [k.key[len(version) + 5 :] for k in below if k.key.startswith(version + "rank_")]
    versions = [re.search(r"/rdzv/v_(\d+)$", k.key) for k in below if k.dir]
    return RunKeys(
        run=top.key[len(prefix) :],
        backend=Backend.ETCD,
        state=state,
        unreadable=unreadable,
        rendezvous=active,
        tree=(top, *(k for k in below if k is not active)),
        ranks=tuple(sorted(int(r) for r in ranks if r.isdecimal())),
        rounds=tuple(sorted(int(m[1]) for m in versions if m)),
        master="",  # that backend names no host in its keys
    )


def _legacy_state(key: Key | None) -> tuple[LegacyState | None, str]:
    if key is None:
        return None, ""
    try:
        data = json.loads(key.value or "")
        return LegacyState(
            status=str(data["status"]),
            version=str(data.get("version", "")),
            participants=tuple(int(p) for p in data.get("participants", [])),
            waiting=int(data.get("num_workers_waiting", 0)),
        ), ""
    except ODD_ANSWER as e:
        return None, f"not the JSON that torch writes: {e}"[:200]
