"""Reads what tells this machine from others: its boot, its process namespace, its hardware. Changes nothing. Python 3.6.

Not the machine id nor the SSH host keys: clones of one image share them.
"""

import glob
import json
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any


def text(path: str) -> str:
    """The file's text, "" where it cannot be read."""
    try:
        with open(path, encoding="ascii", errors="replace") as f:
            return f.read(200).strip()
    except OSError:
        return ""


def macs() -> "list[str]":
    """Addresses that makers gave to network cards; others (bit 2 of the first byte) may be the same on many machines."""
    cards = [os.path.dirname(path) for path in glob.glob("/sys/class/net/*/device")]
    found = {text(card + "/address") for card in cards}
    return sorted(m for m in found - {"", "00:00:00:00:00:00"} if not int(m[:2], 16) & 2)[:8]


def main() -> "dict[str, Any]":
    """Each mark, "" where it cannot be read."""
    try:
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        space = ""
    return {
        "boot_id": text("/proc/sys/kernel/random/boot_id"),
        "space": space,
        "product_uuid": text("/sys/class/dmi/id/product_uuid"),
        "macs": macs(),
    }


if __name__ == "__main__":
    json.dump(main(), sys.stdout)
