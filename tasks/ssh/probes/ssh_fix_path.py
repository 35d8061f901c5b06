"""On the node: gives one path on the way to authorized_keys its right owner and mode, if it is still as it was read.

Argument: {path, device, inode, uid, gid, mode, to_uid, to_gid, to_mode}. Changes that path only."""

import json
import os
import stat
import sys
from typing import Any, Dict

WANTS = {
    "path": "str", "device": "int", "inode": "int", "uid": "int", "gid": "int", "mode": "int",
    "to_uid": "int", "to_gid": "int", "to_mode": "int",
}  # fmt: skip


def fix(ask: Dict[str, Any]) -> Dict[str, Any]:
    try:
        fd = os.open(ask["path"], os.O_RDONLY | os.O_NOFOLLOW)
    except OSError as e:
        return {"refused": "%s: %s" % (ask["path"], e.strerror), "code": "target-changed"}
    try:
        s = os.fstat(fd)
        now = {"device": s.st_dev, "inode": s.st_ino, "uid": s.st_uid, "gid": s.st_gid, "mode": s.st_mode & 0o7777}
        changed = [k for k in now if now[k] != ask[k]]
        if changed:
            return {"refused": "%s is not as it was read: %s" % (ask["path"], ", ".join(sorted(changed))), "code": "target-changed"}
        if not (stat.S_ISDIR(s.st_mode) or stat.S_ISREG(s.st_mode)):
            return {"refused": "%s is neither a file nor a folder" % ask["path"], "code": "not-ours"}
        if stat.S_ISREG(s.st_mode) and s.st_nlink != 1:
            return {"refused": "%s has %d names: it may be another one's file" % (ask["path"], s.st_nlink), "code": "not-ours"}
        if (s.st_uid, s.st_gid) != (ask["to_uid"], ask["to_gid"]):
            os.fchown(fd, ask["to_uid"], ask["to_gid"])
        os.fchmod(fd, ask["to_mode"])
        there = os.lstat(ask["path"])
        s = os.fstat(fd)
        if not os.path.samestat(there, s):
            return {"failed": "%s was exchanged in this very moment: the one that was judged was changed and lies elsewhere" % ask["path"]}
        return {"uid": s.st_uid, "gid": s.st_gid, "mode": s.st_mode & 0o7777}
    except OSError as e:
        return {"failed": "%s: %s" % (ask["path"], e.strerror)}
    finally:
        os.close(fd)


if __name__ == "__main__":
    print(json.dumps(fix(json.loads(sys.argv[1]))))
