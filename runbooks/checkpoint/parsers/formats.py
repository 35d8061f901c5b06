"""Checkpoint formats that are known by name: what a folder or file is, and what its own sizes say. Python 3.8, stdlib only.

Their content is not read; where a format states how long its file must be, that is tried against the file.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable
from typing import Any

from runbooks.checkpoint.parsers.gguf import gguf_size
from runbooks.checkpoint.parsers.msgpack import msgpack_end
from runbooks.checkpoint.parsers.types import Blob, StructureCheck
from runbooks.parsers.file_magic import format_of, packed_with

FOLDERS: tuple[tuple[str, str], ...] = (  # (format, pattern of a relative name that no other format has); the first that fits
    ("Megatron zarr", r"^(?=.*/\.zarray$)(?:model|optimizer|common|chained)[^/]*/"),
    ("Orbax", r"(^|/)(_CHECKPOINT_METADATA|manifest\.ocdbt|ocdbt\.process_\d+/.*|_METADATA|commit_success\.txt|_sharding|\.zarray)$"),
    ("TensorFlow SavedModel", r"(^|/)saved_model\.pbt?(xt)?$"),
    ("TensorFlow", r"\.data-\d{5}-of-\d{5}$|(^|/)(ckpt|model\.ckpt)[^/]*\.index$"),
)
DATA = re.compile(r"(?P<stem>.+)\.(?P<part>data|index)(?:-(?P<number>\d{5})-of-(?P<of>\d{5}))?$")
ORBAX_OPEN = re.compile(r"\.orbax-checkpoint-tmp(-\d+)?(/|$)")


def folder_format(names: Iterable[str]) -> str:
    """The format of a set of files by their names, "" where they do not tell."""
    known = sorted(names)
    for form, pattern in FOLDERS:
        if any(re.search(pattern, n) for n in known):
            return form
    return ""


def check_folder(check: StructureCheck, form: str, sizes: dict[str, int]) -> None:
    """What names and sizes alone say of a set of that format; its content is not read."""
    check.format = form
    for stem, numbers, of in _tensorflow(sizes) if form == "TensorFlow" else ():
        missing = sorted(set(range(of)) - numbers)
        for n in missing:
            name = f"{stem}.data-{n:05d}-of-{of:05d}"
            check.needs[name] = -1
            check.fault("shard-missing", f"{name} is not there; {len(numbers)} of {of} are", name)
        if f"{stem}.index" not in sizes:
            check.fault("metadata-missing", f"{stem}.index is not there, which is written last", f"{stem}.index")
    still = next((n for n in sorted(sizes) if ORBAX_OPEN.search(n)), "")
    if still:
        check.fault("unfinished", f"Orbax has not given it its final name: {still}", still)
    check.fault("unread-format", f"{form}: {len(sizes)} files; this format is known by name, its content is not checked here")


def _tensorflow(sizes: dict[str, int]) -> list[tuple[str, set[int], int]]:
    stems: dict[tuple[str, int], set[int]] = {}
    for match in filter(None, map(DATA.fullmatch, sizes)):
        if match["number"]:
            stems.setdefault((match["stem"], int(match["of"])), set()).add(int(match["number"]))
    return [(stem, numbers, of) for (stem, of), numbers in sorted(stems.items())]


def zip_format(names: list[str]) -> str:
    """The format of a ZIP that torch.save did not write, by its records; "" where they do not tell."""
    if names and all(n.endswith(".npy") for n in names):
        return "NumPy npz"
    if "config.json" in names and any(n.endswith(".weights.h5") for n in names):
        return "Keras"
    return ""


def check_other(check: StructureCheck, blob: Blob, head: bytes) -> bool:
    """Names a file by its first bytes and tries its stated size; False where they are of no format that is known here."""
    for form, begins, size in SIZED:
        if begins(head):
            return _sized(check, blob, form, size)
    packed = packed_with(head)
    name = f"{packed}-compressed" if packed else format_of(head)
    if name:
        check.format = name
        check.fault("unread-format", f"{name}: this format is known by name, its content is not checked here", blob.name)
    return bool(name)


def _sized(check: StructureCheck, blob: Blob, form: str, size: Callable[[Blob], int]) -> bool:
    check.format = form
    try:
        need = size(blob)
    except (ValueError, struct.error, IndexError, OverflowError) as e:
        check.fault("beyond-reader", f"{form}: its size cannot be read from its header ({e})", blob.name)
        return True
    if need > blob.size:
        check.fault("truncated", f"{form}: {blob.size} bytes, its header needs {need}", blob.name)
    else:
        words = f"{form}: as long as its header says ({need} bytes); its content is not checked here"
        check.fault("unread-format", words, blob.name)
    return True


def _hdf5_size(blob: Blob) -> int:
    """Where the superblock says that the file ends. Source: HDF5 File Format Specification 3.0, superblock versions 0 to 3."""
    head = blob.read(0, 64)
    version, wide = head[8], head[13] if head[8] < 2 else head[9]
    if version > 3 or wide not in (4, 8):
        raise ValueError(f"superblock version {version}, offsets of {wide} bytes")
    at = {0: 24, 1: 28}.get(version, 12) + 2 * wide
    return int.from_bytes(head[at : at + wide], "little")


def _begins_msgpack(head: bytes) -> bool:
    """A map whose first key is a text, as Flax writes it."""
    at = {0xDE: 3, 0xDF: 5}.get(head[0], 1 if 0x81 <= head[0] <= 0x8F else 0) if head else 0
    return bool(at) and len(head) > at + 2 and (0xA1 <= head[at] <= 0xBF or head[at] in (0xD9, 0xDA)) and head[at + 2 : at + 3].isalnum()


SIZED: tuple[tuple[str, Callable[[bytes], Any], Callable[[Blob], int]], ...] = (
    ("HDF5", lambda head: head.startswith(b"\x89HDF\r\n\x1a\n"), _hdf5_size),
    ("GGUF", lambda head: head.startswith(b"GGUF"), gguf_size),
    ("Flax msgpack", _begins_msgpack, msgpack_end),
)
