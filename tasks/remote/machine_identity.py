"""Reads which machine a node is, whatever its name: by marks that no two machines share at a time."""

import hashlib

from runbooks.core.base import Frozen
from runbooks.core.reading import UnknownReason
from tasks.remote.probe import run_probe
from tasks.transport.base import Host, TransportError

HOSTS_SPACE = "pid:[4026531836]"  # the kernel's first pid namespace (PROC_PID_INIT_INO): not inside a container


class Machine(Frozen):
    """Marks of one machine, hashed."""

    boot: str  # of its kernel: also of every container on it
    same: tuple[str, ...]  # what names the same place: this boot of this machine or container, and hardware of its own


def mark(kind: str, text: str) -> str:
    """A mark as a tag: its kind, and a hash of what was read."""
    return f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def read_machine(host: Host, timeout_s: float = 15.0) -> Machine:
    """Reads boot id, pid namespace, DMI uuid (root only) and network cards. Raises TransportError, also without a boot id.

    A container shares its host's boot and DMI uuid, not its pid namespace; hardware is its host's, not its own.
    """
    got = run_probe(host, "machine_marks", {}, timeout_s=timeout_s)
    boot, space, uuid = (str(got.get(k) or "") for k in ("boot_id", "space", "product_uuid"))
    if not boot:
        raise TransportError(UnknownReason.UNPARSABLE, "it does not say which boot it is of", "machine_marks")
    hardware = (uuid, *map(str, got.get("macs") or ())) if space == HOSTS_SPACE else ()
    return Machine(
        boot=mark("boot", boot), same=(place_mark(boot, space), *(mark("card", h) for h in hardware if h))
    )


def place_mark(boot: str, space: str) -> str:
    """The mark of one boot of a machine, or of a container on it by its pid namespace."""
    return mark("place", f"{boot} {space}")
