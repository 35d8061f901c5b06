"""A node that is another machine as far as processes and network go: pids, addresses and an sshd of its own; files are this machine's."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from deployments.lab.sshd import SSHD, Sshd
from tests.support.namespaces import ip
from tests.support.need import need_program

TAKES = 4  # addresses: a /30 of RFC 2544's test range for each process of the tests


class OtherNode(Sshd):
    """Its sshd is pid 1 of it: all its processes end with it. Needs root."""

    def __init__(self, folder: Path, name: str) -> None:
        need_program("ip", "iproute2")
        super().__init__(folder, name)
        first = os.getpid() % 16_384 * TAKES
        self.gate, self.address = (f"198.19.{(first + n) >> 8}.{(first + n) & 255}" for n in (1, 2))
        self._addresses = (self.address,)
        self.write_known_hosts()
        self.tag = f"on{os.getpid()}"

    def start(self) -> "OtherNode":
        """Its network, then its sshd; waits until that answers."""
        Path("/run/sshd").mkdir(exist_ok=True, mode=0o755)
        (self.folder / "config").write_text(self._config())
        ip("netns", "add", self.tag)
        ip("link", "add", self.tag, "type", "veth", "peer", "name", "eth0", "netns", self.tag)
        ip("addr", "add", f"{self.gate}/30", "dev", self.tag)
        ip("link", "set", self.tag, "up")
        ip("-n", self.tag, "addr", "add", f"{self.address}/30", "dev", "eth0")
        for name in ("lo", "eth0"):
            ip("-n", self.tag, "link", "set", name, "up")
        room = ["ip", "netns", "exec", self.tag, "unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
        sshd = [SSHD, "-D", "-f", str(self.folder / "config"), "-E", str(self.log)]
        self._process = subprocess.Popen([*room, *sshd], stdin=subprocess.DEVNULL, start_new_session=True)
        self._wait()
        return self

    def __enter__(self) -> "OtherNode":
        return self.start()

    def stop(self) -> None:
        """With all that runs there; its network goes with it."""
        super().stop()
        for what in (("link", "del", self.tag), ("netns", "del", self.tag)):
            subprocess.run(["ip", *what], check=False, capture_output=True)

    def inside(self) -> Sequence[str]:
        """What leads a command into it."""
        (first,) = (Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split())
        return ("nsenter", "-t", first, "-p", "-m", "-n")
