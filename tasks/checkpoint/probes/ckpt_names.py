"""The names in a tier's folder: checkpoints by their steps, what was left half-done, what `latest` says."""

from __future__ import annotations

import errno
import os
import re
import stat
from typing import Any

from runbooks.checkpoint.parsers.sets import ASIDE, OURS, TEMPORARY
from tasks.checkpoint.probes.ckpt_files import identity, members

MOST_LEFT = 50


def list_names(root: str, pattern: str) -> tuple[list[tuple[int, str]], list[dict[str, Any]]]:
    """(step, name) newest first, and temporary names. The pattern may reach below folders."""
    depth, regex = pattern.count("/"), re.compile(pattern)
    hits: list[tuple[int, str]] = []
    left: list[dict[str, Any]] = []
    todo = [("", 0)]
    while todo:
        below, level = todo.pop()
        with os.scandir(os.path.join(root, below)) as entries:
            for entry in entries:
                name = below + entry.name
                match = regex.fullmatch(name)
                if TEMPORARY.search(name):
                    if len(left) < MOST_LEFT:
                        left.extend(_leftover(root, name, entry))
                elif match and not ASIDE.search(name):
                    hits.append((int(match["step"]), name))
                elif level < depth and entry.is_dir(follow_symlinks=False):
                    todo.append((name + "/", level + 1))
    return sorted(hits, reverse=True), left


def _leftover(root: str, name: str, entry: os.DirEntry[str]) -> list[dict[str, Any]]:
    try:
        seen = entry.stat(follow_symlinks=False)
    except FileNotFoundError:  # it got its final name meanwhile
        return []
    return [{"name": name, "size": seen.st_size, "mtime_s": seen.st_mtime, **_ours(root, name)}]


def _ours(root: str, name: str) -> dict[str, Any]:
    """What this program was doing with it when it was killed, and whether a deletion had begun to remove anything."""
    match = OURS.fullmatch(name)
    if not match:
        return {}
    if match["doing"] != "deleting":
        return {"doing": "copy" if match["doing"] == "incoming" else "pointer", "was": match["was"]}
    out: dict[str, Any] = {"doing": "deletion", "was": match["was"]}
    try:
        path = os.path.join(root, name)
        found = members(path)
        before = found if os.path.isdir(path) else {os.path.basename(match["was"]): os.lstat(path)}
        out.update(identity=identity(found), untouched=identity(before)[:8] == match["id"], files=len(found))
        out["size"] = sum(s.st_size for s in found.values())
    except OSError:
        return out  # it goes on, or can't be looked at: no identity, no plan
    return out


def pointer(root: str, name: str) -> dict[str, Any] | None:
    """The `latest` file (or link): its text and identity. Anything else of that name is none."""
    path = os.path.join(root, name)
    try:
        seen = os.lstat(path)
        text = os.readlink(path) if stat.S_ISLNK(seen.st_mode) else pointer_text(path)
    except (FileNotFoundError, IsADirectoryError):
        return None
    except OSError as e:
        return {"error": errno.errorcode.get(e.errno or 0, "?")}
    return {"text": text, "identity": identity({name: seen}), "mtime_s": seen.st_mtime}


def pointer_text(path: str) -> str:
    """What a regular file says; a pipe or device is never waited for. Raises IsADirectoryError for all but files."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0))
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise IsADirectoryError(errno.EISDIR, "no file", path)
        return os.read(fd, 1000).decode("utf-8", "replace").strip()
    finally:
        os.close(fd)
