"""Reads what carries a tier on the node: folder, file system, mount, a nameless write, who holds files open."""

from __future__ import annotations

import errno
import os
import re
import stat
from typing import Any

NETWORK = (
    "nfs",
    "cifs",
    "smb",
    "lustre",
    "gpfs",
    "beegfs",
    "ceph",
    "glusterfs",
    "9p",
    "fuse",
    "afs",
    "weka",
    "virtiofs",
)


def space(root: str, try_write: bool) -> dict[str, Any]:
    """Folder and file system."""
    out: dict[str, Any] = {"path": root, "exists": os.path.lexists(root), "asking_uid": os.geteuid()}
    nearest = root
    while not os.path.isdir(nearest) and nearest != "/":
        nearest = os.path.dirname(nearest)
    out["nearest"] = nearest
    out["folder"] = os.path.isdir(root)
    try:
        seen, fs = os.stat(root if out["exists"] else nearest), os.statvfs(nearest)
        out.update(mode=stat.S_IMODE(seen.st_mode), uid=seen.st_uid, gid=seen.st_gid, owner=_user(seen.st_uid))
        unit = fs.f_frsize
        out.update(total=fs.f_blocks * unit, free=fs.f_bfree * unit, available=fs.f_bavail * unit)
        out.update(inodes=fs.f_files, inodes_free=fs.f_favail, read_only=bool(fs.f_flag & os.ST_RDONLY))
    except OSError as e:
        out["error"] = errno.errorcode.get(e.errno or 0, "?")
    out.update(mount(nearest))
    if try_write and out["folder"]:
        out["write"] = _try_write(root)
    return out


def _user(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def mount(path: str) -> dict[str, Any]:
    """The mount that carries a path."""
    real, best = os.path.realpath(path), ("", "", "")
    with open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            device, point, kind = line.split()[:3]
            point = point.encode().decode("unicode_escape")
            if (real == point or real.startswith(point.rstrip("/") + "/")) and len(point) >= len(best[1]):
                best = (device, point, kind)
    return {"device": best[0], "fs_type": best[2], "network": best[2].startswith(NETWORK), "disks": disks(best[0])}


def disks(device: str) -> list[str]:
    """Names by which the kernel's log calls a block device: partition, disk, what lies below it, NVMe controller."""
    if not device.startswith("/dev/"):
        return []
    todo, found = [os.path.basename(os.path.realpath(device))], []
    while todo:
        name = todo.pop()
        if name in found or not os.path.exists("/sys/class/block/" + name):
            continue
        found.append(name)
        place = os.path.realpath("/sys/class/block/" + name)
        if os.path.exists(place + "/partition"):
            todo.append(os.path.basename(os.path.dirname(place)))
        if os.path.isdir(place + "/slaves"):
            todo.extend(os.listdir(place + "/slaves"))
        if name.startswith("nvme"):
            found.append(re.match("nvme[0-9]+", name).group())  # type: ignore[union-attr]
    return sorted(set(found))


def _try_write(root: str) -> str:
    """Writes 4 KiB to a file without a name: no one sees it, and it is gone when it is closed."""
    try:
        fd = os.open(root, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    except OSError as e:
        name = errno.errorcode.get(e.errno or 0, "?")
        return "not-tried" if name in ("EOPNOTSUPP", "EISDIR", "EINVAL") else name
    try:
        os.write(fd, b"\xa5" * 4096)
        os.fsync(fd)
    except OSError as e:
        return errno.errorcode.get(e.errno or 0, "?")
    finally:
        os.close(fd)
    return "ok"


def best_crc32() -> Any:
    """The fastest CRC-32 that is installed."""
    for module, inner in (("isal", "isal_zlib"), ("zlib_ng", "zlib_ng")):
        try:
            return __import__("%s.%s" % (module, inner), fromlist=["crc32"]).crc32
        except ImportError:
            continue
    import zlib

    return zlib.crc32


def credentials() -> dict[str, Any]:
    """Places on this node that hold S3 credentials, by name only."""
    names = ("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
             "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE")  # fmt: skip
    files = [
        p
        for p in ("~/.aws/credentials", "~/.aws/config", "/root/.aws/credentials")
        if os.path.isfile(os.path.expanduser(p))
    ]
    return {"found": ["variable " + n for n in names if os.environ.get(n)] + ["file " + f for f in files]}


def torch_version() -> dict[str, Any]:
    """The installed torch, without importing it."""
    from importlib import metadata

    try:
        return {"torch": metadata.version("torch")}
    except metadata.PackageNotFoundError:
        return {"torch": ""}
