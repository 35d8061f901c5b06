"""A real sshd in a mount namespace of its own, with its own accounts, so that users can be locked, moved and broken."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deployments.lab.sshd import SSHD, Sshd, public_key
from runbooks.core.fleet import Fleet, Node

UID = 4001
_ENTER = 'mount --bind "$1" /etc/passwd && mount --bind "$2" /etc/shadow && shift 2 && '


class Room(Sshd):
    """An sshd with user `op`, whose home lies in the test's folder. `second_way` reads it from inside the namespace."""

    inside = ""  # further commands of a shell that sets the namespace up, each with `&&` behind it

    def __init__(
        self,
        folder: Path,
        name: str = "room",
        *,
        options: Mapping[str, str] | None = None,
        shell: str = "/bin/sh",
        password: str = "*",  # noqa: S107 - what shadow holds for "none"
        host_kinds: tuple[str, ...] = ("ed25519",),
    ) -> None:
        given = {"StrictModes": "yes", "AuthorizedKeysFile": ".ssh/authorized_keys"} | dict(options or {})
        super().__init__(folder, name, options=given, host_kinds=host_kinds)
        for parent in (folder, self.folder):
            parent.chmod(0o755)
        self.home = self.folder / "home"
        self.keys = self.home / ".ssh" / "authorized_keys"
        self.keys.parent.mkdir(parents=True)
        self.keys.write_text(public_key(self.key) + "\n")
        for path, mode in ((self.home, 0o755), (self.keys.parent, 0o700), (self.keys, 0o600)):
            os.chown(path, UID, UID)
            path.chmod(mode)
        self.account(shell, password)

    def account(self, shell: str, password: str) -> None:
        """passwd and shadow as the server sees them."""
        (self.folder / "passwd").write_text(
            Path("/etc/passwd").read_text() + f"op:x:{UID}:{UID}:op:{self.home}:{shell}\n"
        )
        shadow = Path("/etc/shadow").read_text() + f"op:{password}:19000:0:99999:7:::\n"
        (self.folder / "shadow").write_text(shadow)

    def start(self) -> "Room":
        """Start in the namespace and wait until it answers. Started already: nothing."""
        if self._process is not None:
            return self
        Path("/run/sshd").mkdir(exist_ok=True, mode=0o755)
        (self.folder / "config").write_text(self._config())
        files = [str(self.folder / "passwd"), str(self.folder / "shadow")]
        sshd = [SSHD, "-D", "-f", str(self.folder / "config"), *self.log_option()]
        enter = f'{_ENTER}{self.inside}exec "$@"'
        command = ["unshare", "-m", "--propagation", "private", "sh", "-c", enter, "sh", *files, *sshd]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
        self._wait()
        return self

    def log_option(self) -> list[str]:
        """Where sshd itself writes to."""
        return ["-E", str(self.log)]

    def fleet(self, folder: Path, way: bool = True, **fields: Any) -> Fleet:
        """A fleet of this server and, as its other way in, its own namespace."""
        second = {"node": "here", "prefix": ["nsenter", "-t", str(self.pid), "-m"]} if way else None
        node = self.node(**({"user": "op", "second_way": second, "connect_timeout_s": 3} | fields))
        return Fleet(
            nodes=(node, Node(name="here", local=True)),
            reports={"folder": str(folder / "reports")},
        )
