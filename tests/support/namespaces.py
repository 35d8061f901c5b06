"""Hosts with their own addresses: network namespaces on one bridge, reached as a `Host` through `ip netns exec`."""

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tasks.transport.base import CommandResult
from tasks.transport.local import LocalHost
from tests.support.leftovers import own
from tests.support.need import need_program

SUBNET = "198.18.79"  # RFC 2544 test range; inside namespaces only


class NamespaceHost(LocalHost):
    """Commands run inside a network namespace; processes are this machine's."""

    def __init__(self, name: str, namespace: str) -> None:
        super().__init__(name)
        self.namespace = namespace

    def run(
        self, argv: Sequence[str], *, stdin: str | None = None, timeout_s: float = 20.0, limit_bytes: int = 1 << 20
    ) -> CommandResult:
        """As on this machine, with the namespace's network."""
        inside = ["ip", "netns", "exec", self.namespace, *argv]
        return super().run(inside, stdin=stdin, timeout_s=timeout_s, limit_bytes=limit_bytes)


def ip(*argv: str) -> None:
    """One `ip` command."""
    subprocess.run(["ip", *argv], check=True, capture_output=True)


@contextmanager
def namespaces(count: int) -> Iterator[list[NamespaceHost]]:
    """`count` hosts at SUBNET.1 and up on a bridge in a namespace of its own; all removed at the end."""
    need_program("ip", "iproute2")
    tag = own(f"rz{os.getpid()}")
    made = [f"{tag}-sw", *(f"{tag}-{i}" for i in range(1, count + 1))]
    try:
        for name in made:
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        ip("-n", made[0], "link", "add", "br0", "type", "bridge")
        ip("-n", made[0], "link", "set", "br0", "up")
        for i, name in enumerate(made[1:], 1):
            ip("-n", made[0], "link", "add", f"v{i}", "type", "veth", "peer", "name", "eth0", "netns", name)
            ip("-n", made[0], "link", "set", f"v{i}", "master", "br0", "up")
            ip("-n", name, "addr", "add", f"{SUBNET}.{i}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
        yield [NamespaceHost(f"n{i}", name) for i, name in enumerate(made[1:], 1)]
    finally:
        for name in made:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
