"""Checks training data files on the node as streams. Changes nothing. JSON argument: {files: [{path, kind, text_key,
vocabulary}]}."""

from __future__ import annotations

import errno
import gzip
import json
import os
import stat
import sys
import zlib
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, cast

from runbooks.data.parsers.data_index import check_ids, check_index
from runbooks.data.parsers.data_jsonl import (
    LIMITS,
    LONGEST_LINE,
    DataFault,
    DataFound,
    check_lines,
    gzip_cut,
    one_value,
    sniff,
)
from runbooks.parsers.file_magic import BY_ENDING, packed_with

MOST_GZIP = 2 << 30  # bytes of a compressed file that are unpacked to see whether its end is there: under a minute
MOST_UNPACKED = 8 << 30  # bytes of what it holds that are judged: minutes


def _open(path: str) -> BinaryIO:
    """A regular file; a pipe or device is never waited for."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EISDIR if os.path.isdir(path) else errno.EINVAL, "no file", path)
    return os.fdopen(fd, "rb")


def _lines(f: BinaryIO, left: int) -> Iterator[bytes]:
    """Lines up to the size that the file had: one that grows is not followed for ever."""
    while left > 0:
        line = f.readline(min(LONGEST_LINE + 1, left))
        if not line:
            return
        left -= len(line)
        yield line


def _pieces(f: BinaryIO, left: int) -> Iterator[bytes]:
    """The file in pieces, up to the size that it had."""
    while left > 0:
        piece = f.read(min(1 << 20, left))
        if not piece:
            return
        left -= len(piece)
        yield piece


def jsonl(ask: dict[str, Any]) -> dict[str, Any]:
    """One JSONL file. One that is packed, as its name says, is judged by what it holds."""
    with _open(ask["path"]) as f:
        before = os.fstat(f.fileno())
        packed = packed_with(f.read(512))
        named = ask["path"].endswith(BY_ENDING.get(packed, ()))
        if packed:
            found = _packed(f, before.st_size, packed, ask.get("text_key", "") if named else None)
        else:
            found = _content(f, before.st_size, ask.get("text_key", ""))
        after = os.stat(ask["path"])
    if (before.st_ino, before.st_size, before.st_mtime_ns) != (after.st_ino, after.st_size, after.st_mtime_ns):
        return {"error": "it changed while it was read: somebody writes it"}
    return {**found._asdict(), "packed": packed if named else "", **_sorted_faults(found.faults)}


def _content(f: BinaryIO, size: int, text_key: str, most: bool = False) -> DataFound:
    """What stands in it, from its beginning to that size. `most`: it has that many bytes at most."""
    f.seek(0)
    head = f.read(512)
    f.seek(0)
    whole = sniff(head) is None and _is_one_value(f, head, size)
    f.seek(0)
    if whole:
        data = f.read(min(size, LONGEST_LINE))
        return one_value(data, len(data) + len(f.read(1)) if most else size)
    return check_lines(_lines(f, size), head, text_key)


def _packed(f: BinaryIO, size: int, how: str, text_key: str | None) -> DataFound:
    """A packed file. `text_key` None: its name does not say that it is packed, so that a loader takes its bytes as they are."""
    f.seek(0)
    told = check_lines((), f.read(512))
    small = how == "gzip" and size <= MOST_GZIP
    f.seek(0)
    cut = gzip_cut(_pieces(f, size)) if small else None
    if text_key is None:
        return told._replace(faults=((cut,) if cut else ()) + told.faults)
    if not small:
        return told._replace(faults=(_unjudged(how, "it is not unpacked here"),))
    f.seek(0)
    with gzip.GzipFile(fileobj=f) as inside:
        try:
            found = _content(cast("BinaryIO", inside), MOST_UNPACKED, text_key, most=True)
        except EOFError:
            found = told._replace(faults=())
        except (gzip.BadGzipFile, zlib.error) as e:
            return told._replace(faults=(_unjudged(how, "it cannot be unpacked: %s" % str(e)[:80]),))
    faults = [x._replace(detail="%s (in what it holds unpacked)" % x.detail) for x in found.faults]
    if found.bytes >= MOST_UNPACKED:
        faults = [x for x in faults if x.line < found.lines]  # the last line that was read has lost its end by that
        faults.append(DataFault("too-long", "its first %d unpacked bytes were read" % found.bytes))
    return found._replace(faults=(*([cut] if cut else ()), *faults))


def _unjudged(how: str, why: str) -> DataFault:
    return DataFault("other-format", "compressed with %s, as its name says; %s" % (how, why))


def _is_one_value(f: BinaryIO, head: bytes, size: int) -> bool:
    """Begins as an array, or as an object that its first line does not end."""
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if text.startswith(b"["):
        first = f.readline(min(LONGEST_LINE, size))
        return not (first.rstrip().endswith(b"]") and f.read(1))  # lines of small arrays are lines
    return text.startswith(b"{") and f.readline(512).strip() == b"{"


def _sorted_faults(found: Iterable[DataFault]) -> dict[str, Any]:
    """Faults, and apart from them what the reader could not judge."""
    known = [list(x) for x in found]
    return {"faults": [x for x in known if x[0] not in LIMITS], "limits": [x for x in known if x[0] in LIMITS]}


def index(ask: dict[str, Any]) -> dict[str, Any]:
    """One .idx/.bin pair, named by its stem or by either file."""
    stem = ask["path"][:-4] if ask["path"].endswith((".idx", ".bin")) else ask["path"]
    idx, data = stem + ".idx", stem + ".bin"
    faults: list[Any] = []
    for path in (idx, data):
        if not os.path.exists(path):
            faults.append(["index-missing" if path == idx else "data-missing", "%s is not there" % path, 0, 0])
    if faults:
        return {"faults": faults}
    with _open(idx) as i, _open(data) as b:
        size, data_size = os.path.getsize(idx), os.path.getsize(data)
        head, found = check_index(lambda at, n: os.pread(i.fileno(), n, at), size, data_size)
        faults = [list(x) for x in found]
        if head and not found and ask.get("vocabulary"):
            ids = check_ids(lambda at, n: os.pread(b.fileno(), n, at), data_size, head.code, ask["vocabulary"])
            faults += [list(x) for x in ids]
    limits = [x for x in faults if x[0] in LIMITS]
    faults = [x for x in faults if x[0] not in LIMITS]
    older = os.path.getmtime(idx) < os.path.getmtime(data) - 1
    return {"faults": faults, "limits": limits, "older": older, "lines": head.sequences if head else 0, "bytes": data_size}


def check(ask: dict[str, Any]) -> dict[str, Any]:
    """One file, by its kind."""
    try:
        path = ask["path"]
        as_index = ask.get("kind") == "index" or (not ask.get("kind") and path.endswith((".idx", ".bin")))
        out = index(ask) if as_index else jsonl(ask)
        return {"path": path, "kind": "index" if as_index else "jsonl", **out}
    except OSError as e:
        return {"path": ask["path"], "error": errno.errorcode.get(e.errno or 0, "?")}


def main(ask: dict[str, Any]) -> dict[str, Any]:
    """All files."""
    return {"files": [check(f) for f in ask["files"]]}


if __name__ == "__main__":
    json.dump(main(json.loads(sys.argv[1])), sys.stdout)
