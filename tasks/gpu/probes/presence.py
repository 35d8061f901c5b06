"""Reads what speaks for or against a GPU on the node, without asking a driver. JSON argument: {smi, root}."""

import json
import os
import shutil
import sys
from typing import Any

from tasks.gpu.probes.amd_cards import cards
from tasks.remote.probes.proc import in_container, names, pids, read, stat

PCI = "/sys/bus/pci/devices"
NVIDIA, DISPLAY = "0x10de", "0x03"  # PCI vendor id; class byte of VGA, 3D and display controllers


def pci() -> "list[dict[str, str]] | None":
    """NVIDIA display devices on the PCI bus with the driver that owns each; None when there is no view of the bus."""
    devices = names(PCI) if os.path.isdir(PCI) else None
    if devices is None:
        return None
    found = []
    for one in sorted(devices):
        vendor, kind = (read("%s/%s/%s" % (PCI, one, f)) or "" for f in ("vendor", "class"))
        if vendor.strip() == NVIDIA and kind.startswith(DISPLAY):
            driver = os.path.basename(os.path.realpath("%s/%s/driver" % (PCI, one)))
            found.append({"bus_id": one, "driver": "" if driver == "driver" else driver})
    return found


def device_nodes() -> "list[str]":
    """Device files of the driver (/dev/dxg is how WSL gives a GPU)."""
    return sorted("/dev/" + n for n in (names("/dev") or []) if n.startswith("nvidia") or n == "dxg")


def stuck() -> "list[int]":
    """`nvidia-smi` processes in uninterruptible sleep: another one would only join them."""
    found = (stat(pid) for pid in pids())
    return [p["pid"] for p in found if p and p["comm"] == "nvidia-smi" and p["state"] == "D"]


def main(ask: "dict[str, Any]") -> "dict[str, Any]":
    """All of it."""
    version = (read("/proc/driver/nvidia/version") or "").splitlines()
    return {"driver": version[0] if version else "", "devices": device_nodes(), "pci": pci(),
            "container": in_container(), "smi": shutil.which(ask["smi"]) or "", "stuck": stuck(),
            "amd": cards(ask["root"]), "kfd": os.path.exists(ask["root"] + "/dev/kfd")}  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
