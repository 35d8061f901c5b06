"""What is read about training data files. Lines count from 1, offsets in bytes from 0."""

from datetime import datetime

from pydantic import ConfigDict

from runbooks.core.base import Frozen
from runbooks.core.reading import NOT_RECORDED, Reading


class Fault(Frozen):
    """One thing that is wrong in a file."""

    kind: str
    detail: str
    line: int = 0  # or sequence, for an index
    offset: int = 0


class DataFile(Frozen):
    """One file, or one .idx/.bin pair, read from front to back."""

    model_config = ConfigDict(title="file")

    path: str
    kind: str  # jsonl | json (one value) | index
    faults: tuple[Fault, ...] = ()
    limits: tuple[Fault, ...] = ()  # what its reader could not judge: says nothing against it
    packed: str = ""  # with what it is compressed, as its name says as well: its faults are those of what it holds
    more: int = 0
    lines: int = 0
    bytes: int = 0
    keys: tuple[tuple[str, int], ...] = ()  # of the records, each with how many have it; at most MOST_KEYS of the reader
    below: tuple[str, ...] | None = None  # keys of values inside the first records; None: an older record
    final_newline: bool = True
    older: bool = False  # the index is older than its data


class Evidence(Frozen):
    """All files that the run was asked about."""

    node: str
    taken_at: datetime
    files: dict[str, Reading[DataFile]] = {}  # path -> what it is
    log: Reading[str] = NOT_RECORDED
    vocabulary: int | None = None
    text_key: str = ""
    hands_off: bool = False
