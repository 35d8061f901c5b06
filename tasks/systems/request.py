"""Checks what the orchestrator asks the provider for: the GPU type and the network volume must exist there."""

from collections.abc import Iterator
from difflib import get_close_matches

from runbooks.core.nightly import SystemCheck
from runbooks.core.orchestrator_config import Orchestrator
from tasks.clients.runpod import NotFound, RunPodClient
from tasks.installation import installation_redactor
from tasks.systems.trying import check_of
from tasks.transport.base import TransportError


def check_request(config: Orchestrator, found: dict[str, str]) -> Iterator[SystemCheck]:
    """`found`: the orchestrator's variables. What the fleet file says of the request wins over them."""
    r = config.request
    kind = r.gpu_type or found.get(r.gpu_type_variable, "").strip()
    storage = r.storage or found.get(r.storage_variable, "").strip()
    if not kind and not storage:
        return
    try:
        client = RunPodClient(config.runpod, installation_redactor())
        try:
            types = {n for t in client.stock(r.gpus) for n in (t.id, t.name)} if kind else set()
            volumes = {n for v in client.volumes() for n in (v.id, v.name)} if storage else set()
        finally:
            client.close()
    except (TransportError, NotFound) as e:
        yield check_of("request", "note", f"GPU type and network volume could not be looked up: {e}")
        return
    wrong = [
        *_unknown("GPU type", r.gpu_type_variable, kind, types),
        *_unknown("network volume", r.storage_variable, storage, volumes),
    ]
    yield from wrong
    if not wrong:
        yield check_of("request", "ok", "the provider knows the requested GPU type and network volume")


def _unknown(what: str, variable: str, name: str, known: set[str]) -> Iterator[SystemCheck]:
    if name and name not in known:
        near = get_close_matches(name, sorted(known), n=3, cutoff=0.4)
        hint = f"one of: {', '.join(near)}" if near else f"the name or id of a {what} of this account"
        yield check_of(
            "request", "FAULT", f"the provider knows no {what} of the name in {variable} (or the fleet file)", hint
        )
