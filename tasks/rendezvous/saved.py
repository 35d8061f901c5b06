"""Reads a saved run and what etcd holds of it now, and says whether it could be put back."""

from pathlib import Path

from runbooks.core.reading import Known, Source, Unknown, UnknownReason
from runbooks.core.rendezvous_config import Rendezvous
from runbooks.rendezvous.evidence import Putback
from runbooks.rendezvous.parsers.etcd_v2 import NotEtcd
from runbooks.rendezvous.saved import LARGEST, BadSave, SavedKeys, age_of, digest_of, others, parse_saved, puts_for
from tasks.context import Context
from tasks.diagnostic import diagnostic
from tasks.rendezvous.etcd import read_runs, unknown_keys
from tasks.transport.base import TransportError
from tasks.whole_file import read_whole


def read_saved(path: Path) -> tuple[SavedKeys, str]:
    """The saved run and its file's digest. Raises BadSave."""
    try:
        text = read_whole(path, LARGEST).decode("utf-8")
    except UnicodeDecodeError as e:
        raise BadSave(f"{path}: not UTF-8 text") from e
    except OSError as e:
        raise BadSave(f"{path}: {e.strerror or e}") from e
    return parse_saved(text, str(path)), digest_of(text)


@diagnostic("saved keys {file}")
def read_putback(context: Context, place: Rendezvous, file: str) -> Known[Putback] | Unknown:
    """The saved run in `file` against etcd as it is now."""
    source = Source(command=f"cat {file}", host="this machine", taken_at=context.now())
    try:
        saved, digest = read_saved(Path(file))
    except BadSave as e:
        return Unknown(reason=UnknownReason.UNPARSABLE, detail=str(e), source=source)
    try:
        runs = read_runs(context.open_host(context.fleet.node(place.asks)), place)
    except (TransportError, NotEtcd) as e:
        return unknown_keys(e, place, context)
    puts = puts_for(saved, age_of(saved, context.now()))
    mine = [k for r in runs if r.run == saved.run and r.backend == saved.backend for k in r.keys]
    there = {k.key for k in mine}
    found = Putback(
        file=file,
        digest=digest,
        run=saved.run,
        backend=saved.backend,
        missing=tuple(p["key"] for p in puts if p["key"] not in there),
        expired=len(saved.keys) - len(puts),
        refusal=refusal(saved, place, puts_left=len(puts), other=others(saved, runs)),
    )
    return Known[Putback](value=found, source=source)


def refusal(saved: SavedKeys, place: Rendezvous, puts_left: int, other: tuple[str, ...]) -> str:
    """Why it must not be put back; "" when it may."""
    if place.etcd_endpoint != saved.endpoint.rstrip("/"):
        return f"saved from {saved.endpoint}, the fleet file's {place.name} is {place.etcd_endpoint}"
    if not puts_left:
        return f"every key of run {saved.run} would have expired by now"
    if other:
        return f"run {saved.run} has keys already: {', '.join(other[:5])}"
    return ""
