"""Compressed streams as plain ones. What was read before a stream breaks or is cut is given first, then the error."""

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable
from typing import IO, Any, cast

PIECE = 1 << 16  # bytes asked for at a time
MOST = 16 << 30  # bytes that one compressed stream may grow to
DEEP = 3  # a stream may be compressed that often
_MAGIC = {b"\x1f\x8b": "gz", b"\x28\xb5\x2f\xfd": "zst", b"BZh": "bz2", b"\xfd7zXZ\x00": "xz"}
_BROKEN = (EOFError, zlib.error, lzma.LZMAError, OSError)


class SourceError(Exception):
    """Something that cannot be read, said in one line."""


class Counted(io.RawIOBase):
    """A stream that tells how far it was read and can be looked into once."""

    def __init__(self, raw: IO[bytes], read: Callable[[int], None] | None) -> None:
        super().__init__()
        self._raw, self._read, self._ahead = raw, read, b""

    def peek(self) -> bytes:
        """Its first bytes, which are read again later."""
        self._ahead = self._raw.read(8) or b""
        return self._ahead

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """As of any raw stream."""
        data = self._ahead[: len(buffer)] if self._ahead else self._raw.read(len(buffer)) or b""
        if self._ahead:
            self._ahead = self._ahead[len(data) :]
        buffer[: len(data)] = data
        if self._read:
            self._read(len(data))
        return len(data)


class Unpacked(io.RawIOBase):
    """A decompressed stream, read in small pieces so that nothing is lost where it breaks. Raises SourceError there."""

    def __init__(self, raw: IO[bytes], name: str) -> None:
        super().__init__()
        self._some = getattr(raw, "read1", raw.read)  # what is there, before more is asked for that may break
        self._name = name
        self._left = MOST
        self._error: SourceError | None = None

    def readable(self) -> bool:
        """It is."""
        return True

    def read(self, size: int = -1) -> bytes:
        """`size` bytes, fewer at the end or before an error."""
        data = b""
        while not self._error and (size < 0 or len(data) < size):
            piece = self._piece(PIECE if size < 0 else min(PIECE, size - len(data)))
            if not piece:
                break
            data += piece
        if self._error and not data:
            raise self._error
        return data

    def _piece(self, size: int) -> bytes:
        if not self._left:
            self._error = SourceError(f"{self._name}: only its first {MOST >> 30} GiB were read")
            return b""
        try:
            piece: bytes = self._some(min(size, self._left))
        except SourceError as e:
            self._error = e
            return b""
        except _BROKEN as e:
            self._error = SourceError(f"{self._name}: the compressed file ends or breaks here: {e}")
            return b""
        self._left -= len(piece)
        return piece


class _Zst(io.RawIOBase):
    """zstd, one frame after the other. Raises EOFError where it is cut."""

    def __init__(self, raw: IO[bytes], maker: Any, errors: type[Exception]) -> None:
        super().__init__()
        self._raw, self._maker, self._errors = raw, maker, errors
        self._frame = maker.decompressobj()
        self._ready = self._rest = b""
        self._began = False

    def readable(self) -> bool:
        """It is."""
        return True

    def read(self, size: int = -1) -> bytes:
        """At most `size` bytes."""
        while not self._ready:
            packed = self._rest or self._raw.read(1024)  # little: a kilobyte may grow to many megabytes
            if not packed:
                if self._began:
                    raise EOFError("it ends before its last frame does")
                return b""
            self._unpack(packed)
        data = self._ready if size < 0 else self._ready[:size]
        self._ready = self._ready[len(data) :]
        return data

    def _unpack(self, packed: bytes) -> None:
        try:
            self._ready = self._frame.decompress(packed)
        except self._errors as e:
            raise EOFError(str(e)) from e
        self._began, self._rest = True, b""
        if self._frame.eof:
            self._began, self._rest = False, self._frame.unused_data
            self._frame = self._maker.decompressobj()


def unpacked(raw: Counted, name: str, deep: int = DEEP) -> IO[bytes]:
    """The stream decompressed, or as it is. Raises SourceError where the kind is known and cannot be read."""
    head = raw.peek()
    if head.startswith((b"PK\x03\x04", b"7z\xbc\xaf", b"Rar!")):
        raise SourceError(f"{name}: a zip, 7z or rar archive: unpack it and give the folder")
    kind = next((k for magic, k in _MAGIC.items() if head.startswith(magic)), "")
    if not kind or not deep:
        packed = deep < DEEP
        return cast("IO[bytes]", Unpacked(cast("IO[bytes]", raw), name)) if packed else io.BufferedReader(raw, 1 << 20)
    stream = Unpacked(_opened(kind, cast("IO[bytes]", raw), name), name)
    return unpacked(Counted(cast("IO[bytes]", stream), None), name, deep - 1)


def _opened(kind: str, raw: IO[bytes], name: str) -> IO[bytes]:
    if kind == "gz":
        return cast("IO[bytes]", gzip.GzipFile(fileobj=raw))
    if kind == "bz2":
        return cast("IO[bytes]", bz2.BZ2File(raw))
    if kind == "xz":
        return cast("IO[bytes]", lzma.LZMAFile(raw))
    try:
        import zstandard
    except ImportError as e:
        raise SourceError(f"{name}: a zstd file needs the Python package zstandard") from e
    return cast("IO[bytes]", _Zst(raw, zstandard.ZstdDecompressor(), zstandard.ZstdError))
