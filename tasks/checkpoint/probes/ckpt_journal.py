"""Remembers beside a download which bytes came from its source, so that a killed one fetches only what is missing."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os


class Journal:
    """Lines of [file, offset, length, hash] behind one that names the source; of another source nothing counts."""

    def __init__(self, path: str, source: str) -> None:
        self._path = path
        self._sums: dict[tuple[str, int], tuple[int, str]] = {}
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
        self._file = os.fdopen(os.open(path, flags, 0o600), "a+", encoding="utf-8")
        if not self._load(source):
            self._file.truncate(0)
            self._write([source])

    def _load(self, source: str) -> bool:
        self._file.seek(0)
        for number, line in enumerate(self._file):
            with contextlib.suppress(ValueError):  # the last line of a killed one may be half
                found = json.loads(line)
                if number == 0 and found != [source]:
                    return False
                if number and line.endswith("\n"):
                    name, at, length, digest = found
                    self._sums[name, at] = (length, digest)
        self._file.seek(0, os.SEEK_END)
        return self._file.tell() > 0

    def _write(self, words: list[object]) -> None:
        self._file.write(json.dumps(words) + "\n")
        self._file.flush()

    def add(self, name: str, at: int, data: bytes) -> None:
        """These bytes came from the source."""
        self._sums[name, at] = (len(data), _hash(data))
        self._write([name, at, len(data), _hash(data)])

    def agreeing(self, name: str, fd: int) -> int:
        """Bytes at the beginning of the file that are what came from the source."""
        at = 0
        while (name, at) in self._sums:
            length, digest = self._sums[name, at]
            if not length or _hash(os.pread(fd, length, at)) != digest:
                break
            at += length
        return at

    def drop(self) -> None:
        """The download is complete and compared."""
        self._file.close()
        os.unlink(self._path)


def _hash(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()
