"""Reads training data files on a node from front to back. Changes nothing."""

from functools import cache
from typing import Any

from runbooks.core.reading import Absent, Known, Reading, Source, Unknown, Why
from runbooks.data_check.evidence import DataFile, Evidence, Fault
from tasks.context import Context
from tasks.diagnostics.probe import run_program
from tasks.probes.ckpt_bundle import program
from tasks.transport.base import TransportError


@cache
def _program() -> str:
    return program(("runbooks.parsers.file_magic", "runbooks.parsers.data_jsonl", "runbooks.parsers.data_index"), "data_node")


def gather_data_check(context: Context) -> Evidence:
    """The files named by the options `data` (paths, comma-separated or a list), `text_key`, `vocabulary`, `log`."""
    raw = context.options.get("data", ())
    paths = tuple(p for p in (raw.split(",") if isinstance(raw, str) else raw) if p)
    key, vocabulary = str(context.options.get("text_key", "")), context.options.get("vocabulary")
    return Evidence(
        node=context.node.name, taken_at=context.now(), files={p: _read(context, p, key, vocabulary) for p in paths},
        log=_log(context), vocabulary=int(vocabulary) if vocabulary else None, text_key=key,
        hands_off=context.node.hands_off,
    )  # fmt: skip


def _read(context: Context, path: str, key: str, vocabulary: Any) -> Reading[DataFile]:
    source = Source(command=f"read {path}", host=context.node.name, taken_at=context.now())
    ask = {"files": [{"path": path, "text_key": key, "vocabulary": int(vocabulary or 0)}]}
    limit = float(context.limits.get("check_seconds", 1800))
    try:
        got = run_program(context.host, "data", _program(), ask, timeout_s=limit, limit_bytes=4 << 20)["files"][0]
    except TransportError as e:
        return Unknown(reason=e.reason, detail=e.detail, source=source)
    except (KeyError, IndexError) as e:
        return Unknown(reason=Why.UNPARSABLE, detail=f"no {e} in its answer", source=source)
    if "error" in got:
        if got["error"] == "ENOENT":
            return Absent(proof="it is not there", source=source)
        return Unknown(
            reason=Why.DENIED if got["error"] in ("EACCES", "EPERM") else Why.FAILED, detail=got["error"], source=source
        )
    faults, limits = (
        tuple(Fault(kind=k, detail=context.redactor.text(d), line=n, offset=o) for k, d, n, o in got.pop(name, ()))
        for name in ("faults", "limits")
    )
    return Known[DataFile](value=DataFile(**got, faults=faults, limits=limits), source=source)


def _log(context: Context) -> Reading[str]:
    path = str(context.options.get("log", ""))
    if not path:
        return Unknown(reason=Why.NOT_ASKED, detail="no `log` was named for this run")
    source = Source(command=f"tail -c 65536 {path}", host=context.node.name, taken_at=context.now())
    try:
        done = context.host.run(("tail", "-c", "65536", "--", path), timeout_s=20)
    except TransportError as e:
        return Unknown(reason=e.reason, detail=e.detail, source=source)
    if done.exit:
        return Unknown(reason=Why.FAILED, detail=done.err.strip()[:300], source=source)
    return Known[str](value=context.redactor.text(done.out), source=source)
