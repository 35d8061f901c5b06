"""The form of an engine's error about a start: the errno at its end, and the paths that it names. Pure."""

import errno
import os
import re

from runbooks.core.base import Frozen

MOST_PATHS = 6
PATH = re.compile(r"(?<![\w/.:])/[\w.@%+,=~-]+(?:/[\w.@%+,=~-]+)*")
OF_THE_ENGINE = re.compile(r"/(?:proc|sys|dev/pts)/|/(?:run|var/run)/(?:docker|containerd)|/(?:rootfs|merged|runc|overlay2)\b")
CODES = {code: os.strerror(code).lower() for code in (
    errno.EEXIST, errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENOSPC, errno.EACCES, errno.EPERM, errno.ENOTCONN,
    errno.EROFS, errno.EBUSY, errno.EIO, errno.ESTALE, errno.ENODEV, errno.ENXIO, errno.EINVAL,
)}  # fmt: skip


class EngineErrorFacts(Frozen):
    """What an error says in the form that every program shares."""

    code: int = 0  # errno; 0: none is named
    paths: tuple[str, ...] = ()  # of the host, in the order of the text
    every_path: tuple[str, ...] = ()  # those of the engine's own folders, too


def refusal(text: str) -> EngineErrorFacts:
    """The errno that stands last in the text, as its words or number, and the paths in it."""
    low = text.lower()
    at = {code: low.rfind(words) for code, words in CODES.items()}
    for number in re.finditer(r"errno (\d+)\b", low):
        at[int(number[1])] = max(at.get(int(number[1]), -1), number.start())
    last = max(at, key=lambda code: at[code])
    named = (p.rstrip(".,:;'\"") for p in PATH.findall(text))
    found = tuple(dict.fromkeys(p for p in named if len(p) > 1))
    paths = tuple(p for p in found if not OF_THE_ENGINE.search(p + "/"))
    return EngineErrorFacts(code=last if at[last] >= 0 else 0, paths=paths[:MOST_PATHS], every_path=found[:MOST_PATHS])
