"""Turns what is handed in (files, gz, zst, folders, JSON logs, alert payloads) into blocks of plain lines."""

import codecs
import os
import stat
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, cast

from runbooks.triage.alerts import is_payload, lines_of
from runbooks.triage.archive import LARGEST, Bounded, Chained, is_tar, members
from runbooks.triage.block import Block, is_code, unread_code, without_comments
from runbooks.triage.bugreport import is_report, sections
from runbooks.triage.structured import converter
from runbooks.triage.unpack import Counted, SourceError, unpacked

BLOCK = 1 << 20
_CONTROLS = bytes(c for c in range(32) if c not in (9, 10, 13, 27))


def blocks(path: Path, name: str, read: Callable[[int], None] | None = None) -> Iterator[Block]:
    """The file's lines. `read` is told how many bytes of the file were consumed. Raises SourceError."""
    try:
        with path.open("rb") as raw:
            if stat.S_ISCHR(os.fstat(raw.fileno()).st_mode) and not raw.isatty():
                raise SourceError(f"{name}: a device, which has no end")
            yield from stream_blocks(raw, name, read)
    except OSError as e:
        raise SourceError(f"{name}: {e.strerror or e}") from e


def stream_blocks(raw: IO[bytes], name: str, read: Callable[[int], None] | None = None) -> Iterator[Block]:
    """The same of an open stream, compressed or not; of a tar archive the lines of all its files."""
    plain = unpacked(Counted(raw, read), name)
    head = plain.read(BLOCK)
    if is_tar(head):
        yield from _archive(cast("IO[bytes]", Chained(head, plain)), name)
    else:
        yield from _lines(head, plain, name)


def _archive(plain: IO[bytes], name: str) -> Iterator[Block]:
    """Files of an archive one after the other. What cannot be read is told at the end, as one SourceError."""
    problems: list[str] = []
    code = 0
    try:
        for member, content in members(plain):
            label = f"{name}/{member}"
            if is_code(member):
                code += 1
                continue
            try:
                source = Bounded(unpacked(Counted(content, None), label), LARGEST)
                yield from map(without_comments, _lines(source.read(BLOCK), cast("IO[bytes]", source), label))
                if source.is_cut:
                    problems.append(f"{label}: only its first {LARGEST >> 30} GiB were read")
            except SourceError as e:
                problems.append(str(e))
    except (tarfile.TarError, SourceError) as e:
        problems.append(f"{name}: the archive ends or breaks here: {e}")
    if code:
        problems.append(f"{name}: {unread_code(code)}")
    if problems:
        more = f" and {len(problems) - 5} more" if len(problems) > 5 else ""
        raise SourceError("; ".join(problems[:5]) + more)


def _lines(data: bytes, plain: IO[bytes], name: str) -> Iterator[Block]:
    """`data` is what was already read of it."""
    read = _plain_lines(data, plain, name)
    return sections(read) if is_report(data) else read


def _plain_lines(data: bytes, plain: IO[bytes], name: str) -> Iterator[Block]:
    if not data:
        return
    data, decode = _decoder(data)
    if b"\0" in data[:4096] and decode is None:
        raise SourceError(f"{name}: not text")
    if is_payload(data):
        data += plain.read(64 * BLOCK)
        if (alerts := lines_of(data)) is not None:
            yield Block(file=name, first=1, data="\n".join(alerts).encode())
            return
    convert = converter(data)
    number, rest = 1, b""
    while data:
        data = rest + data
        cut = data.rfind(b"\n")
        block, rest = (data[:cut], data[cut + 1 :]) if cut >= 0 else (b"", data)
        ended = cut >= 0
        if not ended and len(rest) > 8 * BLOCK:
            block, rest, cut = rest, b"", 0  # a line without an end
        if cut >= 0:
            yield Block(file=name, first=number, data=convert(block))
            number += block.count(b"\n") + ended
        data = plain.read(BLOCK)
        data = decode(data) if decode else data
    if rest:
        yield Block(file=name, first=number, data=convert(rest))


def _decoder(data: bytes) -> tuple[bytes, Callable[[bytes], bytes] | None]:
    """UTF-16 as UTF-8; a UTF-8 mark taken off."""
    for mark, encoding in ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")):
        if data.startswith(mark) and data[2:4] != b"\0\0":
            return _utf16(data[2:], encoding)
    head = data[:4096]
    if (
        len(head) // 4 < head.count(0) < len(head) * 0.6
        and max(head[::2].count(0), head[1::2].count(0)) >= len(head) * 0.45
    ):
        return _utf16(data, "utf-16-be" if head[::2].count(0) > head[1::2].count(0) else "utf-16-le")
    if b"\0" in head and _is_text(head.replace(b"\0", b"")):
        return _without_nul(data), _without_nul
    return data.removeprefix(codecs.BOM_UTF8), None


def _is_text(head: bytes) -> bool:
    """Zeros in a log are what a crash leaves of blocks that were never written."""
    return bool(head) and len(head.translate(None, _CONTROLS)) > len(head) * 0.97


def _without_nul(data: bytes) -> bytes:
    return data.replace(b"\0", b"")


def _utf16(data: bytes, encoding: str) -> tuple[bytes, Callable[[bytes], bytes]]:
    step = codecs.getincrementaldecoder(encoding)(errors="replace")
    return step.decode(data).encode(), lambda more: step.decode(more).encode()
