"""Shared types of the checkpoint checkers: a readable blob, faults, parts with a checksum. Standard library only,
Python 3.8:
these modules also run on the nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Blob(NamedTuple):
    """A file, object or slice that can be read in ranges."""

    name: str
    size: int
    read: Callable[[int, int], bytes]  # (offset, length) -> exactly that many bytes, fewer only at the end

    def slice(self, name: str, offset: int, length: int) -> Blob:
        """A part of this blob as a blob of its own."""
        return Blob(name, length, lambda at, n: self.read(offset + at, min(n, max(0, length - at))))


class CheckpointFault(NamedTuple):
    """Proof that a checkpoint is not whole (FAULTS), or why that can't be told (LIMITS)."""

    kind: str  # see FAULTS and LIMITS
    detail: str  # plain words with the numbers that were read
    file: str = ""


FAULTS = {
    "empty": "0 bytes",
    "tiny": "too small to be a checkpoint",
    "all-zero": "holds zeros where a header belongs",
    "lfs-pointer": "a Git LFS pointer, not the file",
    "html": "a web page",
    "xml-error": "an error answer of a store",
    "json-error": "a JSON text, not a checkpoint",
    "truncated": "its end is missing",
    "trailing-bytes": "bytes after its end",
    "prepended-bytes": "bytes before its beginning",
    "zip-structure": "the ZIP directory does not fit the file",
    "member-missing": "a record that it needs is not there",
    "member-extra": "a record that nothing refers to",
    "storage-size": "a tensor does not fit its record",
    "byteorder": "byte order absent or not little",
    "version": "format version absent or unknown",
    "pickle": "its object description cannot be read",
    "header": "its header contradicts itself or the file",
    "crc": "content differs from its own checksum",
    "zero-hole": "a run of zeros where its checksum says there is content",
    "hash": "content differs from the manifest",
    "manifest-size": "size differs from the manifest",
    "manifest-missing-file": "a file of the manifest is not there",
    "metadata-missing": "no commit marker: the save did not finish",
    "metadata-damaged": "the commit marker cannot be read",
    "shard-missing": "a shard is not there",
    "shard-size": "a shard has another size than its description",
    "part-missing": "a part that this fleet's checkpoints have is not there",
    "unfinished": "a temporary name: the save did not finish",
    "mixed-saves": "parts of different saves",
    "keys-missing": "required keys are not there",
    "world-size": "written by another number of ranks",
    "step-mismatch": "the step inside differs from the name",
    "not-finite": "holds NaN or infinity",
}
"""Every kind of fault, in words."""
LIMITS = {
    "unreadable": "reading it failed, or it was written meanwhile",
    "beyond-reader": "larger, deeper or newer than what is read here",
    "unread-format": "a known format whose content is not checked here",
    "unknown-format": "a format that is not known here",
    "uncommitted": "whole but for the rename of its commit marker",
}
"""Why a check says neither whole nor damaged: limits of the reader, never of the checkpoint."""


class Part(NamedTuple):
    """A run of bytes with the CRC-32 that the format stores for it."""

    name: str
    file: str
    offset: int
    length: int
    crc: int


@dataclass
class StructureCheck:
    """What a structure check found. Whole so far if `faults` and `limits` are empty."""

    format: str = "unknown"  # torch-zip | torch-legacy | safetensors | dcp | sharded | a name of ckpt_formats.py | unknown
    faults: list[CheckpointFault] = field(default_factory=list)
    limits: list[CheckpointFault] = field(default_factory=list)  # what the reader could not see
    loader_limits: list[str] = field(default_factory=list)  # why a usual loader refuses it although it is whole
    suspects: list[CheckpointFault] = field(default_factory=list)  # speaks against it, proves nothing
    notes: list[str] = field(default_factory=list)  # odd, but proves no damage
    parts: list[Part] = field(default_factory=list)
    tensors: dict[str, str] = field(default_factory=dict)  # path -> "float32[2,3]"
    keys: list[str] = field(default_factory=list)  # top-level keys
    scalars: dict[str, Any] = field(default_factory=dict)  # top-level plain values
    refused_globals: list[str] = field(default_factory=list)  # torch.load's weights_only default refuses these
    unsafe_globals: list[str] = field(default_factory=list)  # would run code when loaded without weights_only
    checksummed: bool = False  # every content byte has a checksum in the format
    read_bytes: int = 0
    fingerprint: str = ""  # of every checksum that the format stores: alike in copies of one save
    digest: str = ""  # of every byte, where a content check was asked for it
    needs: dict[str, int] = field(default_factory=dict)  # file -> bytes that the set must have; -1: of any size
    groups: list[tuple[str, int, list[str]]] = field(default_factory=list)  # optimizer: name, parameters (-1 unknown), settings

    def fault(self, kind: str, detail: str, file: str = "") -> None:
        """Add proof of damage, or a limit of the reader, by its kind."""
        if kind not in FAULTS and kind not in LIMITS:
            raise KeyError(kind)
        self.add([CheckpointFault(kind, detail, file)])

    def add(self, found: Iterable[CheckpointFault]) -> None:
        """Add faults and limits, each to its list."""
        for f in found:
            (self.limits if f.kind in LIMITS else self.faults).append(f)

    @property
    def whole(self) -> bool:
        """Nothing was found against it, and everything was seen."""
        return not self.faults and not self.limits


class Bad(Exception):
    """Raised inside a checker where going on makes no sense."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(detail)
        self.kind, self.detail = kind, detail
