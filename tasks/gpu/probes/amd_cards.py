"""Finds AMD GPUs on the PCI bus, whatever a driver says."""

from tasks.remote.probes.proc import names, read

AMD = "0x1002"  # PCI vendor id
GPU_CLASSES = ("0x03", "0x12")  # class bytes: display, processing accelerator


def cards(root: str) -> "list[str]":
    """PCI addresses of AMD's display devices and accelerators."""
    at, found = root + "/sys/bus/pci/devices", []
    for one in sorted(names(at) or []):
        vendor, kind = ((read("%s/%s/%s" % (at, one, f)) or "").strip() for f in ("vendor", "class"))
        if vendor == AMD and kind.startswith(GPU_CLASSES):
            found.append(one)
    return found
