"""Reads AMD GPUs from the kernel's own files over a window: no tool of AMD's is needed. One JSON argument, one JSON answer.

Argument: root (in front of /sys, "" but in tests), window_s, samples. Files: drivers/gpu/drm/amd (mem_info_vram_*,
gpu_busy_percent, unique_id, hwmon power in microwatts) and amdkfd (topology: gpu_id by PCI address; proc/PID/vram_GPUID: bytes).
"""

import json
import os
import sys
import time
from typing import Any

from tasks.gpu.probes.amd_cards import cards
from tasks.remote.probes.proc import names, read


def number(path: str) -> "int | None":
    """The file's number; None when there is none."""
    text = (read(path) or "").strip()
    return int(text) if text.lstrip("-").isdigit() else None


def kfd_ids(root: str) -> "dict[str, str]":
    """The compute driver's number of each GPU, by PCI address."""
    at, found = root + "/sys/class/kfd/kfd/topology/nodes", {}
    for one in names(at) or []:
        lines = (read("%s/%s/properties" % (at, one)) or "").splitlines()
        facts = {k: v.strip() for k, _, v in (line.partition(" ") for line in lines)}
        ident, where = number("%s/%s/gpu_id" % (at, one)), int(facts.get("location_id") or 0)
        if ident and where:
            place = "%04x:%02x:%02x.%x" % (int(facts.get("domain") or 0), where >> 8 & 255, where >> 3 & 31, where & 7)
            found[place] = str(ident)
    return found


def holders(root: str, ident: str) -> "list[dict[str, int]] | None":
    """Compute processes with memory on it; None when the compute driver does not say."""
    at = root + "/sys/class/kfd/kfd/proc"
    if not ident or not os.path.isdir(at):
        return None
    found = []
    for pid in sorted(int(p) for p in names(at) or [] if p.isdigit()):
        used = number("%s/%d/vram_%s" % (at, pid, ident))
        if used:
            found.append({"pid": pid, "used": used})
    return found


def power(folder: str) -> "float | None":
    """Watts of the whole card now."""
    for one in names(folder + "/hwmon") or []:
        for name in ("power1_average", "power1_input"):
            value = number("%s/hwmon/%s/%s" % (folder, one, name))
            if value is not None:
                return value / 1e6
    return None


def sample(folder: str, at: float) -> "dict[str, Any]":
    """One look."""
    return {"at_s": round(at, 3), "sm": number(folder + "/gpu_busy_percent"), "memory": number(folder + "/mem_busy_percent"),
            "power_w": power(folder)}  # fmt: skip


def main(ask: "dict[str, Any]") -> "dict[str, Any]":
    """The window, then what each card is and who is on it."""
    root, began, many = ask["root"], time.monotonic(), max(1, int(ask["samples"]))
    found = {c: [] for c in cards(root)}  # type: dict[str, list[dict[str, Any]]]
    for k in range(many):
        time.sleep(max(0.0, began + float(ask["window_s"]) * k / max(1, many - 1) - time.monotonic()))
        for one, samples in found.items():
            samples.append(sample("%s/sys/bus/pci/devices/%s" % (root, one), time.monotonic() - began))
    idents, gpus = kfd_ids(root), []
    for index, (one, samples) in enumerate(found.items()):
        folder = "%s/sys/bus/pci/devices/%s" % (root, one)
        gpus.append({
            "index": index, "bus_id": one, "samples": samples, "name": (read(folder + "/product_name") or "").strip(),
            "device": (read(folder + "/device") or "").strip(), "unique_id": (read(folder + "/unique_id") or "").strip(),
            "total": number(folder + "/mem_info_vram_total"), "used": number(folder + "/mem_info_vram_used"),
            "processes": holders(root, idents.get(one, "")),
        })  # fmt: skip
    return {"gpus": gpus}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
