"""Structure of one torch.save file, ZIP or legacy form. Loads nothing. Python 3.8, standard library only."""

from __future__ import annotations

import hashlib
from zlib import crc32

from runbooks.checkpoint.parsers.formats import zip_format
from runbooks.checkpoint.parsers.groups import groups_of
from runbooks.checkpoint.parsers.machine import PickleUnreadable
from runbooks.checkpoint.parsers.pickled import load
from runbooks.checkpoint.parsers.tensors import Walk, describe_top, judge_globals
from runbooks.checkpoint.parsers.types import Bad, Blob, Part, StructureCheck
from runbooks.checkpoint.parsers.zip_file import (
    Zip,
    ZipMember,
    data_start,
    descriptor_ok,
    local_fields_alike,
    parse_zip,
)

SMALL = 64 << 20
MASK = (1 << 64) - 1


def check_torch_zip(blob: Blob) -> StructureCheck:
    """Structure of a torch.save ZIP. Every byte of content can then be proven by the parts of `list_parts`."""
    check = StructureCheck(format="torch-zip")
    try:
        found = parse_zip(blob)
        check.read_bytes += found.read_bytes
        check.notes.extend(found.notes)
        _check_records(check, blob, found)
    except Bad as e:
        check.fault(e.kind, e.detail, blob.name)
    return check


def _check_records(check: StructureCheck, blob: Blob, found: Zip) -> None:
    other = zip_format([m.name for m in found.members])
    if other:
        check.format = other
        raise Bad("unread-format", f"a file of {other}, whole by its directory; its records are not read here")
    tops = {m.name.split("/", 1)[0] for m in found.members if "/" in m.name}
    if len(tops) != 1 or any("/" not in m.name for m in found.members):
        raise Bad(
            "zip-structure",
            "its records do not lie under one folder: not written by torch.save, or packed again",
        )
    top = tops.pop()
    by_name = {m.name[len(top) + 1 :]: m for m in found.members}
    new = ".format_version" in by_name
    _small_records(check, blob, by_name, new)
    _check_id(check, blob, found, by_name, new)
    if "data.pkl" not in by_name:
        raise Bad("member-missing", "data.pkl, the description of its objects, is missing")
    walk = _walk(check, _content(check, blob, by_name["data.pkl"]), blob.name)
    if walk is not None:
        _match(check, walk, by_name, blob.name)
    check.checksummed = _has_crc(found) and all(m.method == 0 for m in found.members)
    if check.checksummed:
        check.fingerprint = _fingerprint(by_name)
    else:
        check.notes.append("written without checksums (or packed again): content cannot be proven from the file itself")


def _fingerprint(by_name: dict[str, ZipMember]) -> str:
    """Alike in copies of one save, whatever their file is called."""
    lines = [f"{n} {m.size} {m.crc:08x}" for n, m in sorted(by_name.items()) if n != ".data/serialization_id"]
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogateescape")).hexdigest()[:32]


def _has_crc(found: Zip) -> bool:
    return any(m.crc for m in found.members if m.size)


def _small_records(check: StructureCheck, blob: Blob, by_name: dict[str, ZipMember], new: bool) -> None:
    if "version" not in by_name:
        check.fault("version", "its record `version` is missing", blob.name)
    else:
        text = _content(check, blob, by_name["version"]).strip()
        if not text.isdigit() or not 1 <= int(text) <= 99:
            check.fault("version", f"its version is {text[:20]!r}", blob.name)
    if "byteorder" not in by_name:
        if new:
            check.fault("byteorder", "its record `byteorder` is missing", blob.name)
        return
    order = _content(check, blob, by_name["byteorder"])
    if order != b"little":
        check.fault("byteorder", f"its byte order is {order[:20]!r}: values would be swapped while loading", blob.name)


def _content(check: StructureCheck, blob: Blob, member: ZipMember) -> bytes:
    """A small record, its checksum compared."""
    if member.size > SMALL or member.method:
        raise Bad("beyond-reader", f"record {member.name} is {member.size} bytes (read are {SMALL}), or compressed")
    start, _ = data_start(blob, member)
    data = blob.read(start, member.size)
    check.read_bytes += len(data) + 200
    if member.crc and crc32(data) != member.crc:
        raise Bad("crc", f"record {member.name} differs from its checksum")
    return data


def _check_id(check: StructureCheck, blob: Blob, found: Zip, by_name: dict[str, ZipMember], new: bool) -> None:
    """The id that torch writes last folds the checksums of all records, in the order of writing."""
    member = by_name.get(".data/serialization_id")
    if member is None:
        if new:
            check.fault("member-missing", "its record .data/serialization_id is missing", blob.name)
        return
    text = _content(check, blob, member)
    if not _has_crc(found) or len(text) != 40 or not text.isdigit():
        return
    folded = 0
    for m in sorted(found.members, key=lambda m: m.offset):
        if m is not member and m.size:  # torch leaves empty records out
            folded = (folded ^ (m.crc + 0x9E3779B9 + ((folded << 6) & MASK) + (folded >> 2))) & MASK
    if folded != int(text[20:]):
        words = "its own id does not fit its records: a record was exchanged or changed after the save"
        check.fault("crc", words, blob.name) if new else check.notes.append(words)


def _walk(check: StructureCheck, data: bytes, name: str) -> Walk | None:
    try:
        root, end, found = load(data)
    except PickleUnreadable as e:
        check.fault(e.kind, f"data.pkl: {e}", name)
        return None
    if end != len(data):
        check.fault("pickle", f"data.pkl ends at {end} of {len(data)} bytes", name)
    walk = Walk()
    walk.run(root)
    judge_globals(check, found)
    describe_top(check, root)
    walked(check, walk, root, name)
    return walk


def walked(check: StructureCheck, walk: Walk, root: object, name: str) -> None:
    check.tensors, check.groups = walk.tensors, groups_of(root)
    for words in walk.bad:
        check.fault("storage-size", words, name)
    for words in walk.unknown[:1]:
        check.fault("beyond-reader", words, name)


def _match(check: StructureCheck, walk: Walk, by_name: dict[str, ZipMember], name: str) -> None:
    for storage in walk.storages.values():
        member = by_name.get(f"data/{storage.key}")
        if member is None:
            check.fault("member-missing", f"record data/{storage.key} of {storage.bytes} bytes is missing", name)
        elif member.method == 0 and member.size != storage.bytes:
            words = f"record data/{storage.key} has {member.size} bytes, its tensors need {storage.bytes}"
            check.fault("storage-size", words, name)
    extra = [n for n in by_name if n.startswith("data/") and n[5:] not in walk.storages]
    if extra:
        check.notes.append(f"{len(extra)} records that nothing refers to, e.g. {extra[0]}")


def read_object(blob: Blob) -> object:
    """The object of a small torch.save ZIP, as data. Raises Bad, Unreadable."""
    for member in parse_zip(blob).members:
        if member.name.endswith("/data.pkl"):
            return load(_content(StructureCheck(), blob, member))[0]
    raise Bad("member-missing", "data.pkl is missing")


def list_parts(blob: Blob, file: str, base: int = 0) -> tuple[list[Part], list[str]]:
    """Every record of a ZIP with its checksum, and notes on the bytes between them. Raises Bad."""
    found = parse_zip(blob)
    ordered = sorted(found.members, key=lambda m: m.offset)
    ends = [m.offset for m in ordered[1:]] + [found.directory]
    parts, notes = [], list(found.notes)
    for member, end in zip(ordered, ends):  # noqa: B905 - no strict= before Python 3.10
        start, extra = data_start(blob, member)
        if not local_fields_alike(blob, member):
            notes.append(f"record {member.name}: its local header has another version or time than the directory")
        if start + member.size > end:
            raise Bad("zip-structure", f"record {member.name} runs into the next one")
        if extra[4:].strip(b"Z") or (extra and extra[:4] != b"FB" + (len(extra) - 4).to_bytes(2, "little")):
            notes.append(f"record {member.name}: unusual padding")
        if not descriptor_ok(blob, member, start, end):
            notes.append(f"record {member.name}: the bytes behind it are not its descriptor")
        if member.method == 0 and _has_crc(found):
            parts.append(Part(member.name, file, base + start, member.size, member.crc))
    return parts, notes
