"""Puts a saved run back, only where no other key of that run id exists, with what is left of its time to live."""

from datetime import datetime
from typing import Any

from runbooks.core.rendezvous_config import Rendezvous
from runbooks.parsers.etcd_v2 import STORE_ROOT, Backend, Key
from tasks.context import ActResult, Refused
from tasks.diagnostics.etcd import etcd_endpoint, read_runs
from tasks.diagnostics.probe import run_probe
from tasks.remediation.rendezvous_save import Saved
from tasks.transport.base import Host


def restore_run(saved: Saved, place: Rendezvous, host: Host, now: datetime) -> ActResult:
    """Writes the saved keys. Raises Refused when the run has keys that are not the saved ones, or all have expired."""
    if etcd_endpoint(place) != saved.endpoint.rstrip("/"):
        raise Refused(f"saved from {saved.endpoint}, the fleet file's {place.name} is {etcd_endpoint(place)}")
    age = max(0.0, (now - saved.saved_at).total_seconds())  # a clock set back must not lengthen a life
    puts = plan_puts(saved, age)
    if not puts:
        raise Refused(f"every key of run {saved.run} would have expired by now ({age:.0f} s after it was saved)")
    _nothing_else(saved, place, host)
    data = {"endpoint": etcd_endpoint(place), "tls": place.tls.model_dump(), "puts": puts}
    answer = run_probe(host, "rdzv_restore", data, timeout_s=120)
    said = tuple(f"{result}: {key}" for key, result in answer["done"])
    if answer["stopped"]:
        raise Refused("; ".join((answer["stopped"], *said)))
    lost = len(saved.keys) - len(puts)
    return ActResult(said=(*said, *([f"{lost} keys had expired meanwhile and stay away"] if lost else [])))


def plan_puts(saved: Saved, age_s: float) -> list[dict[str, Any]]:
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


def _nothing_else(saved: Saved, place: Rendezvous, host: Host) -> None:
    """No key of the run id but those that an interrupted restore of this file wrote."""
    mine = {k.key: (k.value, k.dir) for k in saved.keys}
    for run in read_runs(host, place):
        if run.run == saved.run and run.backend == saved.backend:
            other = [k.key for k in run.keys if mine.get(k.key) != (k.value, k.dir)]
            if other:
                raise Refused(f"run {saved.run} has keys already: {', '.join(other[:5])}")
