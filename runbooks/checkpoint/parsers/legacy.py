"""Structure of a torch.save file older than the ZIP form. Loads nothing. Python 3.8, standard library only."""

from __future__ import annotations

import struct

from runbooks.checkpoint.parsers.machine import Beyond, Global, PickleUnreadable
from runbooks.checkpoint.parsers.pickled import load
from runbooks.checkpoint.parsers.tensors import Walk, describe_top, judge_globals
from runbooks.checkpoint.parsers.torch import SMALL, walked
from runbooks.checkpoint.parsers.types import Bad, Blob, StructureCheck

LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
LEGACY_HEAD = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
LEGACY_WINDOW = 1 << 20


def check_torch_legacy(blob: Blob) -> StructureCheck:
    """Structure of a torch.save file older than the ZIP form: five pickles, then counted raw storages. No checksums."""
    check = StructureCheck(format="torch-legacy")
    try:
        _legacy(check, blob)
    except Bad as e:
        check.fault(e.kind, e.detail, blob.name)
    return check


def _legacy(check: StructureCheck, blob: Blob) -> None:
    window = LEGACY_WINDOW
    while True:
        head = blob.read(0, min(window, blob.size))
        try:
            values, at, names = read_pickles(head)
            break
        except PickleUnreadable as e:
            if len(head) == blob.size or isinstance(e, Beyond):
                raise Bad("truncated" if "ends at" in str(e) else e.kind, f"its object description: {e}") from e
            if window >= SMALL:
                raise Bad("beyond-reader", f"its object description is longer than {SMALL} bytes") from e
            window *= 8
    check.read_bytes += len(head)
    magic, protocol, info, root, keys = values
    if magic != LEGACY_MAGIC or protocol != 1001 or not isinstance(info, dict) or not isinstance(keys, list):
        raise Bad("version", "its legacy header is damaged")
    if info.get("little_endian") is not True:
        check.fault("byteorder", "its header does not say little-endian", blob.name)
    walk = Walk()
    walk.run(root)
    judge_globals(check, names)
    describe_top(check, root)
    walked(check, walk, root, blob.name)
    _legacy_storages(check, blob, walk, keys, at)


def read_pickles(head: bytes) -> tuple[list[object], int, set[Global]]:
    """The five pickles of a legacy file, and where they end. Raises Unreadable."""
    at = 0
    values: list[object] = []
    names: set[Global] = set()
    for _ in range(5):
        value, at, found = load(head, at)
        values.append(value)
        names |= found
    return values, at, names


def _legacy_storages(check: StructureCheck, blob: Blob, walk: Walk, keys: list[object], at: int) -> None:
    for missing in sorted(set(walk.storages) - {str(k) for k in keys}):
        check.fault("member-missing", f"storage {missing} is not in its list", blob.name)
    for key in keys:
        storage = walk.storages.get(str(key))
        raw = blob.read(at, 8)
        check.read_bytes += 8
        if len(raw) < 8:
            raise Bad("truncated", f"it ends at byte {blob.size}, before storage {key}")
        count = struct.unpack("<q", raw)[0]
        if storage is None:
            raise Bad("pickle", f"storage {key} is in its list, and nothing refers to it")
        if count * storage.item != storage.bytes:
            raise Bad(
                "storage-size",
                f"storage {key} has {count} elements, {storage.bytes // storage.item} are expected",
            )
        at += 8 + storage.bytes
    if at > blob.size:
        raise Bad("truncated", f"{blob.size} bytes are there, {at} are needed")
    if at < blob.size:
        raise Bad("trailing-bytes", f"{blob.size - at} bytes lie behind its end")
