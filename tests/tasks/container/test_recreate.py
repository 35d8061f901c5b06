"""A container recreated on a real engine: same configuration field by field, old one kept and unable to come back."""

import os
import stat
import time
from pathlib import Path
from typing import Any

import pytest

from runbooks.container.backoff import kept_name
from runbooks.core.plan import Plan
from runbooks.core.verdict import State
from tasks.container.act_recreate import recreation_wait
from tasks.container.probes import recreate
from tasks.container.probes.container_config import create_body, differences
from tasks.container.probes.engine_api import Api, EngineError
from tasks.context import ActionRefused
from tasks.transport.base import TransportError
from tests.support.docker_engine import Engine, docker_engine
from tests.tasks.container.world import World, confirmed

NESTED = 'value(commonInstanceMetadata.items[?key=="ssh-keys"].value) \'and "more"\' $HOME `id` \\ ; (x)'
EVERY_OPTION = (
    "--init",
    "-e",
    "HF_TOKEN=zq-very-secret-9",
    "-e",
    "PLAIN=a b=c'\"",
    "--ulimit",
    "memlock=65536:65536",
    "--ulimit",
    "nofile=1024:2048",
    "--shm-size",
    "96m",
    "-m",
    "256m",
    "--memory-swap",
    "512m",
    "--cpus",
    "1.5",
    "--cpu-shares",
    "512",
    "--cpuset-cpus",
    "0",
    "--pids-limit",
    "100",
    "--oom-score-adj",
    "100",
    "-v",
    "named:/named:ro",
    "-v",
    "/anonymous",
    "--mount",
    "type=tmpfs,dst=/scratch,tmpfs-size=1m",
    "--tmpfs",
    "/scratch2:size=1m",
    "--device",
    "/dev/fuse:/dev/fuse:rw",
    "--cap-add",
    "SYS_PTRACE",
    "--cap-drop",
    "MKNOD",
    "--security-opt",
    "label=disable",
    "--label",
    "owner=team-a",
    "--label",
    'quote=it\'s "x"',
    "--user",
    "0:0",
    "-w",
    "/var",
    "--restart",
    "on-failure:2",
    "--stop-signal",
    "SIGINT",
    "--stop-timeout",
    "3",
    "--hostname",
    "worker-7",
    "--domainname",
    "lan",
    "--add-host",
    "head:10.0.0.5",
    "--ipc",
    "shareable",
    "--read-only",
    "--group-add",
    "7",
    "--log-opt",
    "max-size=1m",
    "--health-cmd",
    "true",
    "--health-interval",
    "1s",
    "--health-retries",
    "2",
    "--expose",
    "9000",
    "-t",
    "-i",
    "--device-cgroup-rule",
    "c 1:3 r",
    "--blkio-weight",
    "0",
)


def kill(engine: Engine, name: str) -> None:
    engine.run("kill", name)
    engine.wait_status(name, "exited")


def config(found: dict[str, Any]) -> dict[str, Any]:
    """Config and HostConfig in one flat mapping, empties alike."""
    flat = {f"{s}.{k}": v for s in ("Config", "HostConfig") for k, v in found[s].items()}
    return {k: (v or None) for k, v in flat.items()}


def mounts(found: dict[str, Any]) -> list[tuple[Any, ...]]:
    return sorted((m["Type"], m.get("Name"), m["Source"], m["Destination"], m["RW"]) for m in found["Mounts"])


def test_every_option_is_the_same_field_by_field(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "bind").mkdir()
    options = (*EVERY_OPTION, "-v", f"{tmp_path}/bind:/bind:rw,private")
    ident = engine.create("full", "sleep", "1000", options=options)
    engine.run("exec", "full", "sh", "-c", "echo kept > /anonymous/file")
    before = engine.inspect("full")
    kill(engine, "full")
    world = World(engine, "full")
    said = world.act(world.judge().plans[0])
    after = engine.wait_status("full", "running")
    old, new = config(before), config(after)
    assert set(old) == set(new)
    binds = "HostConfig.Binds"
    different = {k for k in old if old[k] != new[k]}
    assert different <= {"Config.Cmd", binds}, {k: (old[k], new[k]) for k in different}
    assert after["Config"]["Cmd"] == ["sleep", "infinity"]
    assert mounts(before) == mounts(after)
    assert after["Image"] == before["Image"]
    assert engine.run("exec", "full", "cat", "/anonymous/file").strip() == "kept"
    assert "configuration compared field by field: equal" in said
    kept = engine.inspect(kept_name("full", ident))
    assert kept["Id"] == ident
    assert kept["HostConfig"]["RestartPolicy"]["Name"] == "no"
    assert "zq-very-secret-9" not in " ".join(said)
    assert engine.run("exec", "full", "sh", "-c", "echo $HF_TOKEN").strip() == "zq-very-secret-9"


def test_the_old_one_does_not_come_back_with_the_daemon(engine: Engine) -> None:
    ident = engine.create("twice", "sleep", "1000", options=("--restart", "always"))
    kill(engine, "twice")
    world = World(engine, "twice")
    world.act(world.judge().plans[0])
    engine.stop_daemon()
    engine.up()
    new = engine.wait_status("twice", "running")
    assert new["HostConfig"]["RestartPolicy"]["Name"] == "always"
    assert engine.inspect(kept_name("twice", ident))["State"]["Status"] == "exited"


def test_setup_words_arrive_as_they_are_and_each_exit_code_is_told(engine: Engine) -> None:
    secret = "export HF_TOKEN=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; "
    engine.create("setup", "sh", "-c", f"{secret}sleep 1000", options=("-v", "slash:/slash/"))
    kill(engine, "setup")
    setup = (("sh", "-c", 'printf %s "$1" > /tmp/word', "sh", NESTED), ("true",))
    start = ("sh", "-c", "sleep 500; true")
    world = World(engine, "setup", setup=setup, start=start, match="sleep 500")
    plan = world.judge().plans[0]
    assert "hf_QwEr" not in plan.model_dump_json()
    said = world.act(plan)
    assert engine.inspect("setup")["Config"]["Cmd"] == ["sh", "-c", f"{secret}sleep infinity"], (
        "its own words, not cleaned"
    )
    assert engine.run("exec", "setup", "cat", "/tmp/word") == NESTED
    assert sum("-> exit 0" in line for line in said) == 3
    world.context.sleep(3.2)
    assert world.judge().state is State.HEALTHY


def test_a_setup_command_that_fails_is_told_and_ends_it(engine: Engine) -> None:
    engine.create("badsetup", "sleep", "1000", options=("-e", "TOKEN=zq-very-secret-9"))
    kill(engine, "badsetup")
    setup = (("sh", "-c", "echo no such token $TOKEN; exit 7"), ("touch", "/tmp/never"))
    world = World(engine, "badsetup", setup=setup, match="raylet", start=("sleep", "9"))
    with pytest.raises(RuntimeError, match="exit 7") as caught:
        world.act(world.judge().plans[0])
    assert "zq-very-secret-9" not in str(caught.value)
    assert "no such token" in str(caught.value)
    assert "never" not in engine.run("exec", "badsetup", "ls", "/tmp")
    assert confirmed(world.judge()) == ["application-dead"]


def test_it_refuses_when_the_container_is_another(engine: Engine) -> None:
    engine.create("moved", "sleep", "1000")
    kill(engine, "moved")
    world = World(engine, "moved")
    plan = world.judge().plans[0]
    engine.run("start", "moved")
    with pytest.raises(ActionRefused, match="running"):
        world.act(plan)
    kill(engine, "moved")
    with pytest.raises(ActionRefused, match="was started at"):
        world.act(plan)
    engine.run("rename", "moved", "elsewhere")
    with pytest.raises(ActionRefused, match="called elsewhere"):
        world.act(plan)
    assert "moved" not in engine.run("ps", "-a", "--format", "{{.Names}}").split()


def test_a_start_that_fails_puts_everything_back(engine: Engine, tmp_path: Path) -> None:
    device = tmp_path / "dev"
    os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    ident = engine.create("undo", "sleep", "1000", options=("--device", f"{device}:/dev/x", "--restart", "always"))
    kill(engine, "undo")
    world = World(engine, "undo")
    plan = world.judge().plans[0]
    device.unlink()
    with pytest.raises(TransportError, match="old name back"):
        world.act(plan)
    now = engine.inspect("undo")
    assert (now["Id"], now["HostConfig"]["RestartPolicy"]["Name"]) == (ident, "always")
    assert confirmed(world.judge()) == ["devices-lost", "killed-through-engine"]


def test_undo_starts_the_old_container_again_if_it_ran(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its new one cannot be started: what was stopped for it must not stay stopped."""
    ident = engine.create("back", "sleep", "1000", options=("--restart", "always"))
    kill(engine, "back")
    args = dict(World(engine, "back").judge().plans[0].steps[0].args)
    engine.run("start", "back")
    ran = engine.inspect("back")["State"]["StartedAt"]
    real = Api.call

    def call(self: Api, method: str, url: str, *more: Any, **named: Any) -> Any:
        if url.endswith("/start") and ident not in url:
            raise EngineError(500, "no such device")
        return real(self, method, url, *more, **named)

    monkeypatch.setattr(Api, "call", call)
    got = recreate.main(args | {"running": True, "started_at": ran})
    assert "old one started again" in got["failed"]
    now = engine.inspect("back")
    assert (now["Id"], now["State"]["Running"], now["HostConfig"]["RestartPolicy"]["Name"]) == (ident, True, "always")
    assert now["State"]["StartedAt"] != ran


def test_an_auto_remove_container_is_not_recoverable(engine: Engine) -> None:
    engine.create("gone", "sleep", "infinity", options=("--rm",))
    world = World(engine, "gone", match="raylet", start=("true",))
    found = world.judge()
    assert any("--rm" in line for line in found.do_now)
    engine.run("kill", "gone")
    for _ in range(50):
        if "gone" not in engine.run("ps", "-a", "--format", "{{.Names}}").split():
            break
        world.context.sleep(0.1)
    assert confirmed(world.judge()) == ["container-missing"]


def test_three_deaths_in_an_hour_end_it_with_the_reasons(engine: Engine) -> None:
    engine.create("thrice", "sleep", "1000")
    waits: list[float] = []
    for _ in range(2):
        kill(engine, "thrice")
        time.sleep(1.1)  # two records within a second are one death
        world = World(engine, "thrice")
        plan = world.judge().plans[0]
        waits.append(recreation_wait(plan.steps[0], world.context)[0])
        world.act(plan)
    kill(engine, "thrice")
    found = World(engine, "thrice").judge()
    assert "too-many-deaths" in confirmed(found)
    assert found.plans == ()
    assert any("exit codes so far" in line for c in found.causes for line in c.evidence)
    assert waits == [0.0, 1.0]
    more = World(engine, "thrice", {"deaths_to_escalate": 25}).judge()
    assert [p.name for p in more.plans] == ["recreate"]


def test_a_dead_application_is_started_again_in_the_same_container(engine: Engine) -> None:
    ident = engine.create("app", "sleep", "infinity")
    world = World(engine, "app", match="sleep 77", start=("sleep", "77"))
    found = world.judge()
    assert confirmed(found) == ["application-dead"]
    assert [s.kind for s in found.plans[0].steps] == ["restart-application"]
    world.act(found.plans[0])
    assert world.judge().state is State.HEALTHY
    assert engine.inspect("app")["Id"] == ident


def test_the_space_of_nameless_images_is_freed_and_volumes_stay(engine: Engine) -> None:
    engine.run("volume", "create", "precious")
    tar = str(engine.folder / "bb.tar")
    nameless = engine.run("import", "--change", "CMD sleep", tar)
    engine.create("fulldisk", "sleep", "1")
    engine.wait_status("fulldisk", "exited")
    world = World(engine, "fulldisk", {"disk_free_min_bytes": 1 << 60, "life_slack_s": 1})
    evidence = world.gather()
    assert evidence.daemon.kind == "known"
    plan = world.judge().plans
    kinds = [s.kind for p in plan for s in p.steps]
    if "free-engine-space" not in kinds:  # a disk with more than a tenth free is never called full
        from runbooks.container.plans import free_space

        steps = free_space(evidence, evidence.wanted, {"disk-full"})  # type: ignore[arg-type]
        plan = (Plan(name="free", steps=tuple(steps), for_causes=("disk-full",)),)
    world.act(plan[0])
    assert nameless not in engine.run("images", "-aq", "--no-trunc").split()
    assert "precious" in engine.run("volume", "ls", "-q").split()


def test_networks_aliases_addresses_and_ports_are_the_same() -> None:
    with docker_engine(own_network=True) as engine:
        engine.run("network", "create", "--subnet", "10.77.0.0/24", "one")
        engine.run("network", "create", "two")
        options = ("--network-alias", "worker", "--ip", "10.77.0.9", "-p", "127.0.0.1:8123:9000", "--dns", "10.0.0.2")
        words = ["run", "-d", "--pull=never", "--network=one", "--name", "netted", *options, "bb:1", "sleep", "1000"]
        engine.run(*words)
        engine.run("network", "connect", "--alias", "second", "two", "netted")
        before = engine.inspect("netted")
        kill(engine, "netted")
        world = World(engine, "netted")
        said = world.act(world.judge().plans[0])
        after = engine.wait_status("netted", "running")
        assert "configuration compared field by field: equal" in said
        assert after["Config"]["Hostname"] == after["Id"][:12]
        old, new = before["NetworkSettings"], after["NetworkSettings"]
        assert set(new["Networks"]) == {"one", "two"}
        assert new["Networks"]["one"]["IPAddress"] == old["Networks"]["one"]["IPAddress"] == "10.77.0.9"
        assert "worker" in new["Networks"]["one"]["Aliases"]
        assert "second" in new["Networks"]["two"]["Aliases"]
        assert new["Ports"] == old["Ports"]


UNSTARTABLE = (
    "--privileged",
    "--gpus",
    '"device=0,1","capabilities=compute,utility"',
    "--pid",
    "host",
    "--uts",
    "host",
    "--userns",
    "host",
    "--ulimit",
    "memlock=-1:-1",
    "--runtime",
    "runc",
    "--cgroupns",
    "host",
    "--sysctl",
    "kernel.msgmax=8192",
    "--device-read-bps",
    "/dev/vda:1mb",
    "--kernel-memory",
    "0",
    "--oom-kill-disable",
    "-m",
    "1g",
    "--entrypoint",
    "/bin/sh",
)


def test_options_that_this_machine_cannot_start_are_copied_as_well(engine: Engine) -> None:
    words = ["create", "--network=host", "--name", "gpu", *UNSTARTABLE, "bb:1", "-c", "sleep 3600"]
    ident = engine.run(*words).splitlines()[-1]
    old, api = engine.inspect("gpu"), Api(str(engine.socket))
    assert old["HostConfig"]["DeviceRequests"], "--gpus is in it"
    body, _ = create_body(old, "bb:1", [])
    api.call("POST", "/containers/create?name=gpu2", body)
    new = engine.inspect("gpu2")
    assert differences(old, new, False) == []
    assert {k for k, v in config(old).items() if config(new)[k] != v} == set()
    assert new["Id"] != ident
