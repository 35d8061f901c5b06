"""Starts real OpenSSH servers on loopback for the lab and the tests: own keys, own known_hosts, free ports."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from deployments.ports import free_port
from runbooks.core.fleet import KeySource, Node

SSHD = "/usr/sbin/sshd"  # sshd must be started by its absolute path
_START_S = 10.0


def make_key(path: Path, kind: str = "ed25519", passphrase: str = "", bits: int = 0) -> Path:
    """A key pair by ssh-keygen; kind is ed25519, ecdsa or rsa."""
    path.parent.mkdir(parents=True, exist_ok=True)
    size = ["-b", str(bits)] if bits else []
    command = ["ssh-keygen", "-q", "-t", kind, *size, "-N", passphrase, "-C", path.name, "-f", str(path)]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    return path


def public_key(path: Path) -> str:
    """`ssh-ed25519 AAAA…` of a private key's path, without the comment."""
    return " ".join(Path(f"{path}.pub").read_text().split()[:2])


class Sshd:
    """One sshd. Files are below `folder`/`name`; `options` are lines of sshd_config that win over the defaults,
    `environment` is that of a shell above it, as the start script of a pod is."""

    def __init__(
        self,
        folder: Path,
        name: str,
        *,
        address: str = "127.0.0.1",
        options: Mapping[str, str] | None = None,
        host_kinds: tuple[str, ...] = ("ed25519",),
        addresses: tuple[str, ...] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.environment = dict(environment or {})
        self.folder, self.name, self.address = folder / name, name, address
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.port = free_port(address)
        self.options = dict(options or {})
        self._addresses = addresses or (address,)
        self.key = folder / "id_ed25519"
        if not self.key.exists():
            make_key(self.key)
        self.host_keys = [make_key(self.folder / f"host_{k}", k) for k in host_kinds]
        self.known_hosts = self.folder / "known_hosts"
        self.log = self.folder / "log"
        self._process: subprocess.Popen[bytes] | None = None
        self.authorize(self.key)
        self.write_known_hosts()

    @property
    def pid(self) -> int:
        """The listener. Raises RuntimeError when it is not started."""
        if self._process is None:
            raise RuntimeError(f"sshd {self.name} is not started")
        own = self._process.pid
        return next(p for p in _all_pids() if _parent(p) == own) if self.environment else own

    def authorize(self, *keys: Path) -> None:
        """Let these keys in, and no others."""
        path = self.folder / "authorized_keys"
        path.write_text("".join(public_key(k) + "\n" for k in keys))
        path.chmod(0o600)

    def write_known_hosts(self) -> None:
        """known_hosts for all addresses and host keys of this server."""
        names = [a if self.port == 22 else f"[{a}]:{self.port}" for a in self._addresses]
        lines = [f"{name} {public_key(key)}\n" for name in names for key in self.host_keys]
        self.known_hosts.write_text("".join(lines))

    def node(self, **fields: Any) -> Node:
        """This server as a node of a fleet."""
        given: dict[str, Any] = {
            "name": self.name,
            "host": self.address,
            "port": self.port,
            "user": os.environ.get("USER") or _own_name(),
            "key": KeySource(file=str(self.key)),
            "known_hosts": str(self.known_hosts),
            "connect_timeout_s": 5,
        }
        return Node(**(given | fields))

    def start(self) -> "Sshd":
        """Start and wait until it answers. Raises RuntimeError with what sshd said."""
        if not Path(SSHD).exists():
            raise RuntimeError(f"{SSHD} is missing; install the package openssh-server")
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True, mode=0o755)
        (self.folder / "config").write_text(self._config())
        command = [SSHD, "-D", "-f", str(self.folder / "config"), "-E", str(self.log)]
        if self.environment:
            command = ["sh", "-c", '"$@"; true', "sh", *command]
        env = os.environ | self.environment
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True, env=env)
        self._wait()
        return self

    def _wait(self) -> None:
        until = time.monotonic() + _START_S
        while time.monotonic() < until:
            if self._process and self._process.poll() is not None:
                break
            with suppress(OSError), socket.create_connection((self.address, self.port), timeout=1):
                return
            time.sleep(0.02)
        said = self.read_log()
        self.stop()
        raise RuntimeError(f"sshd {self.name} did not start: {said[-500:]}")

    def _config(self) -> str:
        defaults = {
            "Port": str(self.port),
            "PidFile": "none",
            "AuthorizedKeysFile": str(self.folder / "authorized_keys"),
            "PasswordAuthentication": "no",
            "KbdInteractiveAuthentication": "no",
            "PermitRootLogin": "prohibit-password",
            "StrictModes": "no",
            "UsePAM": "no",
            "UseDNS": "no",
            "PrintMotd": "no",
            "MaxStartups": "200:30:300",
            "LogLevel": "VERBOSE",
        }
        lines = [f"{k} {v}" for k, v in (defaults | self.options).items()]
        lines += [f"ListenAddress {a}" for a in self._addresses] + [f"HostKey {k}" for k in self.host_keys]
        return "\n".join(lines) + "\n"

    def read_log(self) -> str:
        """What this server wrote so far."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def sessions(self) -> list[int]:
        """Pids of the connections' sshd processes: children of the listener."""
        return [p for p in _all_pids() if _parent(p) == self.pid]

    def signal(self, sign: signal.Signals) -> None:
        """Send a signal to the listener."""
        os.kill(self.pid, sign)

    def cut(self) -> None:
        """Kill every connection's server process, as a crash or a power loss would."""
        for pid in self.sessions():
            for child in [p for p in _all_pids() if _parent(p) == pid and "sshd" in _command(p)]:
                with suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def stop(self) -> None:
        """Stop the listener and its connections; commands that clients started there end by their own limits."""
        if self._process is None:
            return
        with suppress(ProcessLookupError, StopIteration):
            listener = self.pid
            os.kill(listener, signal.SIGCONT)
            self.cut()
            os.kill(listener, signal.SIGTERM)
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def __enter__(self) -> "Sshd":
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


def _own_name() -> str:
    import pwd

    return pwd.getpwuid(os.geteuid()).pw_name


def _all_pids() -> list[int]:
    return [int(p.name) for p in Path("/proc").iterdir() if p.name.isdecimal()]


def _parent(pid: int) -> int:
    with suppress(OSError, IndexError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


def _command(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text()
    return ""
