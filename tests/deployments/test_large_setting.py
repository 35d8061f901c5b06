"""The large setting's files say what exists: commands, modules, drains; and the drain waits for this machine's runs."""

import os
import re
import shutil
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest
import yaml

from deployments import drain
from deployments.cli.main import COMMANDS
from deployments.pool import POOL
from flows import store
from flows.clock import server_now
from flows.draining import LIMIT_S, MARK
from flows.pool import pause_pool, pool_is_paused
from flows.reaper import sweep
from tests.support.engine_rig import REPO, Rig

HERE = REPO / "deployments"
UNITS = sorted((HERE / "systemd").glob("*.service"))


@pytest.mark.parametrize("path", UNITS, ids=lambda p: p.name)
def test_unit_runs_something_that_exists_as_a_plain_user(path: Path) -> None:
    text = path.read_text()
    for module in re.findall(r"-m (deployments\.\w+)", text):
        assert (REPO / (module.replace(".", "/") + ".py")).is_file()
    for command in re.findall(r"bin/gpu-runbooks (\w+)", text):
        assert command in COMMANDS
    for line in ("User=gpu-runbooks", "CapabilityBoundingSet=\n", "NoNewPrivileges=true", "ProtectSystem=strict"):
        assert line in text
    if "worker" in path.name:
        assert "ExecStop=/opt/gpu-runbooks/.venv/bin/python -m deployments.drain %i\n" in text
        assert "ExecStopPost=/opt/gpu-runbooks/.venv/bin/python -m deployments.drain --resume %i\n" in text
        assert float(re.findall(r"TimeoutStopSec=(\d+)", text)[0]) > LIMIT_S


@pytest.mark.parametrize("path", UNITS, ids=lambda p: p.name)
def test_systemd_accepts_the_unit(path: Path, tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is missing. As root: apt-get install -y --no-install-recommends systemd")
    unit = tmp_path / path.name.replace("@.", "@1.")
    unit.write_text(path.read_text().replace("/opt/gpu-runbooks/.venv/bin/", "/bin/true "))
    done = subprocess.run([program, "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False)
    assert not [x for x in done.stderr.splitlines() if path.name.split("@")[0].split(".")[0] in x], done.stderr


def test_compose_publishes_only_tls_and_stops_workers_gently() -> None:
    file = yaml.safe_load((HERE / "compose.yaml").read_text())
    services = file["services"]
    assert {n for n, s in services.items() if "ports" in s} == {"tls"}
    assert services["worker"]["stop_grace_period"] == "11m"
    wanted = set(re.findall(r"\$\{(\w+):\?", (HERE / "compose.yaml").read_text()))
    assert wanted <= set(re.findall(r"^(\w+)=", (HERE / "compose.env.example").read_text(), re.M))
    assert subprocess.run(["sh", "-n", str(HERE / "worker-entrypoint.sh")], check=False).returncode == 0


def test_the_entrypoint_drains_and_its_worker_can_end_itself(tmp_path: Path) -> None:
    """A Prefect worker answers SIGTERM with SIGINT to itself: a shell's background command would ignore that."""
    log = tmp_path / "log"
    ends = 'signal.signal(15, lambda *_: (log("TERM"), os.kill(os.getpid(), 2)))'
    fakes = {
        "python": f'#!/bin/sh\necho "$*" >>{log}\n',
        "prefect": f"#!{sys.executable}\nimport os, signal, time\nlog = lambda w: print(w, file=open({str(log)!r}, 'a'))\n"
        f"{ends}\nlog('up')\ntry:\n  time.sleep(60)\nexcept KeyboardInterrupt: log('ended')\n",
    }
    for name, text in fakes.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    argv = ["sh", str(HERE / "worker-entrypoint.sh"), "prefect", "worker", "start"]
    process = subprocess.Popen(argv, env=os.environ | {"PATH": path})
    deadline = time.monotonic() + 30
    while "up" not in (log.read_text() if log.exists() else ""):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.terminate()
    process.wait(30)
    drain_, again = "-m deployments.drain", "-m deployments.drain --resume"
    assert log.read_text().splitlines() == [again, "up", drain_, "TERM", "ended", again]


def test_drain_lets_no_run_begin_until_resumed(rig: Rig) -> None:
    def paused() -> bool:
        return store.ask(lambda c: c.read_work_pool(POOL)).is_paused

    assert drain.main(["1"]) == 0
    assert drain.main(["2"]) == 0
    assert drain.main(["--resume", "1"]) == 0
    assert paused()  # the second one is being stopped still
    assert drain.main(["--resume", "2"]) == 0
    assert not paused()
    store.set_variable(f"{MARK}lost", {"since": "2026-01-01T00:00:00+00:00"})  # a machine lost while it drained
    assert drain.main([]) == 0
    assert drain.main(["--resume"]) == 0
    assert not paused()


def test_the_pause_of_a_person_outlasts_drains_and_starts(rig: Rig) -> None:
    """Before any of them began: two workers that are stopped and started, one that is lost, one that only starts."""
    pause_pool(POOL, True)
    try:
        assert drain.main(["--resume", "1"]) == 0  # started, without having been stopped
        assert pool_is_paused(POOL)
        assert [drain.main(["1"]), drain.main(["2"]), drain.main(["--resume", "1"]), drain.main(["--resume", "2"])] == [0] * 4
        assert pool_is_paused(POOL)
        assert drain.main(["lost"]) == 0
        lines = sweep(server_now() + timedelta(minutes=12))
        assert [x for x in lines if "the pool stays paused, as a person had left it" in x]
        assert pool_is_paused(POOL)
        assert store.variables(MARK) == {}
    finally:
        pause_pool(POOL, False)


def test_the_gateway_reaches_no_more_than_it_needs() -> None:
    """The network can reach it: no database password, no approvers' secrets, no keys of the workers."""
    unit = (HERE / "systemd/gpu-runbooks-gateway.service").read_text()
    settings = dict(line.split("=", 1) for line in unit.splitlines() if "=" in line and not line.startswith("#"))
    assert settings["EnvironmentFile"] == "/etc/gpu-runbooks/gateway.environment"
    others = [dict(x.split("=", 1) for x in p.read_text().splitlines() if "=" in x) for p in UNITS if "gateway" not in p.name]
    assert settings["User"] not in {o["User"] for o in others}
    assert settings["StateDirectory"] not in {o["StateDirectory"] for o in others}
    assert "--no-warm-processes" in settings["ExecStart"]
    known = (HERE / "systemd/gateway.environment.example").read_text()
    assert not re.search(r"^#? ?\w*(DATABASE|SERVER_API_AUTH|APPROVERS)\w*=", known, re.M)
    services = yaml.safe_load((HERE / "compose.yaml").read_text())["services"]
    gateway, worker = services["gateway"], services["worker"]
    shared = {v.split(":")[0] for v in gateway["volumes"]} & {v.split(":")[0] for v in worker["volumes"]}
    assert shared == {"./config"}
    assert not [v for v in gateway["volumes"] if ".ssh" in v or "./ssh" in v]
    assert not [k for k in gateway["environment"] if "DATABASE" in k or "PASSWORD" in k or "SERVER_API_AUTH" in k]


def test_only_the_server_unit_knows_the_database() -> None:
    examples = {p.name: p.read_text() for p in (HERE / "systemd").glob("*environment.example")}
    assert [name for name, text in examples.items() if "DATABASE_CONNECTION_URL" in text] == ["server.environment.example"]
    readers = [p.name for p in UNITS if "server.environment" in p.read_text()]
    assert readers == ["gpu-runbooks-server.service"]


def test_a_machine_lost_while_it_drained_does_not_keep_the_pool_paused(rig: Rig) -> None:
    """Its `--resume` never comes: the reaper lets the pool go on. It leaves alone what others drain or a person paused."""

    def paused_after(minutes: float) -> bool:
        sweep(server_now() + timedelta(minutes=minutes))
        return store.ask(lambda c: c.read_work_pool(POOL)).is_paused

    assert drain.main(["lost"]) == 0
    assert paused_after(9)  # it may be waiting for its runs
    assert not paused_after(12)
    assert store.variables(MARK) == {}
    store.set_variable(f"{MARK}older", {"since": "2026-01-01T00:00:00+00:00"})
    assert drain.main(["other"]) == 0
    assert paused_after(0)
    assert drain.main(["--resume", "other"]) == 0
    pause_pool(POOL, True)  # a person, in Prefect's UI
    try:
        assert paused_after(60)
    finally:
        pause_pool(POOL, False)
