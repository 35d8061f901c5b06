"""A run's keys as they were saved before their deletion, and what putting them back would write."""

import hashlib
from collections import Counter
from datetime import datetime
from typing import Any

from pydantic import AwareDatetime

from runbooks.core.base import Frozen
from runbooks.core.config import ConfigError, parse_json
from runbooks.rendezvous.parsers.etcd_v2 import DYNAMIC_ROOT, STORE_ROOT, Backend, Key, RunKeys, belongs, store_name

FORMAT = 1
LARGEST = 64 << 20  # bytes of a saved file
SHOWN = 200  # keys that a report names one by one
LONGEST_LIFE_S = 1 << 63  # source: etcd keeps a time to live in 64 bits
MOST_KEYS = 10_000  # of one run: a world of thousands of ranks has fewer; each takes two requests to put back


class SavedKeys(Frozen):
    """One run's keys as they were."""

    format: int = FORMAT
    rendezvous: str
    endpoint: str
    backend: str
    run: str
    saved_at: AwareDatetime  # by the engine's clock: time to live is counted from here
    keys: tuple[Key, ...]  # parents before children


class BadSave(Exception):
    """Not a file that this project saved, or not whole."""


def parse_saved(text: str, name: str) -> SavedKeys:
    """The content of a saved file. Raises BadSave."""
    try:
        saved = parse_json(text, SavedKeys, name)
    except ConfigError as e:
        raise BadSave(f"{e}; not a saved run: give the file that the report names") from None
    if saved.format != FORMAT:
        raise BadSave(f"{name}: format {saved.format}, this version reads {FORMAT}")
    if strange := [k.key for k in saved.keys if not _of_run(k.key, saved)]:
        raise BadSave(f"{name}: keys that are not of run {saved.run!r}: {', '.join(strange[:3])[:300]}")
    if endless := [k.key for k in saved.keys if k.ttl_s is not None and k.ttl_s >= LONGEST_LIFE_S]:
        raise BadSave(f"{name}: no key lives as long as {', '.join(endless[:3])[:300]}")
    return saved


def too_large(saved: SavedKeys, text: str) -> str:
    """Why so much could not be put back; "" when it can. `text` is the file."""
    if len(saved.keys) > MOST_KEYS:
        return f"{len(saved.keys)} keys are more than the {MOST_KEYS} that can be put back"
    size = len(text.encode())
    return f"{size >> 20} MiB are more than the {LARGEST >> 20} MiB that can be put back" if size > LARGEST else ""


def work_s(keys: int) -> float:
    """How long so many keys may take to be deleted or put back: two requests each, on a disk that syncs in 20 ms."""
    return 120 + 0.04 * keys


def shown(done: list[list[str]]) -> tuple[str, ...]:
    """[key, what became of it] as lines: each key of a small run, the numbers of a large one."""
    if len(done) <= SHOWN:
        return tuple(f"{result}: {key}" for key, result in done)
    counts = Counter(result for _, result in done)
    return tuple(f"{result}: {n} keys" for result, n in counts.items())


def _of_run(key: str, saved: SavedKeys) -> bool:
    """Whether that run's keys have such a name: a file that was changed writes into nobody else's run."""
    if ".." in key.split("/") or "." in key.split("/"):
        return False
    if saved.backend == Backend.ETCD_V2:
        return key == f"{DYNAMIC_ROOT}/{saved.run}" or belongs(store_name(key) or "", saved.run)
    return saved.backend == Backend.ETCD and f"/run_{saved.run}/" in key + "/"


def digest_of(text: str) -> str:
    """What tells one saved file from another."""
    return hashlib.sha256(text.encode()).hexdigest()


def age_of(saved: SavedKeys, now: datetime) -> float:
    """Seconds since it was saved; a clock that was set back must not lengthen a life."""
    return max(0.0, (now - saved.saved_at).total_seconds())


def puts_for(saved: SavedKeys, age_s: float) -> list[dict[str, Any]]:
    """What is written, in order: folders, the rendezvous key, then the store: a newcomer in between sees the old state,
    never a fresh round over old store keys. A key whose folder has expired goes with it."""
    alive = [k for k in saved.keys if not _expired(k, age_s)]
    gone = [k.key + "/" for k in saved.keys if k.dir and _expired(k, age_s)]
    alive = [k for k in alive if not any(k.key.startswith(g) for g in gone)]
    store = [k for k in alive if k.key.startswith(STORE_ROOT + "/")] if saved.backend == Backend.ETCD_V2 else []
    if store and len(store) == len(alive) and len(saved.keys) > len(store):
        return []  # only the store is left: alone it would trap the next run
    first = [k for k in alive if k not in store]
    return [_put(k, age_s) for k in [*sorted(first, key=_rank), *store]]


def _rank(key: Key) -> tuple[int, int]:
    return (0 if key.dir else 1 if key.key.endswith("active_version") else 2, key.key.count("/"))


def _expired(key: Key, age_s: float) -> bool:
    return key.ttl_s is not None and key.ttl_s - age_s < 1


def _put(key: Key, age_s: float) -> dict[str, Any]:
    ttl = None if key.ttl_s is None else int(key.ttl_s - age_s)
    return {"key": key.key, "value": key.value, "dir": key.dir, "ttl": ttl}


def others(saved: SavedKeys, runs: tuple[RunKeys, ...]) -> tuple[str, ...]:
    """Keys of that run id, in either backend's names, that are not the saved ones."""
    mine = {k.key: (k.value, k.dir) for k in saved.keys}
    there = [k for r in runs if r.run == saved.run and r.backend == saved.backend for k in r.keys]
    return tuple(k.key for k in there if mine.get(k.key) != (k.value, k.dir))
