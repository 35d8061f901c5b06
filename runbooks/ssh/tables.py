"""What a person looks at of a log-in: the walk stage by stage, then the far side's files and its own words."""

from collections.abc import Iterator
from datetime import UTC, datetime

from runbooks.core.reading import Known, Unknown, value_of, value_or
from runbooks.core.table import EvidenceRow, EvidenceTable, row, table
from runbooks.ssh.evidence import Auth, Evidence, FarSide, GivenKey, Stage, Wire

STAGES = tuple(s for s in Stage if s is not Stage.DONE)


def tables(e: Evidence) -> Iterator[EvidenceTable]:
    """The walk first, in its order."""
    yield table("The log-in, stage by stage", "stage | result | what was seen", _walk(e), in_order=True)
    if isinstance(e.far, Known):
        yield from _far(e.far.value)
    yield table("Keys of the agent", "type | fingerprint", (row(k.type, k.fingerprint) for k in value_or(e.agent, ())))


def _walk(e: Evidence) -> Iterator[EvidenceRow]:
    if not isinstance(e.wire, Known):
        why = e.wire.why if isinstance(e.wire, Unknown) else e.wire.proof
        yield row(Stage.KEY, "", _of_key(value_of(e.key)))
        yield row("the others", "not read", why)
        return
    wire, key = e.wire.value, value_of(e.key)
    seen = {Stage.KEY: _of_key(key)} | _of_wire(wire)
    stopped = list(Stage).index(wire.stage)
    for number, stage in enumerate(STAGES):
        passed = "given" if stage is Stage.KEY else "passed"
        result = passed if number < stopped else "STOPPED HERE" if number == stopped else "not reached"
        about = (key.source if key and stage is Stage.KEY else "", f"{e.user}@{e.host}:{e.port}" if number == stopped else "")
        yield row(stage, result, seen[stage] if number <= stopped else "", about=about)


def _of_key(key: GivenKey | None) -> str:
    if key is None:
        return "not read"
    mode = f"mode {key.mode & 0o7777:o}" if key.mode is not None else ""
    return ", ".join(filter(None, (key.source, key.type, key.fingerprint, mode, key.why_not)))


def _of_wire(w: Wire) -> dict[Stage, str]:
    """What each stage showed."""
    host = w.host_key
    shown = f"{host.type} {host.fingerprint}: {host.fact}. {host.detail}" if host else ""
    parts: dict[Stage, tuple[str, ...]] = {
        Stage.NAME: (w.host, *w.addresses),
        Stage.TCP: (f"port {w.port}", f"through {w.jump}" if w.jump else "", w.tcp or "", w.tcp_says),
        Stage.BANNER: (w.banner, *w.before_banner, w.banner_says),
        Stage.KEX: (*w.missing, w.kex_says),
        Stage.HOST_KEY: (shown.strip(),),
        Stage.METHODS: w.methods,
        Stage.AUTH: ("" if w.auth is Auth.NOT_TRIED else w.auth, w.auth_says, f"keys offered: {len(w.offered)}" if w.offered else ""),
        Stage.SESSION: (w.session_says,),
        Stage.COMMAND: (w.command_says,),
    }
    return {stage: ", ".join(dict.fromkeys(filter(None, words))) for stage, words in parts.items()}


def _far(far: FarSide) -> Iterator[EvidenceTable]:
    yield table("The way to authorized_keys, on the far side", "path | there | owner | mode | written", (
        row(p.path, p.exists, f"{p.uid}:{p.gid}" if p.exists else "", f"{p.mode & 0o7777:04o}" if p.exists else "", _time(p.written_s),
            about=p.path, worse=not p.exists)
        for p in far.path
    ))  # fmt: skip
    yield table("Keys that are let in", "file | read by sshd | line | type | fingerprint | options", (
        row(f.path, f.by_sshd, k.line, k.type, k.fingerprint, k.options, about=f.path, worse=not f.by_sshd)
        for f in far.files for k in f.lines
    ))  # fmt: skip
    lines = (*(line.line for line in far.log), *far.other_lines)
    yield table("What sshd says of this log-in", "line", (row(x) for x in lines), in_order=True)


def _time(seconds: float | None) -> datetime | None:
    """None for what is no time of a calendar."""
    try:
        return datetime.fromtimestamp(seconds, UTC) if seconds is not None else None
    except (ValueError, OverflowError, OSError):
        return None
