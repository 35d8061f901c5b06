"""On the node: adds one public key to one user's authorized_keys, if that file is still as it was read.

Argument: {path, inode (0: it did not exist), keys, uid, gid, home, line, blob}. Appends; the file is never rewritten.
`keys` are the fingerprints that were read in it."""

import json
import os
import sys
from typing import Any, Dict

from tasks.probes.ssh_authorized import keys_in


def add(ask: Dict[str, Any]) -> Dict[str, Any]:
    path, folder = ask["path"], os.path.dirname(ask["path"])
    try:
        inode = os.lstat(path).st_ino
    except OSError:
        inode = 0
    if inode != ask["inode"] or [k["fingerprint"] for k in keys_in(path)] != ask["keys"]:
        return {"refused": "%s is not as it was read" % path}
    made = []
    try:
        if not os.path.isdir(folder):
            if os.path.dirname(folder) != ask["home"]:
                return {"refused": "%s does not exist and is not directly below the home" % folder}
            os.mkdir(folder, 0o700)
            os.chown(folder, ask["uid"], ask["gid"])
            made.append(folder)
        flags = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | (os.O_CREAT | os.O_EXCL if not inode else 0)
        fd = os.open(path, flags, 0o600)
    except OSError as e:
        return {"refused" if not made else "failed": "%s: %s" % (path, e.strerror)}
    try:
        text = os.read(fd, 1 << 20).decode("utf-8", "replace")
        if ask["blob"] in text:
            return {"refused": "the key is in %s already" % path}
        if not inode:
            os.fchown(fd, ask["uid"], ask["gid"])
        os.write(fd, (("" if not text or text.endswith("\n") else "\n") + ask["line"] + "\n").encode())
        os.fsync(fd)
        return {"path": path, "bytes": os.fstat(fd).st_size, "made": made}
    finally:
        os.close(fd)


if __name__ == "__main__":
    print(json.dumps(add(json.loads(sys.argv[1]))))
