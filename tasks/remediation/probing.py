"""Runs a probe that changes something and turns its answer into Refused or a failure."""

from collections.abc import Mapping
from typing import Any

from runbooks.core.reading import Why
from tasks.context import Context, Refused
from tasks.diagnostics.probe import redact, run_probe
from tasks.transport.base import TransportError


def change(context: Context, probe: str, data: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
    """The probe's answer. Raises Refused (nothing was changed) or TransportError (how far it got is unknown)."""
    got = run_probe(context.host, probe, data, timeout_s=timeout_s)
    if "refused" in got:
        raise Refused(redact(context, str(got["refused"])))
    if "failed" in got:
        raise TransportError(Why.FAILED, redact(context, str(got["failed"])), probe)
    return got
