"""Reads the checkpoints of one tier on the node: candidates and their structure, space, holders, pointer. Changes
nothing.
JSON argument: {do: scan|content|credentials, root, pattern, spec, ...}. Runs behind the checkers of
runbooks/parsers/ckpt_*."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import stat
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from runbooks.parsers.ckpt_content import check_content
from runbooks.parsers.ckpt_set import ASIDE, OURS, TEMPORARY, Spec, check_set
from runbooks.parsers.ckpt_types import Blob, Check
from tasks.probes.ckpt_fs import best_crc32, credentials, space, torch_version
from tasks.probes.ckpt_holders import holders

MOST_FILES = 20_000
SCALARS = 20


def file_blob(path: str, name: str, size: int) -> Blob:
    """A file in ranges; opened for each read so that thousands need no descriptors."""

    def read(offset: int, length: int) -> bytes:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0))
        try:
            return _full(fd, offset, length)
        finally:
            os.close(fd)

    return Blob(name, size, read)


def _full(fd: int, offset: int, length: int) -> bytes:
    data = os.pread(fd, length, offset)
    while len(data) < length:
        more = os.pread(fd, length - len(data), offset + len(data))
        if not more:
            break
        data += more
    return data


def members(path: str) -> dict[str, os.stat_result]:
    """Regular files of a checkpoint, relative name -> stat; a file is its own only member."""
    top = os.lstat(path)
    if stat.S_ISLNK(top.st_mode):
        raise OSError(errno.ELOOP, "a symbolic link, which is not followed", path)
    if not stat.S_ISDIR(top.st_mode) and not stat.S_ISREG(top.st_mode):
        raise OSError(errno.EINVAL, "neither a file nor a folder", path)
    if not stat.S_ISDIR(top.st_mode):
        return {os.path.basename(path): top}
    found: dict[str, os.stat_result] = {}
    for folder, folders, names in os.walk(path):
        for name in names + [f for f in folders if os.path.islink(os.path.join(folder, f))]:
            full = os.path.join(folder, name)
            seen = os.lstat(full)
            if stat.S_ISLNK(seen.st_mode):
                raise OSError(errno.ELOOP, "a symbolic link, which is not followed", full)
            if stat.S_ISREG(seen.st_mode):
                found[os.path.relpath(full, path)] = seen
        if len(found) > MOST_FILES:
            raise OSError(errno.E2BIG, "more files than are looked at", path)
    return found


def identity(found: dict[str, os.stat_result]) -> str:
    """Changes when any file is written, replaced, added or removed."""
    text = "\n".join("%s %d %d %d" % (n, s.st_size, s.st_mtime_ns, s.st_ino) for n, s in sorted(found.items()))
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def open_set(path: str) -> tuple[dict[str, os.stat_result], dict[str, Blob]]:
    """Members and blobs of one checkpoint."""
    found = members(path)
    folder = stat.S_ISDIR(os.lstat(path).st_mode)
    return found, {n: file_blob(os.path.join(path, n) if folder else path, n, s.st_size) for n, s in found.items()}


def beside(path: str, blobs: dict[str, Blob]) -> None:
    """Adds `<file>.sha256` and the like that lie beside a single file."""
    for ending in (".sha256", ".md5"):
        if os.path.isfile(path + ending):
            name = os.path.basename(path) + ending
            blobs[name] = file_blob(path + ending, name, os.path.getsize(path + ending))


def describe(root: str, name: str, step: int, spec: Spec, structure: bool) -> dict[str, Any]:
    """One candidate."""
    path = os.path.join(root, name)
    out: dict[str, Any] = {"name": name, "step": step}
    try:
        found, blobs = open_set(path)
        newest = max((s.st_mtime for s in found.values()), default=os.lstat(path).st_mtime)
        folder = os.path.isdir(path)
        out.update(folder=folder, size=sum(s.st_size for s in found.values()), files=len(found), mtime_s=newest)
        out["identity"] = identity(found)
        if structure:
            if not folder:
                beside(path, blobs)
            out.update(as_json(check_set(blobs, spec._replace(step=step))))
            _times(out, found)
    except OSError as e:
        out["faults"] = [["unreadable", "%s: %s" % (errno.errorcode.get(e.errno or 0, "?"), e.strerror), name]]
    return out


def _times(out: dict[str, Any], found: dict[str, os.stat_result]) -> None:
    """A shard that is newer than the commit marker was written after the save."""
    marker = found.get(".metadata")
    late = sorted(n for n, s in found.items() if marker and n.endswith(".distcp") and s.st_mtime > marker.st_mtime + 5)
    if late:
        words = "%d shards are newer than the commit marker, e.g. %s" % (len(late), late[0])
        out["suspects"] = [*out.get("suspects", []), ["mixed-saves", words, late[0]]]


def as_json(check: Check) -> dict[str, Any]:
    """A check as plain data, small."""
    names = list(check.tensors)
    prefix = next(
        (p for p in ("module.", "_orig_mod.") if names and sum(_has(n, p) for n in names) * 2 > len(names)), ""
    )
    scalars = {k: v for k, v in check.scalars.items() if isinstance(v, (int, float, str, bool))}
    return {
        "format": check.format, "faults": [list(f) for f in check.faults],
        "suspects": [list(f) for f in check.suspects],
        "notes": check.notes[:10], "checksummed": check.checksummed, "keys": check.keys[:50], "tensors": len(names),
        "scalars": dict(sorted(scalars.items())[:SCALARS]), "prefix": prefix,
        "refused_globals": check.refused_globals[:20],
        "unsafe_globals": check.unsafe_globals[:20], "read_bytes": check.read_bytes,
        "fingerprint": check.fingerprint, "digest": check.digest,
    }  # fmt: skip


def _has(name: str, prefix: str) -> bool:
    return name.startswith(prefix) or ("." + prefix) in name


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
                    seen = entry.stat(follow_symlinks=False)
                    left.append({"name": name, "size": seen.st_size, "mtime_s": seen.st_mtime, **_ours(root, name)})
                elif match and not ASIDE.search(name):
                    hits.append((int(match["step"]), name))
                elif level < depth and entry.is_dir(follow_symlinks=False):
                    todo.append((name + "/", level + 1))
    return sorted(hits, reverse=True), left[:50]


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
    """The `latest` file (or link): its text and identity."""
    path = os.path.join(root, name)
    try:
        if os.path.islink(path):
            seen, text = os.lstat(path), os.readlink(path)
        else:
            seen = os.stat(path)
            with open(path, encoding="utf-8", errors="replace") as f:
                text = f.read(1000).strip()
    except FileNotFoundError:
        return None
    return {"text": text, "identity": identity({name: seen}), "mtime_s": seen.st_mtime}


def spec_from(raw: dict[str, Any]) -> Spec:
    """The expectations, as they arrive in JSON."""
    return Spec(**{k: tuple(v) if isinstance(v, list) else v for k, v in raw.items()})  # type: ignore[arg-type]


def scan(ask: dict[str, Any]) -> dict[str, Any]:
    """The whole look at one tier."""
    root, spec = ask["root"], spec_from(ask["spec"])
    out: dict[str, Any] = {"space": space(root, ask.get("try_write", False))}
    try:
        names, out["leftovers"] = list_names(root, ask["pattern"])
    except OSError as e:
        out["space"]["error"] = errno.errorcode.get(e.errno or 0, "?")
        return out
    newest = ask.get("newest", 50)
    out["candidates"] = [describe(root, n, s, spec, i < newest) for i, (s, n) in enumerate(names)]
    out["holders"] = holders(root, out["space"].get("fs_type", ""))
    out["pointer"] = pointer(root, ask["latest"]) if ask.get("latest") else None
    return out


def content(ask: dict[str, Any]) -> dict[str, Any]:
    """Proves the content of one candidate; says so if it changed meanwhile."""
    path = os.path.join(ask["root"], ask["name"])
    spec = spec_from(ask["spec"])
    before, blobs = open_set(path)
    if not os.path.isdir(path):
        beside(path, blobs)
    begun = time.monotonic()
    with ThreadPoolExecutor(ask.get("threads", 4)) as pool:
        check = check_content(blobs, spec, best_crc32(), pool.map)
    after = identity(members(path))
    seconds = time.monotonic() - begun
    return {**as_json(check), "identity": after, "changed": after != identity(before), "seconds": seconds}


def main(ask: dict[str, Any]) -> dict[str, Any]:
    """Does what `do` says."""
    if ask["do"] == "credentials":
        return {**credentials(), **torch_version()}
    if ask["do"] == "members":
        path = os.path.join(ask["root"], ask["name"])
        return {"folder": os.path.isdir(path), "files": {n: s.st_size for n, s in members(path).items()}}
    return scan(ask) if ask["do"] == "scan" else content(ask)


if __name__ == "__main__":
    json.dump(main(json.loads(sys.argv[1])), sys.stdout)
