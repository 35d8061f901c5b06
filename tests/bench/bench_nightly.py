"""The nightly over N simulated nodes (real sshd) through Prefect, against the same readings and reports without it.

Run: python -m tests.bench.bench_nightly --nodes 100 [--json]
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import yaml

from flows.engine.observe import context_of, observe, report_of
from flows.specs import SLUGS, load_spec
from runbooks.core.fleet import Fleet, Node
from runbooks.core.knowledge import load_runbook
from runbooks.core.render import render
from tasks.context import utc_now
from tasks.report_store import save
from tasks.transport.open import HostPool
from tests.bench.bench_transport import simulated_nodes
from tests.support.cli import CLI

MOST_NODES = 250
AT_ONCE = 8  # the nightly's own default


def without_prefect(fleet: Fleet, folder: Path) -> None:
    """The floor: every runbook that the nightly runs, gathered, judged and reported for every node, in threads."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(lambda n: _of_node(fleet, n, folder), fleet.nodes))


def _of_node(fleet: Fleet, node: Node, folder: Path) -> None:
    """Over one connection, as the nightly does it."""
    with HostPool() as hosts:
        for spec in map(load_spec, SLUGS):
            if spec.nightly and spec.nightly(fleet, node):
                context = context_of(spec, fleet, node.name, folder, hosts, sweep="nightly")
                at = utc_now()
                evidence, found = observe(spec, context)
                report = report_of(spec, context, found, evidence, at, id=f"floor-{node.name}")
                save(report, render(report, load_runbook(spec.slug)), folder, keep=fleet.reports.keep)


def nightly(fleet: Path, env: dict[str, str]) -> dict[str, Any]:
    """The command line, warm server. Returns what the nightly's own report says of its cost."""
    done = subprocess.run([*CLI, "nightly", "--fleet", str(fleet), "--json"], env=env, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    report = json.loads(Path(json.loads(done.stdout)["json"]).read_text(encoding="utf-8"))
    if len({r["node"] for r in report["results"]}) != len(report["nodes"]):
        raise RuntimeError(f"not every node has a result: {report['not_read'][:3]}")
    cost = report["cost"]
    return cost if isinstance(cost, dict) else {}


def measure(nodes: list[Node], home: Path) -> dict[str, float]:
    """Wall seconds and client CPU milliseconds per node, both ways, in this order, on one machine."""
    fleet = Fleet(name="bench", nodes=tuple(nodes))
    path = home / "fleet.yaml"
    data = [n.model_dump(mode="json", exclude_defaults=True) for n in nodes]
    path.write_text(yaml.safe_dump({"name": "bench", "nodes": data}), encoding="utf-8")
    env = {k: v for k, v in os.environ.items() if not k.startswith("PREFECT_")} | {"GPU_RUNBOOKS_HOME": str(home)}
    subprocess.run([*CLI, "up"], env=env, check=True, capture_output=True)
    try:
        cost = nightly(path, env)
    finally:
        subprocess.run([*CLI, "down", "--now"], env=env, check=True, capture_output=True)
    began, used = time.monotonic(), _cpu_s()
    without_prefect(fleet, home / "floor")
    wall, cpu = time.monotonic() - began, _cpu_s() - used
    return {
        "nightly_wall_s": float(cost["wall_s"]),
        "floor_wall_s": round(wall, 2),
        "wall_ratio": round(float(cost["wall_s"]) / wall, 2),
        "nightly_cpu_ms_per_node": round(1000 * float(cost["cpu_s"] or 0) / len(nodes), 1),
        "floor_cpu_ms_per_node": round(1000 * cpu / len(nodes), 1),
    }


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main(argv: list[str]) -> int:
    """Measure once and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--json", action="store_true")
    ns = parser.parse_args(argv)
    count = max(1, min(ns.nodes, MOST_NODES))
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        nodes = simulated_nodes(Path(folder), count, stack)
        found = measure(nodes, Path(folder))
    print(json.dumps({"nodes": count} | found) if ns.json else "\n".join(f"{k:26} {v}" for k, v in found.items()))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
