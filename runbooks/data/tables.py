"""What a person looks at of training data: each file with what was found in it."""

from collections.abc import Iterator

from runbooks.core.reading import Absent, Known, Unknown
from runbooks.core.sizes import size
from runbooks.core.table import EvidenceRow, EvidenceTable, row, table
from runbooks.data.evidence import DataFile, Evidence, Fault


def tables(e: Evidence) -> Iterator[EvidenceTable]:
    """The files, those with a fault first, and each fault with its place."""
    read = {path: reading.value for path, reading in e.files.items() if isinstance(reading, Known)}
    head = "file | check | kind | lines | size"
    yield table("Files", head, (_file(path, reading) for path, reading in e.files.items()))
    yield table("Faults", "file | line | byte | what", (
        row(path, fault.line or "", fault.offset, fault.detail) for path, found in read.items() for fault in found.faults
    ), in_order=True)  # fmt: skip


def _file(path: str, reading: Known[DataFile] | Absent | Unknown) -> EvidenceRow:
    if isinstance(reading, Known):
        found = reading.value
        count = len(found.faults) + found.more
        return row(path, _check(found.faults, found.limits, count), found.kind, found.lines, size(found.bytes), about=path, worse=count)
    why = reading.why if isinstance(reading, Unknown) else reading.proof
    return row(path, f"not read: {why}" if isinstance(reading, Unknown) else f"not there: {why}", about=path, worse=1e9)


def _check(faults: tuple[Fault, ...], limits: tuple[Fault, ...], count: int) -> str:
    if faults:
        return f"{count} {'fault' if count == 1 else 'faults'}: {faults[0].detail}"
    return f"not wholly checked: {limits[0].detail}" if limits else "whole"
