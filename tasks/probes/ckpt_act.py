"""Changes checkpoints of one tier on the node: copy, point, quarantine, prune, mkdir, mode. Refuses when an identity
changed.
One JSON object as argument; answers {said: [...]}, {refused: why} (nothing changed) or {failed: why}."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import stat
import sys
from typing import Any

from runbooks.parsers.ckpt_content import check_content
from runbooks.parsers.ckpt_set import Spec, check_set
from tasks.probes.ckpt_copy import Refusal, copy_set, sync_folder
from tasks.probes.ckpt_fs import best_crc32, mount
from tasks.probes.ckpt_holders import holders
from tasks.probes.ckpt_node import identity, members, open_set, spec_from

NOREPLACE, EXCHANGE, AT_FDCWD = 1, 2, -100


def rename2(old: str, new: str, flags: int) -> None:
    """renameat2: atomic, and never replaces (NOREPLACE) or swaps (EXCHANGE). Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "renameat2"):
        raise OSError(errno.ENOSYS, "renameat2 is not there")
    if libc.renameat2(AT_FDCWD, os.fsencode(old), AT_FDCWD, os.fsencode(new), flags):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), new)


def same(root: str, name: str, expect: str) -> str:
    """Full path of a checkpoint that still is what was judged. Raises Refusal."""
    path = os.path.join(root, name)
    if os.path.isabs(name) or ".." in name.split("/"):
        raise Refusal("%s lies outside of the tier" % name)
    try:
        found = identity(members(path))
    except FileNotFoundError:
        raise Refusal("%s is not there any more" % path) from None
    if found != expect:
        raise Refusal("%s changed since it was judged" % path)
    return path


def not_open(root: str, names: list[str], readers: bool = True) -> None:
    """No process has one of the names open (or writes one), as far as every process can be seen. Raises Refusal."""
    seen = holders(root, mount(root)["fs_type"])
    if not seen["all"]:
        raise Refusal("not every process could be looked at: who uses it can't be told")
    tops = {n.split("/")[0] for n in names}
    for h in seen["list"]:
        if (readers or h["writing"]) and (not names or h["path"].split("/")[0] in tops):
            raise Refusal("pid %d has %s open" % (h["pid"], h["path"]))


def copy(ask: dict[str, Any]) -> list[str]:
    """Copies one checkpoint to another folder: temporary name, fsync, check there, publish without replacing."""
    path = same(ask["from"], ask["name"], ask["identity"])
    spec = spec_from(ask["spec"])
    folder = os.path.isdir(path)
    target = os.path.join(ask["root"], ask["name"])
    source = open_set(path)[1]
    temporary = copy_set(source, target, folder, ask["identity"])
    same(ask["from"], ask["name"], ask["identity"])
    return publish(temporary, target, folder, spec, ask["name"])


def publish(temporary: str, target: str, folder: bool, spec: Spec, name: str) -> list[str]:
    """Checks the copy where it lies and gives it its final name. Raises Refusal if that name is taken."""
    _, blobs = open_set(temporary)
    if not folder:
        blobs = {os.path.basename(target): next(iter(blobs.values()))}
    structure = check_set(blobs, spec)
    content = check_content(blobs, spec, best_crc32())
    faults = structure.faults + content.faults
    if faults:
        raise OSError(errno.EIO, "the copy is not whole: %s %s" % (faults[0].kind, faults[0].detail), temporary)
    try:
        if folder:
            rename2(temporary, target, NOREPLACE)
        else:
            os.link(temporary, target)
            os.unlink(temporary)
    except FileExistsError:
        raise Refusal("%s appeared meanwhile and was not replaced" % target) from None
    sync_folder(os.path.dirname(target))
    proof = "content proven" if content.checksummed else "bytes compared with the source"
    return ["%s lies at %s (%s)" % (name, target, proof)]


def point(ask: dict[str, Any]) -> list[str]:
    """Compare-and-set of the pointer: swaps a new one in, looks at what came out, swaps back if it is not the judged
    one."""
    root, pointer = ask["root"], os.path.join(ask["root"], ask["pointer"])
    same(root, ask["name"], ask["identity"])
    not_open(root, [], readers=False)
    if _pointer_identity(pointer, ask["pointer"]) != ask["expect"]:
        raise Refusal("%s changed since it was judged" % pointer)
    fresh = "%s.%d.tmp" % (pointer, os.getpid())
    if os.path.islink(pointer):
        os.symlink(ask["text"], fresh)
    else:
        _write(fresh, ask["text"], stat.S_IMODE(os.stat(pointer).st_mode))
    try:
        rename2(fresh, pointer, EXCHANGE)
        if _pointer_identity(fresh, ask["pointer"]) != ask["expect"]:
            rename2(fresh, pointer, EXCHANGE)
            raise Refusal("%s was changed by another writer in this very moment" % pointer)
    finally:
        os.unlink(fresh)
    sync_folder(root)
    return ["%s names %s" % (pointer, ask["text"])]


def _pointer_identity(path: str, name: str) -> str:
    try:
        return identity({name: os.lstat(path) if os.path.islink(path) else os.stat(path)})
    except FileNotFoundError:
        raise Refusal("%s is not there any more" % path) from None


def _write(path: str, text: str, mode: int) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        os.write(fd, text.encode())
        os.fsync(fd)
    finally:
        os.close(fd)


def quarantine(ask: dict[str, Any]) -> list[str]:
    """Renames a proven-bad checkpoint aside; nothing is deleted or replaced."""
    path = same(ask["root"], ask["name"], ask["identity"])
    not_open(ask["root"], [ask["name"]])
    to = os.path.join(ask["root"], ask["to"])
    if ".." in ask["to"] or os.path.isabs(ask["to"]):
        raise Refusal("%s lies outside of the tier" % ask["to"])
    try:
        rename2(path, to, NOREPLACE)
    except FileExistsError:
        raise Refusal("%s is taken" % to) from None
    sync_folder(os.path.dirname(path))
    return ["%s is now %s" % (path, to)]


def prune(ask: dict[str, Any]) -> list[str]:
    """Deletes the listed old checkpoints, only while every one that must stay is unchanged and nothing listed is
    open."""
    root, keep = ask["root"], ask["keep"]
    if not keep:
        raise Refusal("no proven checkpoint is named that stays")
    for k in keep:
        same(root, k["name"], k["identity"])
    paths = [same(root, d["name"], d["identity"]) for d in ask["delete"]]
    if {d["name"] for d in ask["delete"]} & {k["name"] for k in keep}:
        raise Refusal("one name is to stay and to go")
    not_open(root, [d["name"] for d in ask["delete"]])
    _not_pointed(root, ask.get("pointer", ""), [d["name"] for d in ask["delete"]])
    said = []
    for path, d in zip(paths, ask["delete"]):  # noqa: B905 - no strict= before Python 3.10
        gone = "%s.deleting-%s.tmp" % (path, d["identity"][:8])
        rename2(path, gone, NOREPLACE)
        _remove(gone)
        said.append("deleted %s (%d bytes)" % (path, d["size"]))
    sync_folder(root)
    return said


def _not_pointed(root: str, pointer: str, names: list[str]) -> None:
    path = os.path.join(root, pointer)
    if not pointer or not os.path.lexists(path):
        return
    text = os.readlink(path) if os.path.islink(path) else open(path, encoding="utf-8", errors="replace").read(1000)  # noqa: SIM115
    named = text.strip().rstrip("/").rpartition("/")[2]
    if any(named == n.rpartition("/")[2] for n in names):
        raise Refusal("%s names %s" % (path, named))


def _remove(path: str) -> None:
    if not os.path.isdir(path) or os.path.islink(path):
        os.unlink(path)
        return
    for folder, folders, files in os.walk(path, topdown=False):
        for name in files:
            os.unlink(os.path.join(folder, name))
        for name in folders:
            full = os.path.join(folder, name)
            (os.unlink if os.path.islink(full) else os.rmdir)(full)
    os.rmdir(path)


def mkdir(ask: dict[str, Any]) -> list[str]:
    """Creates the tier's folder on the device that was judged."""
    if not os.path.isdir(ask["parent"]) or os.path.dirname(ask["path"]) != ask["parent"]:
        raise Refusal("%s is not there any more" % ask["parent"])
    device = mount(ask["parent"])["device"]
    if device != ask["device"]:
        raise Refusal("%s lies on %s now, it was %s" % (ask["parent"], device, ask["device"]))
    try:
        os.mkdir(ask["path"], 0o755)
    except FileExistsError:
        raise Refusal("%s is there already" % ask["path"]) from None
    return ["created %s" % ask["path"]]


def mode(ask: dict[str, Any]) -> list[str]:
    """Gives a folder the mode back that its owner needs."""
    fd = os.open(ask["path"], os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        seen = os.fstat(fd)
        if (stat.S_IMODE(seen.st_mode), seen.st_uid) != (ask["from"], ask["uid"]):
            raise Refusal("%s has mode %04o and uid %d now" % (ask["path"], stat.S_IMODE(seen.st_mode), seen.st_uid))
        os.fchmod(fd, ask["to"])
    finally:
        os.close(fd)
    return ["%s has mode %04o" % (ask["path"], ask["to"])]


def main(ask: dict[str, Any]) -> dict[str, Any]:
    """Does what `do` says."""
    from tasks.probes.ckpt_transfer import download, upload

    table = {"copy": copy, "point": point, "quarantine": quarantine, "prune": prune, "mkdir": mkdir, "mode": mode}
    try:
        if ask["do"] == "upload":
            return upload(ask, same)
        said = download(ask, publish) if ask["do"] == "download" else table[ask["do"]](ask)
    except Refusal as e:
        return {"refused": str(e)}
    except OSError as e:
        return {"failed": "%s: %s %s" % (errno.errorcode.get(e.errno or 0, "?"), e.strerror, e.filename or "")}
    return {"said": said}


if __name__ == "__main__":
    json.dump(main(json.loads(sys.argv[1])), sys.stdout)
