"""Reads the files of a tar archive as it streams by. Nothing is ever written to disk; names are only shown."""

import io
import tarfile
from collections.abc import Iterator
from typing import IO

from runbooks.core.clean import one_line

MOST_MEMBERS = 20_000
LARGEST = 1 << 30  # bytes of one member that are read


def is_tar(head: bytes) -> bool:
    """Whether the first 512 bytes are a tar header."""
    return len(head) >= 512 and head[257:262] == b"ustar"


def is_written_by_us(name: str) -> bool:
    """Reports and the list of contents in a bundle: they repeat the knowledge's own words, which are no evidence."""
    return name.endswith((".report.json", ".report.md", "/bundle.json")) or name == "bundle.json"


def members(plain: IO[bytes]) -> Iterator[tuple[str, IO[bytes]]]:
    """(name, content) of every regular file. Links, devices and folders are passed over. Raises tarfile.TarError."""
    with tarfile.open(fileobj=plain, mode="r|") as tar:
        for count, member in enumerate(tar):
            if count >= MOST_MEMBERS:
                raise tarfile.TarError(f"more than {MOST_MEMBERS} members are not read")
            if member.isreg() and not is_written_by_us(member.name):
                content = tar.extractfile(member)
                if content is not None:
                    yield _shown(member.name), content


def _shown(name: str) -> str:
    """The name without what could play tricks on a terminal."""
    return one_line(name, 200)


class Bounded(io.RawIOBase):
    """At most so many bytes of a stream; what lies behind is not read."""

    def __init__(self, raw: IO[bytes], most: int) -> None:
        super().__init__()
        self._raw, self.left = raw, most

    def readable(self) -> bool:
        return True

    @property
    def is_cut(self) -> bool:
        """Whether more lies behind."""
        return not self.left and bool(self._raw.read(1))

    def read(self, size: int = -1) -> bytes:
        """At most `size` bytes."""
        data = self._raw.read(self.left if size < 0 else min(size, self.left)) or b""
        self.left -= len(data)
        return data


class Chained(io.RawIOBase):
    """What was already read of a stream, then the rest of it."""

    def __init__(self, head: bytes, rest: IO[bytes]) -> None:
        super().__init__()
        self._head, self._rest = head, rest

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """At most `size` bytes."""
        if not self._head:
            return self._rest.read(size)
        data = self._head if size < 0 else self._head[:size]
        self._head = self._head[len(data) :]
        return data
