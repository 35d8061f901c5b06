"""A log as bytes that grow, wherever it lies: on this machine, on a node by SSH, in an S3 store. Changes nothing."""

import base64
import os
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from runbooks.core.reading import UnknownReason
from tasks.transport.base import Host, TransportError


class Growth(NamedTuple):
    """What a log is at this moment. Another identity is another file of the same name."""

    identity: str
    size: int  # bytes
    changed: datetime | None


class LogBytes(Protocol):
    """Raises TransportError wherever it cannot be read."""

    @property
    def shown(self) -> str:
        """The place, as a person would look there."""

    def look(self) -> Growth:
        """The file that has the name now."""

    def part(self, begin: int, count: int) -> bytes:
        """So many bytes from there, fewer at its end, of the file that was last taken up."""

    def take_up(self) -> Growth:
        """From here on `part` reads the file that has the name now, which is this one."""

    def lost(self) -> str:
        """After another file took the name: what may be lost with the one before, "" where it was read to its end."""


def _refused(error: OSError, shown: str) -> TransportError:
    why = UnknownReason.DENIED if isinstance(error, PermissionError) else UnknownReason.FAILED
    return TransportError(why, error.strerror or type(error).__name__, shown)


class LocalBytes:
    """A file of this machine. It is kept open: what was written before a rotation is still read."""

    def __init__(self, path: Path) -> None:
        self._path, self._open, self._was = path, -1, ""
        self.shown = str(path)

    def look(self) -> Growth:
        """The file that has the name now; a link leads to it."""
        try:
            found = self._path.stat()
        except OSError as e:
            raise _refused(e, self.shown) from None
        if not stat.S_ISREG(found.st_mode):
            raise TransportError(UnknownReason.FAILED, "no regular file: a pipe, device or folder is not read", self.shown)
        return _growth(found)

    def part(self, begin: int, count: int) -> bytes:
        """Of the open file."""
        try:
            if self._open < 0:
                self.take_up()
            return os.pread(self._open, count, begin)
        except OSError as e:
            raise _refused(e, self.shown) from None

    def take_up(self) -> Growth:
        """Opens the file anew."""
        self.look()  # a pipe is not even opened
        try:
            again = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as e:
            raise _refused(e, self.shown) from None
        if self._open >= 0:
            self._was = _growth(os.fstat(self._open)).identity
            os.close(self._open)
        self._open = again
        return _growth(os.fstat(again))

    def lost(self) -> str:
        """Whether the file before stands beside it, renamed once."""
        beside = (p for p in self._path.parent.glob(f"{self._path.name}*") if p != self._path)
        newest = max((p.stat() for p in beside), key=lambda s: s.st_mtime, default=None)
        if newest is not None and _growth(newest).identity == self._was:
            return ""
        return "it was replaced; if that happened more than once between two looks, lines are missing"


def _growth(found: os.stat_result) -> Growth:
    return Growth(f"{found.st_dev}:{found.st_ino}", found.st_size, datetime.fromtimestamp(found.st_mtime, UTC))


PART = 'dd if="$1" bs=65536 iflag=skip_bytes,count_bytes skip="$2" count="$3" status=none | base64'  # text would lose bytes


class HostBytes:
    """A file of a node or pod, read with `stat` and `dd`."""

    def __init__(self, host: Host, path: str, place: str) -> None:
        self._host, self._path = host, path
        self.shown = place

    def look(self) -> Growth:
        """By `stat`."""
        done = self._host.run(("stat", "-L", "-c", "%f %d:%i %s %Y", "--", self._path))
        words = done.out.split()
        if done.exit or len(words) != 4:
            gone = "No such file" in done.err
            why = UnknownReason.DENIED if "denied" in done.err else UnknownReason.FAILED
            raise TransportError(why, "there is no such file" if gone else done.err.strip()[:200] or "stat said nothing", self.shown)
        if not stat.S_ISREG(int(words[0], 16)):
            raise TransportError(UnknownReason.FAILED, "no regular file: a pipe, device or folder is not read", self.shown)
        return Growth(words[1], int(words[2]), datetime.fromtimestamp(int(words[3]), UTC))

    def part(self, begin: int, count: int) -> bytes:
        """By `dd`, which can skip bytes."""
        if count <= 0:
            return b""
        done = self._host.run(("sh", "-c", PART, "sh", self._path, str(begin), str(count)), timeout_s=30, limit_bytes=2 * count + 4096)
        try:
            if done.exit or done.truncated or done.err.strip():
                raise ValueError(done.err.strip()[:200] or "its answer was cut")
            return base64.b64decode(done.out.encode("ascii"), validate=False)
        except ValueError as e:
            raise TransportError(UnknownReason.FAILED, str(e), self.shown) from None

    def take_up(self) -> Growth:
        """The name is used each time."""
        return self.look()

    def lost(self) -> str:
        """The file before is no longer reached by its name."""
        return "it was replaced; what was written to the file before since the last look is missing"


class StoredBytes:
    """An object of an S3 store. Its writer uploads it anew; what grew is taken for appended."""

    def __init__(self, client: Any, bucket: str, key: str) -> None:
        self._client, self._at = client, {"Bucket": bucket, "Key": key}
        self.shown = f"s3://{bucket}/{key}"

    def look(self) -> Growth:
        """By its head."""
        found = self._ask("head_object", {})
        return Growth("object", int(found["ContentLength"]), found.get("LastModified"))

    def part(self, begin: int, count: int) -> bytes:
        """A range of it."""
        found = self._ask("get_object", {"Range": f"bytes={begin}-{begin + count - 1}"}) if count > 0 else None
        return bytes(found["Body"].read(count)) if found else b""

    def take_up(self) -> Growth:
        """The key is used each time."""
        return self.look()

    def lost(self) -> str:
        """An object has no file before it."""
        return "it was uploaded again and is shorter; it is read from its begin"

    def _ask(self, what: str, more: dict[str, str]) -> Any:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            return getattr(self._client, what)(**self._at, **more)
        except ClientError as e:
            code = str(e.response.get("Error", {}).get("Code", ""))
            if code in ("InvalidRange", "416"):
                return None  # it ends before
            if code in ("NoSuchKey", "404"):
                said = "there is no such log; that proves nothing about the worker"
                raise TransportError(UnknownReason.FAILED, said, self.shown) from None
            denied = code in ("AccessDenied", "403", "InvalidAccessKeyId", "SignatureDoesNotMatch")
            raise TransportError(UnknownReason.DENIED if denied else UnknownReason.FAILED, code or "refused", self.shown) from None
        except (BotoCoreError, OSError) as e:
            raise TransportError(UnknownReason.UNREACHABLE, f"{type(e).__name__}: {e}"[:300], self.shown) from None
