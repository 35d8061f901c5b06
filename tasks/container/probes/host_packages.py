"""Reads which engine, driver and kernel packages changed, and which GPU driver is loaded and installed. Part of a probe."""

import glob
import gzip
import os
import re
import subprocess
import time
from typing import Any

from tasks.remote.probes.proc import read

KINDS = (
    ("engine", r"docker|containerd|moby|runc|podman|crun"),
    ("driver", r"nvidia|libnvidia|libcuda|cuda-drivers|kmod-nvidia|xserver-xorg-video-nvidia|linux-modules-nvidia"),
    ("kernel", r"linux-image|linux-modules|kernel(?:-core|-modules)?"),
)  # by the beginning of a package's name; the first that fits
PACKAGES = "|".join(k for _, k in KINDS)
PACKAGE = re.compile(r"^(\S+ \S+) (upgrade|install|remove) ((?:%s)\S*) (\S+) (\S+)$" % PACKAGES)
RPM = re.compile(r"^(\S+) .*?(Upgraded|Updated|Upgrade|Installed): ((?:%s)\S*)$" % PACKAGES)
LIBRARIES = ("/usr/lib/*-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/lib/*-linux-gnu/nvidia/current")
MOST = 40


def kind_of(package: str) -> str:
    """engine, driver or kernel."""
    return next((kind for kind, names in KINDS if re.match(names, package) and not _is_tool(package)), "")


def _is_tool(package: str) -> bool:
    """The container toolkit is neither driver nor engine: containers go on without a restart of either."""
    return "container" in package and package.startswith(("nvidia", "libnvidia"))


def dpkg(text: str) -> "list[dict[str, Any]]":
    """Lines of dpkg's log."""
    found = []
    for line in text.splitlines():
        m = PACKAGE.match(line)
        new = m is not None and m.group(2) == "install" and kind_of(m.group(3)) == "engine"  # the first one upgrades none
        if m and kind_of(m.group(3)) and not new:
            at = time.mktime(time.strptime(m.group(1), "%Y-%m-%d %H:%M:%S"))
            what = "%s %s -> %s" % (m.group(2), m.group(4), m.group(5))
            name = m.group(3).split(":")[0]
            found.append({"at": at, "package": name, "what": what, "about": kind_of(name)})
    return found


def rpm(text: str) -> "list[dict[str, Any]]":
    """Lines of dnf's log."""
    found = []
    for line in text.splitlines():
        m = RPM.match(line)
        if m and kind_of(m.group(3)):
            at = time.mktime(time.strptime(m.group(1)[:19], "%Y-%m-%dT%H:%M:%S"))
            found.append({"at": at, "package": m.group(3), "what": m.group(2), "about": kind_of(m.group(3))})
    return found


def packages() -> "list[dict[str, Any]]":
    """Changes of all ages that the package manager's logs still hold, oldest first."""
    old = sorted(glob.glob("/var/log/dpkg.log.[0-9].gz"), reverse=True)
    rows = [r for path in (*old, "/var/log/dpkg.log.1", "/var/log/dpkg.log") for r in dpkg(tail(path, 1 << 20))]
    rows += rpm(tail("/var/log/dnf.rpm.log", 1 << 20))
    return sorted(rows, key=lambda r: r["at"])[-MOST:]


def tail(path: str, size: int) -> str:
    """The end of a log file in whole lines (half a secret is not known for one), "" when it is not there."""
    try:
        if path.endswith(".gz"):
            with gzip.open(path, "rt", errors="replace") as g:
                text = g.read()
                return text[-size:].partition("\n")[2] if len(text) > size else text
        with open(path, "rb") as f:
            before = max(0, os.fstat(f.fileno()).st_size - size)
            f.seek(before)
            text = f.read().decode("utf-8", "replace")
            return (text.partition("\n")[2] or text.partition(" ")[2]) if before else text
    except OSError:
        return ""


def driver(root: str = "") -> "dict[str, Any] | None":
    """Versions of the NVIDIA driver: of the loaded module, of the libraries, of the module that a load would take.

    None: no trace of a driver. `root` stands before every path.
    """
    said = re.search(r"Kernel Module(?: for \S+)?\s+(\d+\.[\d.]+)", read(root + "/proc/driver/nvidia/version") or "")
    libraries = sorted({v for d in LIBRARIES for v in _versions(root + d)})
    module = "" if root else modinfo()
    if not (said or libraries or module):
        return None
    return {"loaded": said.group(1) if said else "", "libraries": libraries, "module": module}


def _versions(folder: str) -> "list[str]":
    paths = glob.glob(folder + "/libnvidia-ml.so.*") + glob.glob(folder + "/libcuda.so.*")
    found = [p.rsplit(".so.", 1)[1] for p in paths if not os.path.islink(p)]
    return [v for v in found if re.match(r"\d{3,}\.\d", v)]


def modinfo() -> str:
    """Version of the module file for the running kernel, "" where there is none."""
    try:
        argv = ["modinfo", "-F", "version", "nvidia"]
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=5)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace").strip()[:40]
