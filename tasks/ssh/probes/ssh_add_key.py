"""On the node: adds one public key to one user's authorized_keys, if that file is still as it was read.

Argument: {path, inode (0: it did not exist), keys, uid, gid, home, line, blob}. Appends; the file is never rewritten, so that
lines which others append meanwhile stay. `keys` are the fingerprints that were read in it. Acts as the user, follows no link
below the home, and says at the end whether the path still leads to what was changed.
"""

import json
import os
import stat
import sys
from typing import Any, Dict, List

from tasks.remote.probes.below import RunAs, open_file, open_folder
from tasks.remote.probes.refused import Refused, refusal
from tasks.ssh.probes.ssh_authorized import keys_of

WANTS = {
    "path": "str", "inode": "int", "keys": "list", "uid": "int", "gid": "int", "home": "str", "line": "str", "blob": "str",
}  # fmt: skip
LARGEST = 16 << 20


def add(ask: Dict[str, Any]) -> Dict[str, Any]:
    path, home = ask["path"], ask["home"].rstrip("/")
    parts = path[len(home) + 1 :].split("/")
    if not home or not path.startswith(home + "/") or (len(parts) > 2 and not ask["inode"]):
        return {"refused": "%s does not lie in the home %s, or not in a folder directly below it" % (path, home or "/"), "code": "not-ours"}
    made = []  # type: List[str]
    try:
        with RunAs(ask["uid"], ask["gid"]):  # on a network file system root may be nobody; links on the way are the machine's own
            top = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as e:
        return {"refused": "%s: %s" % (home, e.strerror), "code": "cannot-check"}
    try:
        fd = opened(ask, top, parts, made)
    except Refused as e:
        return {"failed": str(e)} if made else refusal(e)
    except OSError as e:
        said = "%s: %s" % (path, e.strerror)
        return {"failed": said} if made else {"refused": said, "code": "cannot-check"}
    finally:
        os.close(top)
    try:
        return append(ask, fd, made)
    except Refused as e:
        return refusal(e)
    except OSError as e:
        return {"failed": "%s: %s" % (path, e.strerror)}
    finally:
        os.close(fd)


def opened(ask: Dict[str, Any], top: int, parts: List[str], made: List[str]) -> int:
    """The file, made if it did not exist; as the user, so that nothing is reached that they could not reach. Raises Refused."""
    create = 0 if ask["inode"] else os.O_CREAT | os.O_EXCL
    with RunAs(ask["uid"], ask["gid"]):
        folder, new = open_folder(top, parts[:-1], make=not ask["inode"])
        made += new
        try:
            return open_file(folder, parts[-1], os.O_RDWR | os.O_APPEND | create)
        except (FileNotFoundError, FileExistsError) as e:
            raise Refused("target-changed", "%s is not as it was read: %s" % (ask["path"], e.strerror)) from None
        except PermissionError:
            if create:
                raise
            seen = open_file(folder, parts[-1], os.O_PATH)
        finally:
            os.close(folder)
    try:
        if os.fstat(seen).st_uid != 0:  # a file that root gave them is written by root, and looked at below
            raise Refused("not-supported", "%s may not be written by its user" % ask["path"])
        return os.open("/proc/self/fd/%d" % seen, os.O_RDWR | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC)
    finally:
        os.close(seen)


def append(ask: Dict[str, Any], fd: int, made: List[str]) -> Dict[str, Any]:
    """One line at the end of the opened file. Raises Refused when it is not the one that was read."""
    seen, path = os.fstat(fd), ask["path"]
    if not stat.S_ISREG(seen.st_mode) or seen.st_nlink != 1 or seen.st_uid not in (0, ask["uid"]):
        raise Refused("not-ours", "%s is no plain file of its user with one name" % path)
    text = content(fd)
    if (ask["inode"] and seen.st_ino != ask["inode"]) or [k["fingerprint"] for k in keys_of(text)] != ask["keys"]:
        raise Refused("target-changed", "%s is not as it was read" % path)
    if ask["blob"] in text:
        raise Refused("would-overwrite", "the key is in %s already" % path)
    os.write(fd, (("" if not text or text.endswith("\n") else "\n") + ask["line"] + "\n").encode())
    if ask["line"] not in content(fd).split("\n"):  # somebody else's unfinished line came before it
        os.write(fd, ("\n" + ask["line"] + "\n").encode())
    os.fsync(fd)
    ours = os.fstat(fd)
    if not os.path.samestat(os.stat(path), ours):
        return {"failed": "%s was replaced in this very moment: the line went into the deleted file" % path}
    return {"path": path, "bytes": ours.st_size, "made": made}


def content(fd: int) -> str:
    """The whole file. Raises Refused for one that no person wrote."""
    size = os.fstat(fd).st_size
    if size > LARGEST:
        raise Refused("target-changed", "the file has %d bytes" % size)
    return os.pread(fd, size + (1 << 16), 0).decode("utf-8", "replace")


if __name__ == "__main__":
    print(json.dumps(add(json.loads(sys.argv[1]))))
