"""What a file is by its first bytes, and its structure check. Standard library only, Python 3.8."""

from __future__ import annotations

from runbooks.checkpoint.parsers.formats import check_other
from runbooks.checkpoint.parsers.legacy import LEGACY_HEAD, LEGACY_MAGIC, check_torch_legacy
from runbooks.checkpoint.parsers.machine import PickleUnreadable
from runbooks.checkpoint.parsers.pickled import load
from runbooks.checkpoint.parsers.safetensors import check_safetensors
from runbooks.checkpoint.parsers.torch import check_torch_zip
from runbooks.checkpoint.parsers.types import Blob, CheckpointFault, StructureCheck

HEAD = 512
TAIL = 64 << 10
TINY = 64  # no format's whole file is smaller
ZIP = b"PK\x03\x04"
SUFFIXES = (".safetensors",)


def check_file(blob: Blob) -> StructureCheck:
    """Structure of one file, whatever its format."""
    head = blob.read(0, min(HEAD, blob.size)) if blob.size else b""
    kind, detail = _impostor(head, blob.size)
    if kind:
        check = StructureCheck(read_bytes=len(head))
        check.fault(kind, detail, blob.name)
        return check
    check = _by_magic(blob, head)
    check.read_bytes += len(head)
    return check


def _by_magic(blob: Blob, head: bytes) -> StructureCheck:
    if head.startswith(ZIP):
        return check_torch_zip(blob)
    if blob.name.endswith(SUFFIXES) or _looks_like_safetensors(head):
        return _suspect_tail(check_safetensors(blob), blob)
    if head.startswith(b"\x80") and _is_legacy(head):
        return _suspect_tail(check_torch_legacy(blob), blob)
    check = StructureCheck()
    if not head.startswith(b"\x80") and check_other(check, blob, head):
        return check
    tail = check_torch_zip(blob)
    if any(f.kind == "prepended-bytes" for f in tail.faults):
        check.fault("prepended-bytes", tail.faults[0].detail, blob.name)
    elif not any(f.kind == "truncated" for f in tail.faults):
        check.fault("zip-structure", f"a ZIP directory at its end, but it begins with {head[:8].hex()}", blob.name)
    elif LEGACY_HEAD in head:
        check.fault("prepended-bytes", f"{head.index(LEGACY_HEAD)} bytes lie before its beginning", blob.name)
    elif head.startswith(b"\x80"):
        check.fault("unknown-format", "a pickle that torch.save did not write", blob.name)
    else:
        check.fault("unknown-format", f"it begins with {head[:8].hex()}, which no format that is known here does", blob.name)
    return check


def _is_legacy(head: bytes) -> bool:
    try:
        return bool(load(head)[0] == LEGACY_MAGIC)
    except PickleUnreadable:
        return head.startswith(LEGACY_HEAD[:4])


def _suspect_tail(check: StructureCheck, blob: Blob) -> StructureCheck:
    """Zeros at the end of a format without checksums: a full disk, or a tensor that is really zero."""
    at = max(0, blob.size - TAIL)
    tail = blob.read(at, blob.size - at)
    check.read_bytes += len(tail)
    zeros = len(tail) - len(tail.rstrip(b"\0"))
    if check.whole and zeros >= 4096:
        check.suspects.append(CheckpointFault("all-zero", f"its last {zeros} bytes or more are zeros", blob.name))
    return check


def _looks_like_safetensors(head: bytes) -> bool:
    return len(head) > 9 and head[8:9] == b"{" and head[5:8] == b"\0\0\0"


def _impostor(head: bytes, size: int) -> tuple[str, str]:
    if size == 0:
        return "empty", "0 bytes"
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if text.startswith(b"version https://git-lfs"):
        return "lfs-pointer", f"a Git LFS pointer of {size} bytes: `git lfs pull` was not run"
    if text.startswith((b"<!doctype html", b"<html")):
        return "html", f"a web page of {size} bytes: a download got an error or login page"
    if text.startswith((b"<?xml", b"<error>")):
        return "xml-error", f"an XML text of {size} bytes, as a store answers an error"
    if text.startswith((b'{"', b"{\n", b"{ ", b"[")):
        return "json-error", f"a JSON text of {size} bytes"
    if not head.strip(b"\0"):
        return "all-zero", f"its first {len(head)} of {size} bytes are zeros"
    if size < TINY:
        return "tiny", f"{size} bytes"
    return "", ""
