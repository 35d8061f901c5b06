"""Reads the PCI bridges above NVIDIA GPUs, the IOMMU and whether this is a virtual machine. Part of other probes."""

import glob
import os
from typing import Any

from tasks.remote.probes.proc import names, read

PCI = "/sys/bus/pci/devices"
NVIDIA = "0x10de"


def raw(path: str) -> str:
    """The configuration space in hex: 64 bytes for who is not root, "" when it can't be read."""
    try:
        with open(path, "rb") as f:
            return f.read(4096).hex()
    except OSError:
        return ""


def bridges_above(gpus: "list[str]") -> "list[str]":
    """Bridges between those devices and the root, by their paths in sysfs."""
    found = set()
    for gpu in gpus:
        folder = os.path.dirname(os.path.realpath(gpu))
        while os.path.exists(folder + "/config"):
            found.add(folder)
            folder = os.path.dirname(folder)
    return sorted(found)


def pci_paths() -> "dict[str, Any]":
    """Everything that decides whether GPUs reach each other directly."""
    gpus = [d for d in sorted(glob.glob(PCI + "/*")) if (read(d + "/vendor") or "").strip() == NVIDIA
            and (read(d + "/class") or "").startswith("0x03")]  # fmt: skip
    flags = [x for x in (read("/proc/cpuinfo", 1 << 14) or "").splitlines() if x.startswith("flags")]
    return {
        "gpus": [os.path.basename(g) for g in gpus],
        "bridges": {os.path.basename(b): raw(b + "/config") for b in bridges_above(gpus)},
        "iommu": names("/sys/class/iommu"), "groups": len(names("/sys/kernel/iommu_groups") or []),
        "cmdline": [w for w in (read("/proc/cmdline") or "").split() if "iommu" in w],
        "virtual": bool(flags) and " hypervisor" in flags[0],
    }  # fmt: skip
