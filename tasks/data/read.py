"""Reads training data files on a node from front to back. Changes nothing."""

from typing import Any

from runbooks.core.reading import Absent, Known, Reading, Source, Unknown, UnknownReason
from runbooks.core.sizes import size
from runbooks.data.evidence import DataFile, Evidence, Fault
from tasks.context import Context
from tasks.diagnostic import diagnostic
from tasks.remote.probe import run_program
from tasks.remote.program import program
from tasks.transport.base import TransportError


def gather_data_check(context: Context) -> Evidence:
    """The files named by the options `data` (paths, comma-separated or a list), `text_key`, `vocabulary`, `log`."""
    raw = context.options.get("data", ())
    paths = tuple(p for p in (raw.split(",") if isinstance(raw, str) else raw) if p)
    paths, beyond = _within(context, paths)
    key, vocabulary = str(context.options.get("text_key", "")), context.options.get("vocabulary")
    return Evidence(
        node=context.node.name, taken_at=context.now(), files=_files(context, paths, key, vocabulary) | beyond,
        log=_log(context), vocabulary=int(vocabulary) if vocabulary else None, text_key=key,
        hands_off=context.node.hands_off,
    )  # fmt: skip


def _within(context: Context, paths: tuple[str, ...]) -> tuple[tuple[str, ...], dict[str, Reading[DataFile]]]:
    """What is read now, and what a sweep leaves out: it reads so many bytes of a data set a night, in the order of the file."""
    if not context.sweep:
        return paths, {}
    chosen: list[str] = []
    beyond: dict[str, Reading[DataFile]] = {}
    sizes, left = _sizes(context, paths), int(context.limits["sweep_bytes"])
    for path in paths:
        if sizes[path] <= left:
            left -= sizes[path]
            chosen.append(path)
        else:
            beyond[path] = _left_out(context, path, f"has {size(sizes[path])}, with {size(left)} left of what a sweep reads")
    return tuple(chosen), beyond


def _sizes(context: Context, paths: tuple[str, ...]) -> dict[str, int]:
    """Bytes of each, index and data together; 0 for what is not there, or cannot be seen (reading it says so)."""
    names = {p: (p, *(f"{p.removesuffix('.idx').removesuffix('.bin')}{end}" for end in (".idx", ".bin"))) for p in paths}
    done = context.host.run(("stat", "-L", "-c", "%s %n", "--", *dict.fromkeys(n for all_ in names.values() for n in all_)), timeout_s=20)
    found = {name: int(number) for number, _, name in (line.partition(" ") for line in done.out.splitlines()) if number.isdecimal()}
    return {p: sum(found.get(n, 0) for n in dict.fromkeys(names[p])) for p in paths}


def _left_out(context: Context, path: str, why: str) -> Unknown:
    by_hand = f"gpu-runbooks run data-check {context.target} --option data={path}"
    return Unknown(reason=UnknownReason.NOT_ASKED, detail=f"{why}; `{by_hand}` reads it whole")


def _files(context: Context, paths: tuple[str, ...], key: str, vocabulary: Any) -> dict[str, Reading[DataFile]]:
    """Each file; a sweep begins no further one when the time of that data set is over."""
    began = context.now()
    found: dict[str, Reading[DataFile]] = {}
    whole = context.limit("check_seconds", "data-check")
    for path in paths:
        left = whole
        if context.sweep:
            left = min(whole, context.limit("sweep_seconds", "data-check") - (context.now() - began).total_seconds())
        found[path] = (
            _left_out(context, path, "the time that a sweep has was over") if left < 1 else _read(context, path, key, vocabulary, left)
        )
    return found


@diagnostic("data file {path} · {context.target}")
def _read(context: Context, path: str, key: str, vocabulary: Any, limit: float) -> Reading[DataFile]:
    source = Source(command=f"read {path}", host=context.node.name, taken_at=context.now())
    ask = {"files": [{"path": path, "text_key": key, "vocabulary": int(vocabulary or 0)}]}
    try:
        got = run_program(context.host, "data", program("data_node"), ask, timeout_s=limit, limit_bytes=4 << 20)["files"][0]
    except TransportError as e:
        return Unknown(reason=e.reason, detail=e.detail, source=source)
    except (KeyError, IndexError) as e:
        return Unknown(reason=UnknownReason.UNPARSABLE, detail=f"no {e} in its answer", source=source)
    if "error" in got:
        if got["error"] == "ENOENT":
            return Absent(proof="it is not there", source=source)
        return Unknown(
            reason=UnknownReason.DENIED if got["error"] in ("EACCES", "EPERM") else UnknownReason.FAILED, detail=got["error"], source=source
        )
    faults, limits = (
        tuple(Fault(kind=k, detail=context.redactor.text(d), line=n, offset=o) for k, d, n, o in got.pop(name, ()))
        for name in ("faults", "limits")
    )
    return Known[DataFile](value=DataFile(**got, faults=faults, limits=limits), source=source)


@diagnostic("job log · {context.target}")
def _log(context: Context) -> Reading[str]:
    path = str(context.options.get("log", ""))
    if not path:
        return Unknown(reason=UnknownReason.NOT_ASKED, detail="no `log` was named for this run")
    source = Source(command=f"tail -c 65536 {path}", host=context.node.name, taken_at=context.now())
    try:
        done = context.host.run(("tail", "-c", "65536", "--", path), timeout_s=20)
    except TransportError as e:
        return Unknown(reason=e.reason, detail=e.detail, source=source)
    if done.exit:
        return Unknown(reason=UnknownReason.FAILED, detail=done.err.strip()[:300], source=source)
    return Known[str](value=context.redactor.text(done.out), source=source)
