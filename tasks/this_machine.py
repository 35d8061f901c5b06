"""Reads who this process is, so that another one can later prove that it is gone."""

import os
import socket
from pathlib import Path

from runbooks.core.base import Frozen


class Owner(Frozen):
    """A process, named so that no other can be mistaken for it: pids are reused, (pid, start, boot) is not."""

    host: str
    pid: int
    start_ticks: int
    boot_id: str

    @property
    def shown(self) -> str:
        """As a person is told of it: host and pid."""
        return f"{self.host.split('/')[0]} pid {self.pid}"

    def labels(self) -> dict[str, str]:
        """As flow run labels."""
        return {
            "owner.host": self.host,
            "owner.pid": str(self.pid),
            "owner.start": str(self.start_ticks),
            "owner.boot": self.boot_id,
        }

    @staticmethod
    def from_labels(labels: dict[str, object]) -> "Owner | None":
        """The owner written by `labels()`, or None."""
        try:
            return Owner(
                host=str(labels["owner.host"]),
                pid=int(str(labels["owner.pid"])),
                start_ticks=int(str(labels["owner.start"])),
                boot_id=str(labels["owner.boot"]),
            )
        except (KeyError, ValueError):
            return None


def boot_id() -> str:
    """Kernel boot id (text, one per boot)."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def host_name() -> str:
    """Host name plus machine id where there is one: two machines with one name are two machines."""
    try:
        return f"{socket.gethostname()}/{Path('/etc/machine-id').read_text(encoding='ascii').strip()[:12]}"
    except OSError:
        return socket.gethostname()


def machine_name() -> str:
    """The same with the namespace of its pids: two containers may share a host's name, their pids differ."""
    name, _, machine = host_name().partition("/")
    return "/".join(part for part in (name, str(Path("/proc/self/ns/pid").readlink()), machine) if part)


def start_ticks(pid: int) -> int | None:
    """Start time of `pid` in clock ticks since boot (field 22 of /proc/PID/stat); None if it is gone or a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = stat.rsplit(")", 1)[1].split()
    return None if fields[0] in ("Z", "X") else int(fields[19])


def this_process() -> Owner:
    """This process as an owner."""
    pid = os.getpid()
    return Owner(host=machine_name(), pid=pid, start_ticks=start_ticks(pid) or 0, boot_id=boot_id())


def is_gone(owner: Owner) -> bool | None:
    """True: proven gone. False: alive. None: on another machine, cannot be told from here.

    Only this boot of this machine proves anything. Another boot id may be ours from before a restart, or the one of a
    clone that lives: clones share host name and machine id. Whether such a process beats tells them apart.
    """
    if owner.host != machine_name() or owner.boot_id != boot_id():
        return None
    found = start_ticks(owner.pid)
    return None if found is None and _hidden(owner.pid) else found != owner.start_ticks


def _hidden(pid: int) -> bool:
    """True if there is a process of that pid that /proc does not show to us."""
    if Path(f"/proc/{pid}").exists():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
