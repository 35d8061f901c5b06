"""Reads whether the GPUs that containers of a node were given still answer inside them."""

import shlex

from runbooks.core.containers_config import engine_of
from runbooks.core.reading import Absent, Known, Unknown, UnknownReason
from runbooks.gpu.evidence import ContainerGpu
from tasks.context import Context
from tasks.diagnostic import diagnostic
from tasks.remote.probe import redact, run_probe, source, unknown
from tasks.transport.base import TransportError

Found = Known[tuple[ContainerGpu, ...]] | Absent | Unknown


@diagnostic("GPUs inside containers · {context.target}")
def read_container_gpus(context: Context) -> Found:
    """`nvidia-smi -L` inside each running container that was given GPUs; containers without that tool are left out."""
    engine = engine_of(context.fleet.containers_on(context.node.name))
    asked = f"{shlex.join(engine)} exec ID nvidia-smi -L"
    try:
        got = run_probe(context.host, "container_gpus", {"timeout_s": 8, "cap": 20, "engine": list(engine)}, timeout_s=60)
    except TransportError as e:
        return unknown(context, e, asked)
    if got["absent"]:
        return Absent(proof=got["absent"], source=source(context, f"command -v {shlex.quote(engine[0])}"))
    if got["error"]:
        no_daemon = "cannot connect to the docker daemon" in got["error"].lower()
        if no_daemon:
            return Absent(proof="no Docker daemon runs here", source=source(context, f"{shlex.join(engine)} ps", got["error"]))
        why = UnknownReason.DENIED if "permission denied" in got["error"].lower() else UnknownReason.FAILED
        return Unknown(reason=why, detail=redact(context, got["error"]), source=source(context, asked))
    note = f"{got['silent']} containers with GPUs have no nvidia-smi inside" if got["silent"] else ""
    found = tuple(ContainerGpu(**c) for c in got["containers"])
    return Known[tuple[ContainerGpu, ...]](value=found, source=source(context, asked, note))
