"""A ZIP's directory, read strictly: where it begins and ends must fit the file. Standard library only, Python 3.8."""

from __future__ import annotations

import struct
from typing import NamedTuple

from runbooks.checkpoint.parsers.types import Bad, Blob

EOCD, EOCD64, LOCATOR = struct.Struct("<4s4H2LH"), struct.Struct("<4sQ2H2L4Q"), struct.Struct("<4sLQL")
CENTRAL, LOCAL = struct.Struct("<4s6H3L5H2L"), struct.Struct("<4s5H3L2H")
TAIL = 64 << 10
FAR_TAIL = 1 << 20
LARGEST_DIRECTORY = 64 << 20
MAX_GAP = 0xFFFF + 24  # extra field of a local header + data descriptor


class ZipMember(NamedTuple):
    """One record of the directory."""

    name: str
    offset: int  # of its local header
    size: int
    crc: int
    method: int
    flags: int
    odd: tuple[int, ...]  # fields that carry nothing for torch and are alike in all records of one writer

    @property
    def raw_name(self) -> bytes:
        """Name as stored."""
        return self.name.encode("utf-8", "surrogateescape")


class Zip(NamedTuple):
    """A directory that fits its file."""

    members: tuple[ZipMember, ...]
    directory: int  # offset
    read_bytes: int
    notes: tuple[str, ...]


def parse_zip(blob: Blob) -> Zip:
    """The directory of `blob`. Raises Bad: truncated, trailing-bytes, prepended-bytes, zip-structure."""
    eocd_at, tail, tail_at = _find_end(blob)
    count, size, offset, start, usual = _sizes(eocd_at, tail, tail_at)
    if size > LARGEST_DIRECTORY:
        kind = "beyond-reader" if size < blob.size else "zip-structure"
        raise Bad(kind, f"a directory of {size} bytes, at most {LARGEST_DIRECTORY} are read")
    shift = start - (offset + size)
    if shift > 0:
        raise Bad("prepended-bytes", f"{shift} bytes lie before its beginning")
    if shift < 0:
        raise Bad("truncated", f"{-shift} bytes are missing before its directory")
    raw = tail[offset - tail_at : start - tail_at] if offset >= tail_at else blob.read(offset, size)
    members = _members(raw, count)
    if len({m.flags for m in members if m.size}) > 1 or any(m.odd[7] for m in members):
        raise Bad("zip-structure", "a record of its directory has other flags or lies on another disk")
    _check_order(members, offset)
    odd = len({m.odd for m in members if m.size}) > 1
    notes: tuple[str, ...] = ("records differ in fields that a writer sets alike",) if odd else ()
    notes += () if usual else ("its end record has versions or disk numbers that no known writer sets",)
    return Zip(members, offset, len(tail) + (size if offset < tail_at else 0), notes)


def _find_end(blob: Blob) -> tuple[int, bytes, int]:
    for reach in (TAIL, FAR_TAIL):
        at = max(0, blob.size - reach)
        tail = blob.read(at, blob.size - at)
        found = tail.rfind(b"PK\x05\x06")
        while found >= 0:
            if found + EOCD.size <= len(tail):
                comment = int(EOCD.unpack_from(tail, found)[7])
                behind = len(tail) - found - EOCD.size - comment
                if behind == 0:
                    return at + found, tail, at
                if behind > 0 and _plausible(tail, found, at):
                    raise Bad("trailing-bytes", f"{behind} bytes lie behind its end")
            found = tail.rfind(b"PK\x05\x06", 0, found)
        if at == 0:
            break
    zeros = len(tail) - len(tail.rstrip(b"\0"))
    if zeros >= 512:
        raise Bad("truncated", f"its last {zeros} bytes or more are zeros and its directory is missing")
    raise Bad("truncated", f"no directory at its end ({blob.size} bytes are there)")


def _plausible(tail: bytes, found: int, at: int) -> bool:
    fields = EOCD.unpack_from(tail, found)
    return bool(fields[6] == 0xFFFFFFFF or fields[5] + fields[6] <= at + found)


def _sizes(eocd_at: int, tail: bytes, tail_at: int) -> tuple[int, int, int, int, bool]:
    """Records, directory size, directory offset as written, where the directory really ends, and whether the fields that no
    reader needs are as writers set them."""
    _, disk, first_disk, here, count, size, offset, comment = EOCD.unpack_from(tail, eocd_at - tail_at)
    if disk or first_disk or here != count:
        raise Bad("zip-structure", "its end record speaks of several disks")
    usual, start, locator_at = True, eocd_at, eocd_at - LOCATOR.size - tail_at
    if locator_at >= 0 and tail[locator_at : locator_at + 4] == b"PK\x06\x07":
        end64 = locator_at - EOCD64.size
        if end64 < 0 or tail[end64 : end64 + 4] != b"PK\x06\x06":
            raise Bad("zip-structure", "its 64-bit end record is missing")
        wide = EOCD64.unpack_from(tail, end64)
        _, disk, where, disks = LOCATOR.unpack_from(tail, locator_at)
        host, version = divmod(wide[2], 256)
        usual = (disk, disks, wide[3]) == (0, 1, 45) and host in (0, 3) and version in (30, 45)  # miniz, Python
        _agree((count, 0xFFFF, wide[7]), (size, 0xFFFFFFFF, wide[8]), (offset, 0xFFFFFFFF, wide[9]))
        if wide[6] != wide[7] or wide[4] or wide[5] or disks > 1 or wide[1] != EOCD64.size - 12:
            raise Bad("zip-structure", "its 64-bit end record contradicts itself")
        count, size, offset, start = wide[7], wide[8], wide[9], tail_at + end64
        if where != offset + size:
            raise Bad("zip-structure", "its locator points elsewhere")
    if comment:
        raise Bad("trailing-bytes", f"a comment of {comment} bytes; torch writes none")
    return count, size, offset, start, usual


def _agree(*triples: tuple[int, int, int]) -> None:
    for narrow, cap, wide in triples:
        if narrow not in (cap, wide & cap, wide):
            raise Bad("zip-structure", f"its end records disagree ({narrow} and {wide})")


def _members(raw: bytes, count: int) -> tuple[ZipMember, ...]:
    found: list[ZipMember] = []
    at = 0
    while at < len(raw):
        if at + CENTRAL.size > len(raw) or raw[at : at + 4] != b"PK\x01\x02":
            raise Bad("zip-structure", f"record {len(found)} of the directory is damaged")
        f = CENTRAL.unpack_from(raw, at)
        flags, method, crc, packed, size = f[3], f[4], f[7], f[8], f[9]
        name_end = at + CENTRAL.size + f[10]
        end = name_end + f[11] + f[12]
        if end > len(raw):
            raise Bad("zip-structure", f"record {len(found)} of the directory is cut off")
        size, packed, offset = _wide(raw[name_end : name_end + f[11]], size, packed, f[16])
        if method == 0 and size != packed:
            raise Bad("zip-structure", f"record {len(found)}: stored, but {packed} of {size} bytes")
        name = raw[at + CENTRAL.size : name_end].decode("utf-8", "surrogateescape")
        odd = (f[1], f[2], flags, method, f[5], f[6], f[12], f[13], f[14], f[15])
        found.append(ZipMember(name, offset, size, crc, method, flags, odd))
        at = end
    if len(found) != count:
        raise Bad("zip-structure", f"its directory has {len(found)} records, its end says {count}")
    return tuple(found)


def _wide(extra: bytes, size: int, packed: int, offset: int) -> tuple[int, int, int]:
    """Sizes and offset from the 64-bit extra field, where the narrow ones are full."""
    at = 0
    while at + 4 <= len(extra):
        tag, length = struct.unpack_from("<HH", extra, at)
        if tag == 1 and at + 4 + length <= len(extra):
            values = list(struct.unpack_from(f"<{length // 8}Q", extra, at + 4))
            out = [values.pop(0) if v == 0xFFFFFFFF and values else v for v in (size, packed, offset)]
            return out[0], out[1], out[2]
        at += 4 + length
    return size, packed, offset


def _check_order(members: tuple[ZipMember, ...], directory: int) -> None:
    ordered = sorted(members, key=lambda m: m.offset)
    if ordered and ordered[0].offset:
        raise Bad("zip-structure", f"{ordered[0].offset} bytes before its first record")
    ends = [m.offset for m in ordered[1:]] + [directory]
    for member, end in zip(ordered, ends):  # noqa: B905 - no strict= before Python 3.10
        if member.method:
            continue
        gap = end - (member.offset + LOCAL.size + len(member.raw_name) + member.size)
        if not 0 <= gap <= MAX_GAP:
            raise Bad("zip-structure", f"record {member.name}: {gap} bytes until the next one")
    if len({m.name for m in members}) != len(members):
        raise Bad("zip-structure", "a record is there twice")


def data_start(blob: Blob, member: ZipMember) -> tuple[int, bytes]:
    """Where a member's content begins, and its extra field. Raises Bad where its local header disagrees."""
    head = blob.read(member.offset, LOCAL.size + len(member.raw_name))
    if len(head) < LOCAL.size or head[:4] != b"PK\x03\x04":
        raise Bad("zip-structure", f"record {member.name} has no local header")
    f = LOCAL.unpack_from(head)
    name, streamed = head[LOCAL.size :], f[2] & 8
    told = f[6] == member.crc and all(v in (member.size & 0xFFFFFFFF, 0xFFFFFFFF) for v in (f[7], f[8]))
    later = bool(streamed) and f[6:9] == (0, 0, 0)  # they stand behind the content instead
    if name != member.raw_name or f[9] != len(name) or f[3] != member.method or f[2] != member.flags:
        raise Bad("zip-structure", f"record {member.name}: its local header names something else")
    if not (told or later) and member.method == 0:
        raise Bad("zip-structure", f"record {member.name}: its local header has other sizes or checksum")
    start = member.offset + LOCAL.size + len(name) + f[10]
    return start, blob.read(member.offset + LOCAL.size + len(name), f[10])


def local_fields_alike(blob: Blob, member: ZipMember) -> bool:
    """Version and time in the local header are those of the directory."""
    header = blob.read(member.offset, LOCAL.size)
    if len(header) < LOCAL.size:  # the file became shorter since the directory was read
        return False
    f = LOCAL.unpack_from(header)
    return (f[1], f[4], f[5]) == (member.odd[1], member.odd[4], member.odd[5])


def descriptor_ok(blob: Blob, member: ZipMember, start: int, end: int) -> bool:
    """The bytes between a member's content and the next record are a descriptor that agrees, or nothing."""
    raw = blob.read(start + member.size, end - start - member.size)
    crc, size = struct.pack("<L", member.crc), member.size
    forms = [struct.pack(f, size, size) for f in (("<2L", "<2Q") if size < 1 << 32 else ("<2Q",))]
    return raw in [b"", *(s + crc + f for f in forms for s in (b"PK\x07\x08", b""))]
