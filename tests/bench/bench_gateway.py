"""From an alert's POST to the first diagnostic command on the node (a real sshd), beside ansible-rulebook and plain Prefect.

Run: python -m tests.bench.bench_gateway [--seconds 300] [--every 2] [--postgres] [--peer 5] [--ansible FOLDER] [--json]
The node itself writes down when each command begins (ForceCommand), so both ways are measured by the same clock.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from deployments.lab.sshd import Sshd
from tests.bench.peer_ansible import ansible_seconds
from tests.bench.peer_automation import peer_seconds
from tests.support.gateway import Gateway, firing, payload
from tests.support.postgres import Postgres

NODES = 16  # the most addresses that one sshd listens on
ALERTS = "rules: [{name: bench, match: ['alertname=Bench'], runbook: zombie-gpu, target: '{{ node }}'}]\n"
STAMP = """#!/bin/sh
printf '%s %s\\n' "$(date +%s.%N)" "$SSH_CONNECTION" >>{stamps}
exec /bin/sh -c "$SSH_ORIGINAL_COMMAND"
"""


class Site:
    """Nodes that write down when a command begins."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.stamps = folder / "stamps"
        self.stamps.touch(mode=0o666)
        script = folder / "stamp.sh"
        script.write_text(STAMP.format(stamps=self.stamps), encoding="utf-8")
        script.chmod(0o755)
        addresses = tuple(f"127.0.7.{i + 1}" for i in range(NODES))
        self.sshd = Sshd(folder, "bench", address=addresses[0], addresses=addresses, options={"ForceCommand": str(script)})
        stack.enter_context(self.sshd)
        self.nodes = [self.sshd.node(name=f"node-{i}", host=a) for i, a in enumerate(addresses)]
        self.fleet = folder / "fleet.yaml"
        rows = [n.model_dump(mode="json", exclude_defaults=True) for n in self.nodes]
        self.fleet.write_text(yaml.safe_dump({"name": "bench", "nodes": rows}), encoding="utf-8")

    def first_after(self, node: int, began: float) -> float | None:
        """Seconds from `began` to the first command on that node after it; None if there was none."""
        address = self.nodes[node].host
        for line in self.stamps.read_text(encoding="utf-8").splitlines():
            words = line.split()
            if words[3] == address and float(words[0]) > began:
                return float(words[0]) - began
        return None

    def wait_first(self, began: float, limit_s: float, what: str) -> float:
        """As `first_after` of the first node, waited for, and three seconds more for its run to end. RuntimeError: `what`."""
        while time.time() < began + limit_s:
            found = self.first_after(0, began)
            if found is not None:
                time.sleep(3)
                return found
            time.sleep(0.1)
        raise RuntimeError(what)


def send(gateway: Gateway, seconds: float, every: float) -> list[tuple[int, float, float]]:
    """One alert every so often: (node, when it was sent, seconds to the answer)."""
    sent = []
    start = time.time()
    for i in range(max(1, int(seconds / every))):
        time.sleep(max(0.0, start + i * every - time.time()))
        began = time.time()
        body = payload([firing(f"node-{i % NODES}", "Bench", datetime.now(UTC))])
        response = gateway.post(body)
        if response.status_code != 200 or response.json()["alerts"][0]["outcome"] != "started":
            raise RuntimeError(f"alert {i}: {response.status_code} {response.text}")
        sent.append((i % NODES, began, time.time() - began))
    return sent


def row(values: list[float]) -> dict[str, float]:
    """Median, 99th percentile (the nearest rank) and the worst."""
    ordered = sorted(values)
    rank = min(len(ordered) - 1, max(0, -(-99 * len(ordered) // 100) - 1))
    return {"p50": round(statistics.median(ordered), 3), "p99": round(ordered[rank], 3), "max": round(ordered[-1], 3)}


def measure(site: Site, home: Path, seconds: float, every: float) -> dict[str, Any]:
    """Ours. A node's next alert comes after NODES * every seconds: its run has ended by then."""
    gateway = Gateway(home, site.fleet, None, ALERTS.replace("rules:", "same_within_s: 0\nrules:"), toy=False).start()
    try:
        sent = send(gateway, seconds, every)
        gateway.quiet(120)
    finally:
        gateway.stop()
    times = [site.first_after(node, began) for node, began, _ in sent]
    seen = [t for t in times if t is not None]
    return {"alerts": len(sent), "without_a_command": len(times) - len(seen)} | {
        "first_command_s": row(seen),
        "answer_s": row([a for _, _, a in sent]),
    }


def cli(*words: str) -> None:
    """A command of ours, that must succeed."""
    subprocess.run([sys.executable, "-m", "deployments.cli.main", *words], check=True, stdout=subprocess.DEVNULL)


def _peers(ns: argparse.Namespace) -> list[tuple[str, Callable[[Site, Path, int], list[float]]]]:
    """What is measured beside ours, by name."""
    ansible = [("ansible_rulebook", partial(ansible_seconds, bin_folder=ns.ansible))] if ns.ansible else []
    return [*ansible, ("prefect_automation", peer_seconds)] if ns.peer else []


def run(ns: argparse.Namespace) -> dict[str, Any]:
    """A server of its own, our gateway, then the peer on the same server."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        home = Path(folder)
        home.chmod(0o755)
        for name in [n for n in os.environ if n.startswith(("PREFECT_", "GPU_RUNBOOKS_"))]:
            del os.environ[name]
        os.environ["GPU_RUNBOOKS_HOME"] = str(home / "state")
        if ns.postgres:
            database = Postgres().start()
            stack.callback(database.stop)
            url = database.url.replace("postgresql://", "postgresql+asyncpg://")
            os.environ["PREFECT_SERVER_DATABASE_CONNECTION_URL"] = url
        site = Site(home, stack)
        stack.callback(cli, "down", "--now")
        cli("up")
        found = {"database": "PostgreSQL" if ns.postgres else "SQLite", "every_s": ns.every}
        found |= measure(site, home, ns.seconds, ns.every)
        ours = found["first_command_s"]["p50"]
        for name, peer in _peers(ns):
            try:
                found[f"{name}_first_command_s"] = theirs = row(peer(site, home, ns.peer))
                found[f"{name}_to_ours"] = f"{theirs['p50'] / ours:.1f} x"
            except RuntimeError as e:  # what was measured before is not lost
                found[f"{name}_failed"] = str(e)
        shutil.rmtree(home / "reports", ignore_errors=True)
    return found


def main(argv: list[str]) -> int:
    """Measure once and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--every", type=float, default=2)
    parser.add_argument("--postgres", action="store_true")
    parser.add_argument("--peer", type=int, default=5, help="alerts through event, automation and serve (0: none)")
    parser.add_argument("--ansible", type=Path, help="bin folder of an environment with ansible-rulebook, to run beside")
    parser.add_argument("--json", action="store_true")
    found = run(parser.parse_args(argv))
    print(json.dumps(found) if "--json" in argv else "\n".join(f"{k:22} {v}" for k, v in found.items()))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
