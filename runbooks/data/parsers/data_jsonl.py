"""Checks a JSONL file as a stream of lines: where it breaks, what is on a line, which keys occur. Python 3.8, stdlib
only."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from typing import Any, NamedTuple

from runbooks.parsers.file_magic import format_of, packed_with

BOM = b"\xef\xbb\xbf"
LONGEST_LINE = 64 << 20
PIECE = 1 << 20  # unpacked bytes at a time
MOST = 20  # faults that are kept
OF_ANY_TEXT = ("bad-line", "not-object", "several-values", "empty-line", "encoding", "cut-last-line")  # what a text of no JSON gets
MOST_KEYS = 200  # that are told
RECORDS = 1000  # whose inner values are looked into
DEPTH = 4  # below a record
LIMITS = ("too-long", "too-deep", "other-format", "not-utf8", "version")  # of this reader: nothing is wrong with the file by them


class DataFault(NamedTuple):
    """One thing that is wrong, and where."""

    kind: str
    detail: str
    line: int = 0
    offset: int = 0


class DataFound(NamedTuple):
    """What a data file is."""

    lines: int
    faults: tuple[DataFault, ...]
    more: int  # faults beyond those kept
    keys: tuple[tuple[str, int], ...]  # key -> in how many lines, most frequent first; of one array in how many of its objects
    bytes: int
    final_newline: bool
    below: tuple[str, ...] = ()  # keys of values inside the first records


def sniff(head: bytes) -> DataFault | None:
    """What a file is that is no JSONL at all, by its first bytes."""
    packed = packed_with(head)
    if packed:
        return DataFault("compressed", f"compressed with {packed}; it was not unpacked")
    form = format_of(head)
    if form:
        return DataFault("other-format", f"a file of {form}; its content is not read here")
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return DataFault("encoding", "UTF-16 (byte order mark); UTF-8 is expected")
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if text.startswith(b"version https://git-lfs"):
        return DataFault("lfs-pointer", "a Git LFS pointer, not the data")
    if text[:9].lower().startswith((b"<!doctype", b"<html", b"<?xml")):
        return DataFault("not-data", "a web page or error answer")
    return None


def gzip_cut(chunks: Iterable[bytes]) -> DataFault | None:
    """Whether a gzip file ends before its own end; None as well where it is damaged in another way."""
    unpack, packed = zlib.decompressobj(31), 0
    try:
        for chunk in chunks:
            packed += len(chunk)
            rest = chunk
            while rest:
                while rest and not unpack.eof:
                    unpack.decompress(rest, PIECE)
                    rest = unpack.unconsumed_tail
                rest = unpack.unused_data.lstrip(b"\0")
                if unpack.eof and rest:  # a further member
                    unpack = zlib.decompressobj(31)
                elif unpack.eof:
                    break
        while not unpack.eof and unpack.decompress(b"", PIECE):
            pass  # what it still holds back
    except zlib.error:
        return None
    if unpack.eof:
        return None
    return DataFault("cut-last-line", f"compressed with gzip, and its {packed} bytes end before the end of the compressed data")


def one_value(data: bytes, size: int) -> DataFound:
    """A file that holds one JSON value: an array, or an object over several lines. `data` is all of it, or its beginning."""
    what = "a JSON array" if data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"[") else "one JSON object over several lines"
    end = data.endswith(b"\n")
    if len(data) < size:
        return DataFound(0, (DataFault("too-long", f"{what} of {size} bytes; at most {LONGEST_LINE} are parsed"),), 0, (), size, end)
    try:
        value = json.loads(data.decode("utf-8-sig"))
    except RecursionError:
        return DataFound(0, (DataFault("too-deep", f"{what}, nested too deeply"),), 0, (), size, end)
    except UnicodeDecodeError as e:
        return DataFound(0, (_not_utf8(data, e, 0, 0),), 0, (), size, end)
    except ValueError as e:
        return DataFound(0, (_broken(what, data, e),), 0, (), size, end)
    told = DataFault("json-array", f"{what}: read it as one value, or write one object per line")
    keys: dict[str, int] = {}
    below: set[str] = set()
    for record in value if isinstance(value, list) else ():
        if isinstance(record, dict):
            _count(record, keys)
            _inner(record, below)
    return DataFound(0, (*_mark(data), told), 0, _ranked(keys), size, end, tuple(sorted(below)[:MOST_KEYS]))


def _not_utf8(data: bytes, e: UnicodeDecodeError, line: int, offset: int) -> DataFault:
    """Another encoding; a character of which only the first bytes are there, at the end of all, is the mark of a file that was cut off."""
    if e.reason == "unexpected end of data" and not data.endswith(b"\n"):
        words = f"{'the last line' if line else 'it'} ends within a character: byte 0x{data[e.start]:02x} has no end"
        return DataFault("cut-last-line", words, line, offset + e.start)
    return DataFault("encoding", f"byte 0x{data[e.start]:02x} is not UTF-8", line, offset + e.start)


def _broken(what: str, data: bytes, e: ValueError) -> DataFault:
    """A value that does not parse: its end is missing, or something in it is wrong."""
    text = data.decode("utf-8-sig").rstrip()
    at = getattr(e, "pos", 0)
    cut = at >= len(text) or str(e).startswith("Unterminated string") or not text.endswith(("]", "}"))
    line = getattr(e, "lineno", 0)
    if cut:
        return DataFault("cut-last-line", f"{what} that ends in the middle: {str(e)[:80]}", line, len(text[:at].encode()))
    return DataFault("bad-line", f"{what} that is not JSON at character {at}: {str(e)[:80]}", line, len(text[:at].encode()))


def check_lines(lines: Iterable[bytes], head: bytes, text_key: str = "") -> DataFound:
    """The whole judgment; `lines` keep their line ends. Stops at nothing but what makes lines meaningless."""
    faults: list[DataFault] = []
    keys: dict[str, int] = {}
    count = offset = more = 0
    first = sniff(head)
    if first is not None:
        return DataFound(0, (first,), 0, (), len(head), head.endswith(b"\n"))
    line, missing, objects, skipping, other = b"", 0, 0, False, True
    below: set[str] = set()
    strange: DataFault | None = None
    for line in lines:
        if skipping:  # the rest of a line that was too long
            skipping, offset = not line.endswith(b"\n"), offset + len(line)
            continue
        skipping = len(line) > LONGEST_LINE and not line.endswith(b"\n")
        count += 1
        other = other and line.lstrip()[:1] not in (b"{", b"[")
        fault = _line(line, count, offset, keys, text_key, below)
        strange = strange or (fault if fault is not None and fault.kind == "encoding" else None)
        if fault is not None and fault.kind == "wrong-key":
            missing += 1
        objects += fault is None or fault.kind == "wrong-key"
        if fault is not None and (fault.kind != "wrong-key" or missing == 1):
            more += len(faults) >= MOST
            if len(faults) < MOST:
                faults.append(fault)
        offset += len(line)
    final = line.endswith(b"\n")
    ranked = _ranked(keys)
    faults = [_explain(f, count, final, missing, ranked) for f in faults]
    if count == 0:
        faults.append(DataFault("empty", "no line"))
    never = count > 1 or any(f.kind in ("bad-line", "cut-last-line") and f.offset == 0 for f in faults)  # a lone line may be cut later on
    if never and not objects and other and all(f.kind in OF_ANY_TEXT for f in faults):
        what = f"no line of {count} begins" if count > 1 else "its only line does not begin"
        faults, more = [DataFault("other-format", f"{what} like JSON: a text of another form")], 0
        faults += [strange._replace(kind="not-utf8")] if strange else []
    return DataFound(count, (*_mark(head), *faults), more, ranked, offset, final, tuple(sorted(below)[:MOST_KEYS]))


def _mark(head: bytes) -> tuple[DataFault, ...]:
    """The byte order mark at the head of a file of either form."""
    return (DataFault("bom", "a byte order mark (EF BB BF) before the first value", 1, 0),) if head.startswith(BOM) else ()


def _line(line: bytes, number: int, offset: int, keys: dict[str, int], text_key: str, below: set[str]) -> DataFault | None:
    if len(line) > LONGEST_LINE:
        return DataFault("too-long", f"more than {LONGEST_LINE} bytes in one line: it was not parsed", number, offset)
    if not line.strip():
        return DataFault("empty-line", "an empty line", number, offset)
    if not line.strip(b"\0\r\n"):
        return DataFault("zeros", f"{len(line)} zero bytes", number, offset)
    try:
        text = line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as e:
        return _not_utf8(line, e, number, offset)
    return _value(text.strip(), number, offset, keys, text_key, below)


def _value(text: str, number: int, offset: int, keys: dict[str, int], text_key: str, below: set[str]) -> DataFault | None:
    try:
        value, end = json.JSONDecoder().raw_decode(text)
    except ValueError as e:
        at = getattr(e, "pos", 0)
        return DataFault(
            "bad-line", f"not JSON at character {at}: {str(e)[:80]}", number, offset + len(text[:at].encode())
        )
    except RecursionError:
        return DataFault("too-deep", "nested too deeply to be parsed here", number, offset)
    if text[end:].strip():
        where = offset + len(text[:end].encode())
        return DataFault(
            "several-values", f"more than one value on the line, the second at character {end}", number, where
        )
    if not isinstance(value, dict):
        return DataFault("not-object", f"a {type(value).__name__}, not an object", number, offset)
    if number <= RECORDS:
        _inner(value, below)
    return _keys(value, number, offset, keys, text_key)


def _keys(value: dict[str, Any], number: int, offset: int, keys: dict[str, int], text_key: str) -> DataFault | None:
    _count(value, keys)
    if text_key and not isinstance(value.get(text_key), str):
        found = "is not there" if text_key not in value else f"is a {type(value[text_key]).__name__}"
        return DataFault("wrong-key", f"key {text_key!r} {found}", number, offset)
    return None


def _count(record: dict[str, Any], keys: dict[str, int]) -> None:
    for key in record:
        if key in keys or len(keys) < 1000:
            keys[key] = keys.get(key, 0) + 1


def _ranked(keys: dict[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(keys.items(), key=lambda k: (-k[1], k[0]))[:MOST_KEYS])


def _inner(value: Any, below: set[str], depth: int = 0) -> None:
    """Adds the keys of objects inside a record, in its lists too."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if depth < DEPTH and len(below) <= MOST_KEYS:
        for item in inside:
            if isinstance(item, dict):
                below.update(item)
            _inner(item, below, depth + 1)


def _explain(fault: DataFault, count: int, final: bool, missing: int, keys: tuple[tuple[str, int], ...]) -> DataFault:
    if fault.kind == "bad-line" and fault.line == count and not final:
        return fault._replace(
            kind="cut-last-line", detail=f"the last line ends in the middle, without a line end: {fault.detail}"
        )
    if fault.kind == "wrong-key":
        shown = ", ".join(f"{k} ({n})" for k, n in keys[:8])
        return fault._replace(detail=f"{fault.detail} in {missing} of {count} lines; keys that occur: {shown}")
    return fault
