"""Keeps the key that signs approve links: in the state folder, 0600, or given by $GPU_RUNBOOKS_LINK_KEY for several machines."""

import contextlib
import os
import secrets
from pathlib import Path

from runbooks.notify.link import KEY_BYTES
from tasks.installation import state_folder

ENV = "GPU_RUNBOOKS_LINK_KEY"


class NoKey(Exception):
    """There is no key, and none can be made. The message says what to do."""


def link_key() -> bytes:
    """The key. Made at the first time; two processes that make it at once get the same one."""
    given = os.environ.get(ENV, "").encode()
    if given:
        if len(given) < KEY_BYTES:
            raise NoKey(f"{ENV} is shorter than {KEY_BYTES} characters; make one with: openssl rand -hex 32")
        return given
    path = state_folder() / "link.key"
    try:
        if not path.exists():
            make_secret_file(path, secrets.token_bytes(KEY_BYTES))
        if path.stat().st_mode & 0o077:
            raise NoKey(f"{path} can be read by others: chmod 600 it, or remove it to make a new one")
        key = path.read_bytes()
    except OSError as e:
        raise NoKey(f"{path}: {e.strerror}") from e
    if len(key) < KEY_BYTES:
        raise NoKey(f"{path} is damaged; remove it, and links sent before will no longer work")
    return key


def make_secret_file(path: Path, content: bytes) -> None:
    """Puts a 0600 file in place, whole; one that is there already stays."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    tmp = path.with_name(f".{path.name}-{os.getpid()}-{secrets.token_hex(4)}")
    fd = os.open(tmp, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(fd, "wb") as f:
            f.write(content)
            f.flush()
            os.fsync(f.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(tmp, path)
    finally:
        tmp.unlink()
