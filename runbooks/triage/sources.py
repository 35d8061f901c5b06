"""Turns what is handed in (files, gz, zst, folders, JSON logs, alert payloads) into blocks of plain lines."""

import codecs
import gzip
import io
import json
import os
import stat
import tarfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, cast

from runbooks.triage.archive import LARGEST, Bounded, Chained, is_tar, members
from runbooks.triage.block import Block, is_code, unread_code, without_comments

BLOCK = 1 << 20
MOST_FILES = 2000
_MAGIC = {b"\x1f\x8b": "gz", b"\x28\xb5\x2f\xfd": "zst"}
_CONTROLS = bytes(c for c in range(32) if c not in (9, 10, 13, 27))
_FIELDS = ("MESSAGE", "message", "msg", "log", "event", "text")


class SourceError(Exception):
    """Something that cannot be read, said in one line."""


def files_below(path: Path) -> Iterator[Path]:
    """Regular files of a folder, sorted, links not followed out of it."""
    for count, found in enumerate(p for p in sorted(path.rglob("*")) if p.is_file() and not p.is_symlink()):
        if count >= MOST_FILES:
            return
        yield found


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
    counted = _Counted(raw, read)
    plain = _unpacked(counted, name)
    try:
        head = plain.read(BLOCK)
        if is_tar(head):
            yield from _archive(cast("IO[bytes]", Chained(head, plain)), name)
        else:
            yield from _lines(head, plain, name)
    except (EOFError, zlib.error, gzip.BadGzipFile) as e:
        raise SourceError(f"{name}: the compressed file ends or breaks here: {e}") from e
    except Exception as e:
        if type(e).__name__ != "ZstdError":
            raise
        raise SourceError(f"{name}: the compressed file ends or breaks here: {e}") from e


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
                inner = _unpacked(_Counted(content, None), label)
                source = cast("IO[bytes]", Bounded(inner, LARGEST))
                yield from map(without_comments, _lines(source.read(BLOCK), source, label))
            except (SourceError, EOFError, zlib.error, gzip.BadGzipFile) as e:
                problems.append(str(e) if isinstance(e, SourceError) else f"{label}: {e}")
    except tarfile.TarError as e:
        problems.append(f"{name}: the archive ends or breaks here: {e}")
    if code:
        problems.append(f"{name}: {unread_code(code)}")
    if problems:
        more = f" and {len(problems) - 5} more" if len(problems) > 5 else ""
        raise SourceError("; ".join(problems[:5]) + more)


class _Counted(io.RawIOBase):
    """A stream that tells how far it was read and can be looked into once."""

    def __init__(self, raw: IO[bytes], read: Callable[[int], None] | None) -> None:
        super().__init__()
        self._raw, self._read, self._ahead = raw, read, b""

    def peek(self) -> bytes:
        self._ahead = self._raw.read(8) or b""
        return self._ahead

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._ahead[: len(buffer)] if self._ahead else self._raw.read(len(buffer)) or b""
        if self._ahead:
            self._ahead = self._ahead[len(data) :]
        buffer[: len(data)] = data
        if self._read:
            self._read(len(data))
        return len(data)


def _unpacked(raw: _Counted, name: str) -> IO[bytes]:
    head = raw.peek()
    kind = next((k for magic, k in _MAGIC.items() if head.startswith(magic)), "")
    if kind == "gz":
        return cast("IO[bytes]", gzip.GzipFile(fileobj=cast("IO[bytes]", raw)))
    if kind == "zst":
        try:
            import zstandard
        except ImportError as e:
            raise SourceError(f"{name}: a zstd file needs the Python package zstandard") from e
        return zstandard.ZstdDecompressor().stream_reader(cast("IO[bytes]", raw), read_across_frames=True)
    return io.BufferedReader(raw, BLOCK)


def _lines(data: bytes, plain: IO[bytes], name: str) -> Iterator[Block]:
    """`data` is what was already read of it."""
    if not data:
        return
    data, decode = _decoder(data)
    if b"\0" in data[:4096] and decode is None:
        raise SourceError(f"{name}: not text")
    if _is_document(data):
        yield from _document(data + plain.read(64 * BLOCK), name)
        return
    convert = _json_lines(data)
    number, rest = 1, b""
    while data:
        data = rest + data
        cut = data.rfind(b"\n")
        block, rest = (data[:cut], data[cut + 1 :]) if cut >= 0 else (b"", data)
        if cut < 0 and len(rest) > 8 * BLOCK:
            block, rest, cut = rest, b"", 0  # a line without an end
        if cut >= 0:
            yield Block(file=name, first=number, data=convert(block) if convert else block)
            number += block.count(b"\n") + 1
        data = plain.read(BLOCK)
        data = decode(data) if decode else data
    if rest:
        yield Block(file=name, first=number, data=convert(rest) if convert else rest)


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


def _json_lines(data: bytes) -> Callable[[bytes], bytes] | None:
    """A converter when the first line is a JSON object with a message: journald, Docker, structured logs."""
    try:
        first = json.loads(data.split(b"\n", 1)[0])
    except (ValueError, RecursionError):
        return None
    if not isinstance(first, dict) or _message(first) is None:
        return None
    return lambda block: b"\n".join(_convert(line) for line in block.split(b"\n"))


def _convert(line: bytes) -> bytes:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return line
    message = _message(entry) if isinstance(entry, dict) else None
    if message is None:
        return line
    who = entry.get("SYSLOG_IDENTIFIER") or entry.get("_COMM") or ""
    extra = [str(entry[k]) for k in ("error", "err", "exc_info", "exception", "stack") if entry.get(k)]
    text = " ".join([f"{who}: {message}" if who else message, *extra])
    return text.replace("\n", " ⏎ ").rstrip(" ⏎").encode("utf-8", "replace")


def _message(entry: dict[str, Any]) -> str | None:
    for field in _FIELDS:
        value = entry.get(field)
        if isinstance(value, str):
            return value
        if isinstance(value, list) and value and all(isinstance(b, int) and 0 <= b < 256 for b in value):
            return bytes(value).decode("utf-8", "replace")
    return None


def _is_document(data: bytes) -> bool:
    head = data[:4096].lstrip()
    return head.startswith((b"{", b"[")) and b'"alerts"' in data[:65536] and b'"labels"' in data


def _document(data: bytes, name: str) -> Iterator[Block]:
    """An Alertmanager payload as one line for each firing alert; anything else as it stands."""
    try:
        payload = json.loads(data)
    except (ValueError, RecursionError):
        yield Block(file=name, first=1, data=data)
        return
    alerts = payload.get("alerts") if isinstance(payload, dict) else payload
    lines = [_alert(a) for a in alerts or [] if isinstance(a, dict)]
    yield Block(file=name, first=1, data="\n".join(lines).encode())


def _alert(alert: dict[str, Any]) -> str:
    """One line; a resolved alert says nothing that could be matched."""
    labels, notes = alert.get("labels") or {}, alert.get("annotations") or {}
    if alert.get("status") == "resolved":
        return f"resolved alert {labels.get('alertname', '')}"
    words = " ".join(f"{k}={v}" for k, v in labels.items() if k != "alertname")
    said = " ".join(str(v).replace("\n", " ") for v in notes.values())
    return f"alert {labels.get('alertname', '')} firing {words}: {said}"
