"""Reads how full this machine's own file systems are, which of them failed, and whether anything keeps its clock. Changes nothing.

For the probe of a machine's limits. Network file systems are not asked: one whose server is gone would hold the answer.
"""

import ctypes
import glob
import json
import os
import re
import subprocess
from typing import Any

from tasks.remote.probes.proc import read

KINDS = ("ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "vfat", "zfs", "bcachefs", "overlay")
WRITABLE = ("ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "vfat")
MOST, SMART_S, MOST_DISKS = 64, 5, 16  # of smartctl on one disk; a disk that answers later is told as not read
UNSYNCHRONISED = 0x40  # STA_UNSYNC of adjtimex(2)


def mounts() -> "list[dict[str, Any]]":
    """This machine's own file systems, each once, at its shortest place. A container's layers and an image in a file count as the
    root alone: they take their room from another one."""
    found = {}  # type: dict[str, dict[str, Any]]
    for row in (read("/proc/self/mountinfo", 1 << 20) or "").splitlines():
        words = row.split()
        if "-" not in words:
            continue
        end = words.index("-")
        kind, device, options = words[end + 1], words[end + 2], words[end + 3]
        path = re.sub(r"\\([0-7]{3})", lambda m: chr(int(m.group(1), 8)), words[4])
        if kind not in KINDS or (path != "/" and (kind == "overlay" or device.startswith("/dev/loop"))):
            continue
        one = {"path": path, "kind": kind, "device": device, "mount": words[5].split(","), "super": options.split(",")}
        if words[2] not in found or len(path) < len(found[words[2]]["path"]):
            found[words[2]] = one
    return sorted(found.values(), key=lambda m: m["path"])[:MOST]


def full(rows: "list[dict[str, Any]]", miss: Any) -> "list[dict[str, Any]]":
    """Bytes and inodes of those that can be written: what ordinary users may use of them."""
    out = []
    for m in rows:
        if "ro" in m["super"] or "ro" in m["mount"]:
            continue
        try:
            s = os.statvfs(m["path"])
        except OSError as e:
            miss("space in %s" % m["path"], "denied" if e.errno in (1, 13) else "failed", e.strerror or "")
            continue
        where = "the size of %s (%s)" % (m["device"], m["kind"])
        used = (s.f_blocks - s.f_bfree) * s.f_frsize
        out.append({"subject": m["path"], "of": "bytes", "used": used, "limit": used + s.f_bavail * s.f_frsize, "setting": where})
        if s.f_files:
            out.append({"subject": m["path"], "of": "inodes", "used": s.f_files - s.f_favail, "limit": s.f_files, "setting": where})
    return [g for g in out if g["limit"]]


def failed(rows: "list[dict[str, Any]]") -> "list[dict[str, str]]":
    """Mounted to be written, and read-only by now: the kernel does so after an error. And errors that ext4 has counted."""
    out = []
    for m in rows:
        if m["kind"] in WRITABLE and "rw" in m["mount"] and ("ro" in m["super"] or "emergency_ro" in m["super"]):
            said = "%s (%s) is mounted to be written and has become read-only" % (m["device"], m["kind"])
            out.append({"subject": m["path"], "said": said})
        count = (read("/sys/fs/ext4/%s/errors_count" % os.path.basename(os.path.realpath(m["device"]))) or "0").strip()
        if m["kind"] == "ext4" and count.isdigit() and int(count):
            said = "%s (ext4) has counted %s errors since it was last checked" % (m["device"], count)
            out.append({"subject": m["path"], "said": said})
    return out


def smart() -> "dict[str, Any]":
    """What disks say of their own health by `smartctl -H`; `why` where none could be asked."""
    names = [os.path.basename(p) for p in glob.glob("/sys/block/*") if os.path.exists(p + "/device")]
    disks = sorted(n for n in names if re.match(r"(sd|nvme|hd)", n))[:MOST_DISKS]
    if not disks:
        return {"bad": [], "asked": 0, "why": "no disk that has a health of its own (virtual ones have none)"}
    bad, asked, why = [], 0, ""
    for name in disks:
        try:
            done = subprocess.run(("smartctl", "-H", "-j", "/dev/" + name), stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=SMART_S)
            passed = json.loads(done.stdout.decode("utf-8", "replace")).get("smart_status", {}).get("passed")
        except FileNotFoundError:
            return {"bad": [], "asked": 0, "why": "smartctl is not installed (package smartmontools)"}
        except (OSError, ValueError, subprocess.TimeoutExpired):
            passed = None
        if passed is None:
            why = "/dev/%s does not say (ask as root)" % name
            continue
        asked += 1
        if not passed:
            bad.append({"subject": "/dev/" + name, "said": "the disk says of itself that it is failing (SMART health: FAILED)"})
    return {"bad": bad, "asked": asked, "why": why}


def kept() -> "dict[str, Any] | None":
    """Whether anything keeps the clock in time, by the kernel (adjtimex, read only); None where it does not say."""
    try:
        buffer = ctypes.create_string_buffer(512)  # struct timex; modes 0: nothing is set
        state = ctypes.CDLL(None, use_errno=True).adjtimex(buffer)
    except (OSError, AttributeError):
        return None
    if state < 0:
        return None
    long = ctypes.sizeof(ctypes.c_long)
    fields = (ctypes.c_long * 8).from_buffer(buffer)  # modes, offset, freq, maxerror, esterror, status …
    status = ctypes.c_int.from_buffer(buffer, 5 * long).value
    return {"kept": not status & UNSYNCHRONISED, "off_s": round(fields[3] / 1e6, 3)}


def look(miss: Any) -> "dict[str, Any]":
    """All of it."""
    rows = mounts()
    return {"disks": full(rows, miss), "failed": failed(rows), "smart": smart(), "kept": kept(), "file_systems": len(rows)}
