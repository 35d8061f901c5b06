"""Runs a probe that changes something on a node, and tells a refusal from a failure."""

from collections.abc import Mapping
from typing import Any

from tasks.context import Refused
from tasks.diagnostics.probe import run_probe
from tasks.transport.base import Host, TransportError


def change(host: Host, probe: str, args: Mapping[str, Any], budget_s: float) -> dict[str, Any]:
    """Run a changing probe. Raises Refused (nothing changed) or RuntimeError (it says what was)."""
    try:
        got = run_probe(host, probe, args, timeout_s=budget_s)
    except TransportError as e:
        raise RuntimeError(f"{e.reason}: {e.detail}; look at the node before anything else") from e
    if "refused" in got:
        raise Refused(got["refused"])
    if "failed" in got:
        raise RuntimeError(got["failed"])
    return got
