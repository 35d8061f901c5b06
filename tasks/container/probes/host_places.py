"""Reads what lies at paths of the host that a container needs or was refused for. Part of a probe; changes nothing."""

import os
import re
import stat as filebits
from typing import Any

from tasks.remote.probes.proc import read

ESCAPED = re.compile(r"\\([0-7]{3})")
SLOW = ("nfs", "cifs", "smb", "fuse", "9p", "ceph", "lustre", "gpfs", "glusterfs")  # these may hang where they are listed
MOST_ENTRIES = 1000


def unescaped(word: str) -> str:
    """A field of a mount table as text."""
    return ESCAPED.sub(lambda m: chr(int(m.group(1), 8)), word)


def mounts() -> "dict[str, str]":
    """Type of the file system that lies on top at each mount point."""
    found = {}
    for line in (read("/proc/self/mountinfo", 1 << 22) or "").splitlines():
        left, _, right = line.partition(" - ")
        words = left.split(" ")
        if len(words) > 4 and right:
            found[unescaped(words[4])] = right.split(" ")[0]
    return found


def meant(text: str) -> "list[str]":
    """Mount points that a table like /etc/fstab names and that a boot should mount."""
    rows = [line.split() for line in text.splitlines() if not line.lstrip().startswith("#")]
    return [unescaped(r[1]) for r in rows if len(r) > 3 and r[1].startswith("/") and len(r[1]) > 1
            and "noauto" not in r[3].split(",") and r[2] != "swap"]  # fmt: skip


def covers(top: str, path: str) -> bool:
    """Whether the path is that place or lies below it."""
    return path == top or path.startswith(top.rstrip("/") + "/")


def place(path: str, now: "dict[str, str]", table: "list[str]") -> "dict[str, Any]":
    """Kind, whether something is mounted exactly there, number of entries, and the mount of the table that is missing."""
    under = max((m for m in now if covers(m, path)), key=len, default="")
    row: "dict[str, Any]" = {"path": path, "kind": "unread", "mounted": path in now, "entries": None,
                             "unmounted": next((m for m in table if covers(m, path) and m not in now), "")}  # fmt: skip
    if now.get(under, "").startswith(SLOW):
        return row
    try:
        mode = os.stat(path).st_mode
        row["kind"] = "folder" if filebits.S_ISDIR(mode) else "file" if filebits.S_ISREG(mode) else "other"
        if row["kind"] == "folder":
            with os.scandir(path) as inside:
                row["entries"] = sum(1 for _, n in zip(inside, range(MOST_ENTRIES)))  # noqa: B905 - Python 3.6 here
    except OSError as e:
        row["kind"] = "none" if e.errno in (2, 20) else row["kind"]
    return row


def places(paths: "list[str]") -> "list[dict[str, Any]]":
    """Each of the paths."""
    now, table = mounts(), meant(read("/etc/fstab") or "")
    return [place(os.path.normpath(p), now, table) for p in paths]
