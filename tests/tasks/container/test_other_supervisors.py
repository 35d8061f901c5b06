"""Others that own or restart a container, for real: a user's own systemd, supervisord, Compose."""

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from runbooks.core.fleet import Fleet
from runbooks.core.verdict import Diagnosis, State
from tasks.container.act_engine import stop_unit
from tasks.context import ActionRefused, Context
from tasks.transport.open import HostPool
from tests.support.docker_engine import Engine
from tests.support.need import need_program
from tests.support.systemd_host import SystemdHost, systemd_host
from tests.tasks.container.test_systemd_host import START, judge
from tests.tasks.container.world import World

pytestmark = pytest.mark.soak
QUICK = {"steady_s": 0.5, "young_life_s": 1}
AS_OP = "XDG_RUNTIME_DIR=/run/user/1500 runuser -u op -- "
USER_UNIT = (
    "[Service]\\nExecStart=/usr/bin/docker -H unix:///run/docker.sock start -a w1\\nRestart=always\\nRestartSec=30\\n"
    "[Install]\\nWantedBy=default.target\\n"
)
LOOP = "#!/bin/sh\\nwhile true; do docker -H unix:///run/docker.sock exec w1 true; sleep 5; done\\n"


@pytest.fixture
def host() -> Iterator[SystemdHost]:
    with systemd_host() as found:
        found.run(START % "w1")
        found.run("useradd -m -u 1500 -G docker op; systemctl start systemd-logind; loginctl enable-linger op")
        found.wait("test -S /run/user/1500/systemd/private")
        yield found


def others(found: Diagnosis) -> list[str]:
    """What else restarts it."""
    return [c.subject for c in found.causes if c.slug == "second-supervisor"]


def test_a_user_s_own_systemd(host: SystemdHost) -> None:
    host.run(f"mkdir -p /home/op/.config/systemd/user; printf '{USER_UNIT}' >/home/op/.config/systemd/user/keep.service; "
             f"chown -R op /home/op/.config; {AS_OP} systemctl --user daemon-reload; "
             f"{AS_OP} systemctl --user enable --now keep")  # fmt: skip
    host.run("docker kill w1")
    host.wait(f"{AS_OP} systemctl --user show -p SubState keep | grep auto-restart")
    found = judge(host, "w1")
    assert others(found) == ["systemd keep.service of user op"]
    step = found.plans[0].steps[0]
    own = "systemctl --user -M op@"
    printed = f'[ "$({own} show -p InvocationID --value keep.service)" = {step.args["life"]} ] && {own} stop keep.service'
    assert (step.kind, step.args["uid"], step.commands) == ("stop-unit", 1500, (printed,))
    pool = HostPool()
    context = Context(fleet=Fleet(nodes=(host.sshd.node(user="root"),)), target="far", open_host=pool)
    with pytest.raises(ActionRefused, match="started again"):
        stop_unit(step.model_copy(update={"args": {**step.args, "life": "0" * 32}}), context)
    assert "keep.service is inactive" in stop_unit(step, context).said[0]
    pool.close_all()
    rests = judge(host, "w1")
    assert others(rests) == []
    assert any("keep.service rests, and a boot starts it" in f.issue for f in rests.findings), "op lingers"
    a_loop_that_a_user_s_unit_runs(host)


def a_loop_that_a_user_s_unit_runs(host: SystemdHost) -> None:
    """Its unit is stopped, not its process: the unit would start it again."""
    host.run(f"printf '{LOOP}' >/home/op/loop; chmod 755 /home/op/loop; "
             f"{AS_OP} systemd-run --user --unit=loopy -p Restart=always /home/op/loop")  # fmt: skip
    host.wait("pgrep -f /home/op/loop")
    found = judge(host, "w1")
    assert others(found) == ["systemd loopy.service of user op"]
    assert [s.kind for s in found.plans[0].steps] == ["stop-unit", "recreate-container"]


@contextmanager
def supervisord(engine: Engine, command: str) -> Iterator[list[str]]:
    """One program under a supervisord of the test's own; `supervisorctl` with its options."""
    program, folder = need_program("supervisord", "supervisor"), engine.folder
    conf = folder / "supervisord.conf"
    conf.write_text(f"[unix_http_server]\nfile={folder}/s.sock\n[supervisord]\nlogfile={folder}/s.log\npidfile={folder}/s.pid\n"
                    f"nodaemon=true\n[rpcinterface:supervisor]\nsupervisor.rpcinterface_factory = "
                    "supervisor.rpcinterface:make_main_rpcinterface\n"
                    f"[supervisorctl]\nserverurl=unix://{folder}/s.sock\n[include]\nfiles = more/*.conf\n")  # fmt: skip
    (folder / "more").mkdir()
    (folder / "more/keep.conf").write_text(f"[program:keep]\ncommand={command}\nautorestart=true\nstartsecs=0\n")
    process = subprocess.Popen([program, "-c", str(conf)], stdout=subprocess.DEVNULL)
    ctl = [need_program("supervisorctl", "supervisor"), "-c", str(conf)]
    try:
        wait(lambda: "RUNNING" in subprocess.run([*ctl, "status"], capture_output=True, text=True, check=False).stdout)
        yield ctl
    finally:
        process.terminate()
        process.wait(20)


def wait(until: object, seconds: float = 20) -> None:
    """Until it is true."""
    assert callable(until)
    end = time.monotonic() + seconds
    while not until():
        assert time.monotonic() < end
        time.sleep(0.1)


def test_a_program_of_supervisord(engine: Engine) -> None:
    engine.create("sv", "sleep", "infinity")
    world = World(engine, "sv", limits=QUICK)
    with supervisord(engine, f"{' '.join(engine.argv)} start -a sv") as ctl:
        found = world.judge()
        assert others(found) == ["supervisord program keep of supervisord"], found
        assert "autorestart=true" in str([c.evidence for c in found.causes])
        subprocess.run([*ctl, "stop", "keep"], check=True, capture_output=True)
        engine.run("start", "sv")
        engine.run("kill", "sv")
        rests = world.judge()
        assert others(rests) == [], [c.evidence for c in rests.causes]
        assert rests.plans[-1].name == "recreate"
    with_a_living_program(engine, world)


def with_a_living_program(engine: Engine, world: World) -> None:
    """It dies under a program that starts it again: nothing is begun beside it."""
    (engine.folder / "more/keep.conf").unlink()
    (engine.folder / "more").rmdir()
    slow = f"sh -c '{' '.join(engine.argv)} wait sv; sleep 30; {' '.join(engine.argv)} start -a sv'"
    engine.run("start", "sv")
    with supervisord(engine, slow):
        engine.run("kill", "sv")
        found = world.judge()
        assert others(found) == ["supervisord program keep of supervisord"]
        assert found.plans == ()


COMPOSE = """version: "2.4"
services:
  web: {image: "bb:1", network_mode: host, container_name: box, command: [sleep, infinity]}
"""


def test_compose_keeps_what_it_owns(engine: Engine) -> None:
    """The labels go along; what `up` would do beside the kept one is told, and is so."""
    folder = engine.folder / "proj"
    folder.mkdir()
    (folder / "docker-compose.yml").write_text(COMPOSE)
    env = {**os.environ, "DOCKER_HOST": f"unix://{engine.socket}"}
    argv = [need_program("docker-compose", "docker-compose")]
    with subprocess.Popen([*argv, "up"], cwd=folder, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as front:
        try:
            wait(lambda: "box" in engine.run("ps", "--format", "{{.Names}}"))
            world = World(engine, "box", limits=QUICK)
            said = words(world.judge())
        finally:
            front.terminate()
    assert f"pid {front.pid} holds it in the foreground" in said
    for how in (["down", "-t", "1"], ["up", "-d"]):  # another id: the one before was stopped by its end in the foreground
        subprocess.run([*argv, *how], cwd=folder, env=env, check=True, capture_output=True)
    labels = engine.inspect("box")["Config"]["Labels"]
    engine.run("kill", "box")
    found = world.judge()
    assert others(found) == [], "Compose starts nothing again by itself"
    assert "project proj, service web" in words(found)
    assert "compose up" in found.plans[0].steps[-1].loses
    old = engine.inspect("box")["Id"]
    world.act(found.plans[0])
    assert engine.inspect("box")["Config"]["Labels"] == labels
    time.sleep(0.6)
    assert "would remove the new one and start this old one" in words(world.judge())
    subprocess.run([*argv, "up", "-d"], cwd=folder, env=env, check=True, capture_output=True)
    assert engine.run("ps", "-q", "--no-trunc", "--filter", "name=box") == old, "as it was told"


def words(found: Diagnosis) -> str:
    """Its findings."""
    assert found.state in (State.HEALTHY, State.UNHEALTHY, State.CANNOT_TELL)
    return " ".join(f.issue for f in found.findings)
