"""Client CPU per node and wall time for N simulated nodes over real sshd: ours, paramiko, ssh, Fabric's own.

Each sshd listens on 16 loopback addresses (127.0.1.x), its most; each node is one connection and one command.
Run: python -m tests.bench.bench_transport --nodes 100 [--json]
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import paramiko

from runbooks.core.fleet import Node
from tasks.transport.open import HostPool
from tests.support.sshd import Sshd

COMMAND = ["cat", "/proc/uptime"]
MOST_NODES = 250
MOST_ADDRESSES = 16  # sshd's MAX_LISTEN_SOCKS


def ours(nodes: list[Node], at_once: int) -> None:
    """Our transport: a pool, one command each."""
    pool = HostPool()
    _each(nodes, at_once, lambda node: pool(node).run(COMMAND).out)
    pool.close_all()


def bare_paramiko(nodes: list[Node], at_once: int) -> None:
    """paramiko alone, with the same checks: known_hosts, one key."""
    key = paramiko.Ed25519Key.from_private_key_file(str(nodes[0].key and nodes[0].key.file))

    def one(node: Node) -> str:
        client = paramiko.SSHClient()
        client.load_host_keys(str(node.known_hosts))
        client.set_missing_host_key_policy(paramiko.RejectPolicy())
        off = {"look_for_keys": False, "allow_agent": False}
        client.connect(str(node.host), node.port, node.user, pkey=key, timeout=20, **off)  # type: ignore[arg-type]
        out = client.exec_command(" ".join(COMMAND))[1].read().decode()
        client.close()
        return out

    _each(nodes, at_once, one)


def fabric_defaults(nodes: list[Node], at_once: int) -> None:
    """Fabric as its documentation shows it (which accepts any host key)."""
    from fabric import Connection

    def one(node: Node) -> str:
        kwargs = {"key_filename": str(node.key and node.key.file)}
        with Connection(str(node.host), user=node.user, port=node.port, connect_kwargs=kwargs) as connection:
            return str(connection.run(" ".join(COMMAND), hide=True, in_stream=False).stdout)

    _each(nodes, at_once, one)


def system_ssh(nodes: list[Node], at_once: int) -> None:
    """The ssh program."""

    def one(node: Node) -> str:
        options = [
            f"UserKnownHostsFile={node.known_hosts}",
            "StrictHostKeyChecking=yes",
            "IdentitiesOnly=yes",
            "BatchMode=yes",
        ]
        words = ["ssh", "-F", "none", "-i", str(node.key and node.key.file), "-p", str(node.port)]
        words += [w for o in options for w in ("-o", o)] + [f"{node.user}@{node.host}", *COMMAND]
        return subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout

    _each(nodes, at_once, one)


def _each(nodes: list[Node], at_once: int, one: Callable[[Node], str]) -> None:
    with ThreadPoolExecutor(at_once) as pool:
        for out in pool.map(one, nodes):
            if len(out.split()) != 2:
                raise RuntimeError(f"a wrong answer: {out[:80]!r}")


def simulated_nodes(folder: Path, count: int, stack: ExitStack) -> list[Node]:
    """That many addresses that answer as nodes; their servers are stopped with `stack`."""
    nodes: list[Node] = []
    for first in range(0, count, MOST_ADDRESSES):
        addresses = tuple(f"127.0.1.{i + 1}" for i in range(first, min(count, first + MOST_ADDRESSES)))
        sshd = Sshd(folder, f"sshd{first}", address=addresses[0], addresses=addresses, options={"LogLevel": "ERROR"})
        stack.enter_context(sshd)
        nodes += [sshd.node(name=a.replace(".", "-"), host=a, connect_timeout_s=20) for a in addresses]
    return nodes


def cpu_s() -> float:
    """CPU of this process and of the children that it waited for."""
    uses = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in uses)


WAYS = {"ours": ours, "paramiko": bare_paramiko, "ssh": system_ssh, "fabric": fabric_defaults}


def measure(nodes: list[Node], at_once: int, ways: list[str]) -> dict[str, dict[str, float]]:
    """CPU in ms per node and wall seconds of each way, after one warm-up node."""
    found = {}
    for way in ways:
        WAYS[way](nodes[:1], 1)
        cpu, wall = cpu_s(), time.monotonic()
        WAYS[way](nodes, at_once)
        spent, took = cpu_s() - cpu, time.monotonic() - wall
        found[way] = {"cpu_ms_per_node": round(1000 * spent / len(nodes), 1), "wall_s": round(took, 2)}
    return found


def main(argv: list[str]) -> int:
    """Prints one line per way and the ratios to paramiko."""
    parser = argparse.ArgumentParser(prog="bench_transport", description=__doc__)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--at-once", type=int, default=8)
    parser.add_argument("--ways", default="ours,paramiko,ssh,fabric", help="comma-separated")
    parser.add_argument("--json", action="store_true")
    ns = parser.parse_args(argv)
    count = max(1, min(ns.nodes, MOST_NODES))
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        nodes = simulated_nodes(Path(folder), count, stack)
        found = measure(nodes, ns.at_once, ns.ways.split(","))
    print(json.dumps({"nodes": count, "at_once": ns.at_once, "ways": found}) if ns.json else _table(count, found))
    return 0


def _table(count: int, found: dict[str, dict[str, float]]) -> str:
    base = found.get("paramiko", next(iter(found.values())))["cpu_ms_per_node"] or 1
    lines = [f"{count} nodes, one connection and one command each"]
    for way, got in found.items():
        cpu = got["cpu_ms_per_node"]
        lines.append(
            f"  {way:9} {cpu:6.1f} ms CPU per node ({cpu / base:4.2f} x paramiko)  {got['wall_s']:6.2f} s wall"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
