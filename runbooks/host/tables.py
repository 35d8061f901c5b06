"""What a person looks at of a machine's own limits: what is used of what is allowed, names, disks and the clock."""

from collections.abc import Iterator

from runbooks.core.reading import Known, value_of, value_or
from runbooks.core.table import EvidenceRow, EvidenceTable, row, since, table
from runbooks.host.evidence import Evidence, Gauge


def tables(e: Evidence) -> Iterator[EvidenceTable]:
    """The fullest limit first."""
    groups = (e.files, e.threads, e.locked, e.shm, e.inotify, e.disks)
    gauges = {(g.subject, g.of, g.limit, g.setting): g for reading in groups for g in value_or(reading, ())}.values()
    yield table("Used of allowed", "share | of what | used of allowed | setting | refused", map(_gauge, gauges))
    yield table("Names", "name | answer | took | who uses it | name servers", (
        row(n.name, n.said, since(n.seconds), n.why, [f"{s.address}: {s.said}" for s in n.servers], about=n.name,
            worse=n.seconds + 1000 * (n.said != "resolved") * (1 + n.needed))
        for n in value_or(e.names, ())
    ))  # fmt: skip
    yield table("File systems and disks that failed", "what | said", (
        row(f.subject, f.said, about=f.subject, cites=f.said) for reading in (e.failed, e.smart) for f in value_or(reading, ())
    ))  # fmt: skip
    if isinstance(e.clock, Known):
        keeper = value_of(e.keeper)
        off = f"{e.clock.value.least_s:+.3f} to {e.clock.value.most_s:+.3f} s"
        yield table("Clock", "against the asking machine | kept in time", (row(off, keeper and keeper.kept, about=e.node),))
    lost = tuple(row(u.what, u.reason.words, u.detail) for u in e.unread)
    yield table("Looked for and not read", "what | why | said", lost)


def _gauge(g: Gauge) -> EvidenceRow:
    share = g.used / g.limit if g.limit else 0.0
    told = g.in_words if g.limit is not None else f"{g.used} {g.of}, no limit"
    return row(f"{100 * share:.0f} %", g.subject, told, g.setting, g.refused or "", about=g.subject, cites=g.in_words, worse=share)
