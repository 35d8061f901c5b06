"""Reads a channel's apprise URL from where notifications.yaml says it is. The URL is a secret: never logged, never stored."""

import os
import stat
from pathlib import Path
from typing import Any, cast

from runbooks.notify.config import Address
from tasks.installation import lasting

LARGEST = 10_000


class NoAddress(Exception):
    """The URL is not there. The message names the place, never the URL."""


def read_address(address: Address) -> str:
    """The URL. Raises NoAddress."""
    url = _read(address).strip()
    if not url:
        raise NoAddress(f"{address.words} is not set here, or empty")
    if "://" not in url or len(url.splitlines()) != 1:
        raise NoAddress(f"{address.words} holds no apprise URL (scheme://…, one line)")
    return url


def _read(address: Address) -> str:
    if address.env:
        return os.environ.get(address.env, "")
    if address.file:
        return _read_file(lasting(address.file), address.words)
    from prefect.blocks.system import Secret

    try:
        return str(cast(Any, Secret).load(str(address.secret), _sync=True).get())
    except Exception as e:
        raise NoAddress(f"{address.words} cannot be read ({type(e).__name__})") from None


def _read_file(path: Path, words: str) -> str:
    try:
        mode = path.stat().st_mode
        if mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise NoAddress(f"{words} can be read by others: chmod 600 {path}")
        with path.open(encoding="utf-8") as f:
            return f.read(LARGEST)
    except (OSError, UnicodeDecodeError) as e:
        raise NoAddress(f"{words} cannot be read ({type(e).__name__})") from None
