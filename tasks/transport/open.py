"""Opens hosts for nodes: one per node and run, shared jump hosts, all closed together at the end."""

import re
import threading

from runbooks.core.fleet import Jump, Node
from tasks.installation import lasting
from tasks.transport.base import Host
from tasks.transport.connection import SshConnection
from tasks.transport.keys import default_key
from tasks.transport.local import LocalHost
from tasks.transport.ssh import SshHost

_TARGET = re.compile(r"(?:(?P<user>[^@\s:/]+)@)?(?P<host>\[[0-9A-Fa-f:.]+\]|[^@\s:/\[\]]+)(?::(?P<port>\d{1,5}))?")


def open_host(node: Node) -> Host:
    """The host of that node. Nothing is connected before its first command."""
    return LocalHost(node.name) if node.local else SshHost(node)


class HostPool:
    """One host per node and run. Use as `Context.open_host`; call close_all at the end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._hosts: dict[str, Host] = {}
        self._machines: dict[str, SshHost] = {}  # two nodes with one address and key are one machine
        self._jumps: dict[str, SshConnection] = {}
        self._closed = False

    def __call__(self, node: Node) -> Host:
        """The node's host, the same one every time."""
        key = node.model_dump_json()  # a pod keeps its name where its address changes
        with self._lock:
            if self._closed:
                raise RuntimeError("this run's connections are closed")
            if key not in self._hosts:
                self._hosts[key] = self._make(node)
            return self._hosts[key]

    def connect_early(self, node: Node) -> None:
        """Opens the connection to that node in a thread. If it fails, the first command says so, and does not try again at once."""
        host = self(node)
        if isinstance(host, SshHost):
            threading.Thread(target=host.connect, name=f"connect {node.name}", daemon=True).start()

    def _make(self, node: Node) -> Host:
        if node.local:
            return LocalHost(node.name)
        same = node.model_dump_json(exclude={"name", "labels", "hands_off", "reason"})
        if same not in self._machines:
            jump = self._jump(node.jump, node.connect_timeout_s) if node.jump else None
            self._machines[same] = SshHost(node, jump)
        return self._machines[same].named(node.name)

    def _jump(self, jump: Jump, timeout_s: float) -> SshConnection:
        """Nodes behind the same jump host share its connection."""
        key = jump.model_dump_json()
        if key not in self._jumps:
            self._jumps[key] = SshConnection(jump, timeout_s)
        return self._jumps[key]

    @property
    def notes(self) -> tuple[str, ...]:
        """What every connection has to say to the report."""
        with self._lock:
            return tuple(dict.fromkeys(note for host in self._hosts.values() for note in host.notes))

    def __enter__(self) -> "HostPool":
        return self

    def __exit__(self, *_: object) -> None:
        self.close_all()

    def close_all(self) -> None:
        """End every connection of the run."""
        with self._lock:
            self._closed = True
            hosts, jumps = list(self._hosts.values()), list(self._jumps.values())
        for host in hosts:
            host.close()
        for jump in jumps:
            jump.close()


def parse_target(target: str) -> Node:
    """`user@host:port` as a node, for diagnosis without a fleet file. Raises ValueError; TransportError for no key."""
    found = _TARGET.fullmatch(target)
    if not found:
        raise ValueError(f"{target!r} is not user@host, user@host:port or user@[address]:port")
    host = found["host"].strip("[]")
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", host).strip("-._")[:62] or "target"
    return Node(
        name=name,
        host=host,
        user=found["user"],
        port=int(found["port"] or 22),
        key=default_key(),
        known_hosts=str(lasting("~/.ssh/known_hosts")),
    )
