"""The nightly in two shards against one, on PostgreSQL with two workers; nodes are addresses of a real sshd.

Run: python -m tests.bench shards
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import yaml

from tests.bench.bench_transport import simulated_nodes
from tests.support.cli import CLI
from tests.support.postgres import Postgres

RUN = """
import json, sys
from deployments.register import load
from flows import store
from flows.launch import create_pending, run_here
run = create_pending("nightly", json.loads(sys.argv[1]))
run_here(load("flows.sweep.nightly.nightly"), run)
labels = store.read_run(run.id).labels
report = json.loads(open(labels["report.json"]).read())
shards = [r.state.name for r in store.find_runs([store.RUNBOOK_TAG, "runbook:nightly-shard"]) if r.labels.get("nightly") == str(run.id)]
cost = report["cost"]
print(json.dumps({"wall_s": cost["wall_s"], "cpu_s": cost["cpu_s"], "results": len(report["results"]), "shards": shards}))
"""


def main(argv: list[str]) -> int:
    """Measures both ways once, one after the other, and prints one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=60)
    ns = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        home = Path(name)
        pg = Postgres().start()
        stack.callback(pg.stop)
        pg.do("CREATE DATABASE prefect")
        url = f"postgresql+asyncpg://app@127.0.0.1:{pg.port}/prefect"
        nodes = simulated_nodes(home, max(2, min(ns.nodes, 250)), stack)
        fleet = home / "fleet.yaml"
        data = [n.model_dump(mode="json", exclude_defaults=True) for n in nodes]
        fleet.write_text(yaml.safe_dump({"name": "bench", "nodes": data}), encoding="utf-8")
        plain = {k: v for k, v in os.environ.items() if not k.startswith("PREFECT_")}
        env = plain | {"GPU_RUNBOOKS_HOME": str(home), "PREFECT_API_DATABASE_CONNECTION_URL": url}
        subprocess.run([*CLI, "up"], env=env, check=True, capture_output=True)
        stack.callback(subprocess.run, [*CLI, "down", "--now"], env=env, check=False, capture_output=True)
        print(json.dumps({"nodes": len(nodes)} | _both(env, home, fleet, stack)))
    return 0


def _both(env: dict[str, str], home: Path, fleet: Path, stack: ExitStack) -> dict[str, object]:
    from deployments.server import worker_argv
    from deployments.state import LocalState, prefect_env

    state = LocalState.model_validate_json((home / "server.json").read_text(encoding="utf-8"))
    os.environ["GPU_RUNBOOKS_HOME"] = str(home)
    env = env | prefect_env(state)
    second = subprocess.Popen(worker_argv(), env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    stack.callback(second.terminate)
    time.sleep(10)
    return {f"shards_{k}": _one(env, fleet, home, k) for k in (1, 2, 3)}


def _one(env: dict[str, str], fleet: Path, home: Path, shards: int) -> object:
    asked = {"fleet": str(fleet), "out": str(home / f"reports-{shards}"), "shards": shards}
    argv = [sys.executable, "-c", RUN, json.dumps(asked)]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=900)
    if done.returncode:
        raise RuntimeError(done.stderr[-1500:])
    return json.loads(done.stdout.strip().splitlines()[-1])


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
