"""A real sshd with PAM rules of its own and a system log, as /var/log/auth.log holds it: sshd's and the modules' lines."""

import shlex
import socket
import threading
from pathlib import Path
from typing import Any

from tests.support.sshd_room import Room

_PLACES = (
    'mkdir -p {old} && mount --rbind /dev {old} && mount -t tmpfs -o mode=755 none /dev && '
    'for n in null zero random urandom; do touch /dev/$n && mount --bind {old}/$n /dev/$n || exit 1; done && '
    'ln -s {socket} /dev/log && mount -t tmpfs none /var/log && touch /var/log/auth.log && mount --bind {log} /var/log/auth.log && '
    'mount -t tmpfs none /run && mkdir -m 755 /run/sshd && mount --bind {pam} /etc/pam.d/sshd && '
)  # fmt: skip


class PamRoom(Room):
    """`account`: the account rules of sshd's PAM service; `nologin`: the text of /run/nologin, "" for none."""

    def __init__(self, folder: Path, account: str, *, nologin: str = "", **given: Any) -> None:
        super().__init__(folder, options={"UsePAM": "yes"}, **given)
        self.log = self.folder / "auth.log"
        self.log.touch()
        pam = self.folder / "pam"
        pam.write_text(f"auth required pam_deny.so\n{account}\nsession required pam_permit.so\n")
        files = {"old": self.folder / "dev", "socket": self.folder / "dev-log", "log": self.log, "pam": pam}
        self.inside = _PLACES.format(**{k: shlex.quote(str(v)) for k, v in files.items()})
        if nologin:
            (self.folder / "nologin").write_text(nologin)
            self.inside += f"cp {shlex.quote(str(self.folder / 'nologin'))} /run/nologin && "
        self._syslog = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._syslog.bind(str(files["socket"]))
        Path(files["socket"]).chmod(0o666)
        self._writer = threading.Thread(target=self._write, daemon=True)
        self._writer.start()

    def log_option(self) -> list[str]:
        """The system log."""
        return []

    def _write(self) -> None:
        """`<38>Apr  2 10:46:36 sshd[7]: words` as rsyslog writes it."""
        while (said := self._syslog.recv(8192).decode("utf-8", "replace").rstrip("\0\n")) != "end":
            text = said.partition(">")[2]
            with self.log.open("a") as f:
                f.write(f"{text[:15]} here {text[16:]}\n")

    def stop(self) -> None:
        """The server, then its log."""
        super().stop()
        if self._writer.is_alive():
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
                s.sendto(b"end", self._syslog.getsockname())
            self._writer.join(5)
        self._syslog.close()
