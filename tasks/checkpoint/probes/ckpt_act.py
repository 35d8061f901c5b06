"""Changes checkpoints of one tier on the node: copy, point, quarantine, mkdir, mode; prune is next door. Refuses when an identity
changed.
One JSON object as argument; answers {said: [...]}, {refused: why} (nothing changed) or {failed: why}."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
import struct
import sys
from typing import Any

from runbooks.checkpoint.parsers.content import check_content
from runbooks.checkpoint.parsers.sets import CheckpointSpec, check_set
from tasks.checkpoint.probes.ckpt_copy import copy_set, sync_folder
from tasks.checkpoint.probes.ckpt_files import identity, members, open_set
from tasks.checkpoint.probes.ckpt_fs import best_crc32, mount
from tasks.checkpoint.probes.ckpt_guard import Unfinished, move, not_open, same
from tasks.checkpoint.probes.ckpt_node import spec_from
from tasks.checkpoint.probes.ckpt_prune import finish, prune, put_back
from tasks.remote.probes.aside import Misplaced, give_back, rename_free, swap, take, unguessable
from tasks.remote.probes.refused import Refused, refusal

WANTS = {
    "do": {
        "copy": {"from": "str", "root": "str", "name": "str", "identity": "str", "spec": "dict"},
        "download": {"root": "str", "name": "str", "identity": "str", "spec": "dict", "files": "dict", "folder": "bool"},
        "upload": {"from": "str", "name": "str", "identity": "str", "parts": "list"},
        "point": {"root": "str", "pointer": "str", "expect": "str", "text": "str", "name": "str", "identity": "str"},
        "quarantine": {"root": "str", "name": "str", "to": "str", "identity": "str"},
        "prune": {"root": "str", "delete": "list", "keep": "list", "pointer": "str?"},
        "finish": {"root": "str", "name": "str", "was": "str", "identity": "str"},
        "put-back": {"root": "str", "name": "str", "was": "str", "identity": "str"},
        "mkdir": {"path": "str", "parent": "str", "device": "str"},
        "mode": {"path": "str", "from": "int", "to": "int", "uid": "int"},
    }
}


def copy(ask: dict[str, Any]) -> list[str]:
    """Copies one checkpoint to another folder: temporary name, fsync, check there, publish without replacing."""
    path = same(ask["from"], ask["name"], ask["identity"])
    spec = spec_from(ask["spec"])
    folder = os.path.isdir(path)
    target = os.path.join(ask["root"], ask["name"])
    source = open_set(path, ask["from"])[1]
    temporary = copy_set(source, ask["root"], ask["name"], folder, ask["identity"])
    same(ask["from"], ask["name"], ask["identity"])
    return publish(temporary, target, folder, spec, ask["name"])


def publish(temporary: str, target: str, folder: bool, spec: CheckpointSpec, name: str) -> list[str]:
    """Checks the copy where it lies and gives it its final name, by way of one that nobody knows, where it still is what was
    checked. Raises Refused if the final name is taken or somebody wrote to the copy."""
    found, blobs = open_set(temporary)
    if not folder:
        blobs = {os.path.basename(target): next(iter(blobs.values()))}
    structure = check_set(blobs, spec)
    content = check_content(blobs, spec, best_crc32())
    faults = structure.faults + structure.limits + content.faults + content.limits
    if faults:
        raise OSError(errno.EIO, "the copy is not whole: %s %s" % (faults[0].kind, faults[0].detail), temporary)

    hidden = unguessable(temporary[: -len(".tmp")]) + ".tmp"

    def look() -> None:
        now = members(hidden)
        if identity(now if folder else {next(iter(found)): next(iter(now.values()))}) != identity(found):
            raise Refused("target-changed", "%s was written to while it was checked" % temporary)

    take(temporary, hidden, look)
    try:
        rename_free(hidden, target)
    except FileExistsError:
        give_back(hidden, temporary, "%s appeared meanwhile" % target)
        raise Refused("would-overwrite", "%s appeared meanwhile and was not replaced" % target) from None
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
        raise Refused("target-changed", "%s changed since it was judged" % pointer)
    fresh = "%s.pointing-%s.tmp" % (pointer, ask["expect"][:8])
    with contextlib.suppress(FileNotFoundError):
        os.unlink(fresh)  # of an earlier try of this very change that was killed
    if os.path.islink(pointer):
        os.symlink(ask["text"], fresh)
    else:
        _write(fresh, ask["text"], stat.S_IMODE(os.stat(pointer).st_mode))
    try:
        swap(fresh, pointer, lambda out: _judged(ask, out, pointer))
    except Misplaced:
        raise  # what lies there is somebody's, and stays
    except Exception:
        os.unlink(fresh)
        raise
    os.unlink(fresh)
    sync_folder(root)
    return ["%s names %s" % (pointer, ask["text"])]


def _judged(ask: dict[str, Any], out: str, pointer: str) -> None:
    """What came out is the judged pointer, and nobody writes it. Raises Refused."""
    not_open(ask["root"], [os.path.basename(out)], readers=False)
    if _pointer_identity(out, ask["pointer"]) != ask["expect"]:
        raise Refused("target-changed", "%s was changed by another writer in this very moment" % pointer)


def _pointer_identity(path: str, name: str) -> str:
    try:
        return identity({name: os.lstat(path) if os.path.islink(path) else os.stat(path)})
    except FileNotFoundError:
        raise Refused("target-changed", "%s is not there any more" % path) from None


def _write(path: str, text: str, mode: int) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        os.write(fd, text.encode())
        os.fsync(fd)
    finally:
        os.close(fd)


def quarantine(ask: dict[str, Any]) -> list[str]:
    """Renames a proven-bad checkpoint aside; nothing is deleted or replaced."""
    if ".." in ask["to"] or os.path.isabs(ask["to"]):
        raise Refused("not-ours", "%s lies outside of the tier" % ask["to"])
    path = same(ask["root"], ask["name"], ask["identity"])
    not_open(ask["root"], [ask["name"]])
    move(ask["root"], ask["name"], ask["to"], ask["identity"])
    sync_folder(os.path.dirname(path))
    return ["%s is now %s" % (path, os.path.join(ask["root"], ask["to"]))]


def mkdir(ask: dict[str, Any]) -> list[str]:
    """Creates the tier's folder on the device that was judged."""
    if not os.path.isdir(ask["parent"]) or os.path.dirname(ask["path"]) != ask["parent"]:
        raise Refused("target-changed", "%s is not there any more" % ask["parent"])
    held = os.open(ask["parent"], os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)  # it is made in this very folder
    try:
        device = mount(ask["parent"])["device"]
        if device != ask["device"]:
            raise Refused("target-changed", "%s lies on %s now, it was %s" % (ask["parent"], device, ask["device"]))
        if not os.path.samestat(os.stat(ask["parent"]), os.fstat(held)):
            raise Refused("target-changed", "%s was mounted or exchanged in this very moment" % ask["parent"])
        os.mkdir(os.path.basename(ask["path"]), 0o755, dir_fd=held)
    except FileExistsError:
        raise Refused("would-overwrite", "%s is there already" % ask["path"]) from None
    finally:
        os.close(held)
    return ["created %s" % ask["path"]]


def mode(ask: dict[str, Any]) -> list[str]:
    """Gives a folder the mode back that its owner needs: that very folder, whatever has its name meanwhile, which is told."""
    fd = os.open(ask["path"], os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        seen = os.fstat(fd)
        if (stat.S_IMODE(seen.st_mode), seen.st_uid) != (ask["from"], ask["uid"]):
            raise Refused("target-changed", "%s has mode %04o and uid %d now" % (ask["path"], stat.S_IMODE(seen.st_mode), seen.st_uid))
        os.fchmod(fd, ask["to"])
        try:
            there = os.path.samestat(os.lstat(ask["path"]), os.fstat(fd))
        except FileNotFoundError:
            there = False
        if not there:
            raise Unfinished("%s was exchanged in this very moment: the one that was judged got its mode and lies elsewhere" % ask["path"])
        now = stat.S_IMODE(os.fstat(fd).st_mode)
    finally:
        os.close(fd)
    return ["%s has mode %04o" % (ask["path"], now)]


def main(ask: dict[str, Any]) -> dict[str, Any]:
    """Does what `do` says."""
    from tasks.checkpoint.probes.ckpt_transfer import download, upload

    table = {
        "copy": copy, "point": point, "quarantine": quarantine, "prune": prune, "finish": finish,
        "put-back": put_back, "mkdir": mkdir, "mode": mode,
    }  # fmt: skip
    try:
        if ask["do"] == "upload":
            return upload(ask, same)
        said = download(ask, publish) if ask["do"] == "download" else table[ask["do"]](ask)
    except Refused as e:
        return refusal(e)
    except (Unfinished, Misplaced) as e:
        return {"failed": str(e)}
    except (ValueError, struct.error) as e:  # it changed while it was read
        return {"failed": "it could not be read as a checkpoint: %s" % e}
    except OSError as e:
        return {"failed": "%s: %s %s" % (errno.errorcode.get(e.errno or 0, "?"), e.strerror, e.filename or "")}
    return {"said": said}


if __name__ == "__main__":
    json.dump(main(json.loads(sys.argv[1])), sys.stdout)
