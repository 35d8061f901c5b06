"""Incidents in which a stronger word was read and shadowed by the exit code or a host event: containers of a real engine."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from runbooks.container.diagnose import diagnose
from runbooks.container.evidence import ContainerFacts, Evidence
from runbooks.core.host_facts import HostFacts, Upgrade
from runbooks.core.reading import Known, Unknown, UnknownReason
from runbooks.core.verdict import Certainty, Diagnosis, State
from tasks.container.probes import host_packages
from tests.support.docker_engine import Engine, docker_engine
from tests.support.volume_plugin import VolumePlugin, volume_plugin
from tests.tasks.container.world import World, confirmed


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with docker_engine() as found:
        yield found


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VolumePlugin]:
    with volume_plugin(f"loopvol{uuid4().hex[:6]}", tmp_path_factory.mktemp("propagated")) as found:
        yield found


def first(d: Diagnosis) -> str:
    return f"{d.causes[0].slug} {d.causes[0].certainty}" if d.causes else "none"


def with_boot(e: Evidence, seconds_before_end: float) -> Evidence:
    """The same as if the machine had been booted that long before the recorded end: the only thing that no test can do to this one."""
    assert isinstance(e.host, Known)
    assert isinstance(e.container, Known)
    assert e.container.value.finished_at
    at = e.container.value.finished_at - timedelta(seconds=seconds_before_end)
    return e.model_copy(update={"host": Known(value=e.host.value.model_copy(update={"booted_at": at}))})


class Rebooted:
    """A container with a plugin's volume; the host went down under it, and the start after the boot was refused."""

    def __init__(self, engine: Engine, plugin: VolumePlugin, clean: bool = False) -> None:
        self.engine, self.name = engine, f"pod{uuid4().hex[:6]}"
        self.place = plugin.top / f"volume_{self.name}"
        plugin.forgets = not clean
        mount = ("--mount", f"type=volume,volume-driver={plugin.name},src=volume_{self.name},dst=/root/data")
        engine.create(self.name, "sleep", "infinity", options=(*mount, "--restart", "unless-stopped"))
        engine.run("update", "--restart=no", self.name)  # the engine here is not started again: what it does then is done below
        engine.kill_all()
        engine.wait_status(self.name, "exited")
        engine.run("start", self.name, check=False)
        plugin.forgets = False

    def look(self) -> Evidence:
        return World(self.engine, self.name).gather()

    def judge(self, e: Evidence) -> Diagnosis:
        return diagnose(e, World(self.engine, self.name).limits)


@pytest.mark.incident("T2-21", came="right", fed="readers", known=True)
def test_a_stale_mount_point_and_not_the_reboot(engine: Engine, plugin: VolumePlugin) -> None:
    pod = Rebooted(engine, plugin)
    d = pod.judge(with_boot(pod.look(), 13))
    assert first(d) == "mount-point-in-the-way confirmed", d.model_dump_json(indent=1)
    assert "file exists" in d.causes[0].evidence[0]
    assert str(pod.place) in d.causes[0].evidence[0]
    assert d.plans == ()
    assert any("rm -rf" in x for x in d.must_not)
    assert any("rmdir exactly this folder" in x for x in d.do_now)


@pytest.mark.incident("T2-21", came="right", fed="readers", known=True, twin="the folder is not empty")
def test_a_full_folder_in_the_way_is_left_to_a_person(engine: Engine, plugin: VolumePlugin) -> None:
    pod = Rebooted(engine, plugin)
    (pod.place / "weights.bin").write_bytes(b"x")
    d = pod.judge(with_boot(pod.look(), 13))
    assert first(d) == "mount-point-in-the-way likely"
    assert "1 entries" in str(d.causes[0].evidence)
    assert d.plans == ()
    (pod.place / "weights.bin").unlink()


@pytest.mark.incident("T2-21", came="right", fed="readers", known=True, twin="the folder was removed since")
def test_nothing_is_in_the_way_any_more(engine: Engine, plugin: VolumePlugin) -> None:
    pod = Rebooted(engine, plugin)
    pod.place.rmdir()
    d = pod.judge(with_boot(pod.look(), 13))
    assert first(d) == "start-refused likely"
    assert d.plans == ()


@pytest.mark.incident("T2-21", came="right", fed="readers", known=True, twin="no error: the reboot alone")
def test_the_reboot_alone(engine: Engine, plugin: VolumePlugin) -> None:
    name = f"pod{uuid4().hex[:6]}"
    engine.create(name, "sleep", "infinity")
    time.sleep(1.5)
    engine.kill_all()
    engine.wait_status(name, "exited")
    world = World(engine, name)
    d = diagnose(with_boot(world.gather(), 1), world.limits)
    assert first(d) == "host-rebooted confirmed"
    assert [p.name for p in d.plans] == ["recreate"]


CRASH = """echo 'INFO 10.0.0.1:1 - POST /v1/chat/completions'
echo 'INFO 10.0.0.1:2 - POST /v1/chat/completions'
echo 'INFO 10.0.0.1:3 - POST /v1/chat/completions'
echo 'multiproc_executor.py: Worker proc VllmWorker-0 died unexpectedly'
echo 'EngineCore encountered a fatal error'; echo EngineDeadError
echo 'Shutting down'; echo 'Waiting for application shutdown.'
echo 'Application shutdown complete'; echo 'Finished server process [1]'"""


def ended(engine: Engine, script: str, name: str = "") -> tuple[World, Evidence]:
    name = name or f"serve{uuid4().hex[:6]}"
    for ident in engine.run("ps", "-aq").split():  # of other tests, which ended in the same seconds
        engine.run("rm", "-f", ident)
    engine.create(name, "sh", "-c", script)
    engine.wait_status(name, "exited")
    world = World(engine, name, start=("true",), match="server")
    return world, world.gather()


@pytest.mark.incident("T2-10", came="right", fed="readers", known=True)
def test_a_crash_that_ends_with_code_zero(engine: Engine) -> None:
    world, e = ended(engine, CRASH)
    d = diagnose(e, world.limits)
    assert first(d) == "failed-with-code-zero likely", d.model_dump_json(indent=1)
    for word in ("VllmWorker-0 died unexpectedly", "EngineDeadError"):
        assert word in d.causes[0].evidence[0], "more than the last three lines"
    assert d.plans == ()
    assert any("because of code 0" in x for x in d.must_not)


@pytest.mark.incident("T2-10", came="right", fed="readers", known=True, twin="it served on after the error and then ended in order")
def test_an_error_that_it_survived(engine: Engine) -> None:
    more = "; ".join(f"echo 'INFO 10.0.0.1:{i} - POST /v1/chat/completions'" for i in range(4))
    world, e = ended(engine, CRASH.replace("echo 'Shutting down'", f"{more}; echo 'Shutting down'"))
    d = diagnose(e, world.limits)
    assert first(d) == "main-exited-zero confirmed", d.model_dump_json(indent=1)
    assert any("error before their end" in line and "EngineDead" in line for c in d.causes for line in c.evidence)


@pytest.mark.incident("T2-10", came="right", fed="readers", known=True, twin="no error in its words")
def test_an_end_in_order(engine: Engine) -> None:
    world, e = ended(engine, "echo served; echo 'Application shutdown complete'")
    assert first(diagnose(e, world.limits)) == "main-exited-zero confirmed"


@pytest.mark.incident("T2-10", came="right", fed="readers", known=True, twin="its log is lost")
def test_without_its_words_nothing_is_confirmed(engine: Engine) -> None:
    world, e = ended(engine, CRASH)
    d = diagnose(e.model_copy(update={"log": Unknown(reason=UnknownReason.TIMED_OUT)}), world.limits)
    assert first(d) == "main-exited-zero likely"
    assert d.plans == ()


@pytest.mark.incident("T2-10", came="right", fed="readers", known=True, twin="a stranger's words, far before the end")
def test_any_program_that_dies_of_its_helper(engine: Engine) -> None:
    """Other words, another order, a long good-bye."""
    bye = "; ".join(f"echo 'closing session {i}'" for i in range(12))
    script = "echo 'listening'; echo 'helper 3 quit'; echo 'panic: lost the shard owner'; " + bye + "; echo bye; exit 0"
    world, e = ended(engine, script)
    d = diagnose(e, world.limits)
    assert first(d) == "failed-with-code-zero likely", d.model_dump_json(indent=1)
    assert "lost the shard owner" in d.causes[0].evidence[0]


@pytest.mark.incident("T2-ended-together", came="right", fed="readers", known=True)
def test_four_that_ended_in_one_second_are_one_event(engine: Engine) -> None:
    """Host unread: that one of them ended with code 0 is no end of its own."""
    names = [f"four{uuid4().hex[:6]}" for _ in range(4)]
    until = int(time.time()) + 4
    for name in names:
        engine.create(name, "sh", "-c", f"while [ $(date +%s) -lt {until} ]; do :; done")
    for name in names:
        engine.wait_status(name, "exited")
    world = World(engine, names[0], start=("true",), match="server")
    e = world.gather()
    d = diagnose(e.model_copy(update={"host": Unknown(reason=UnknownReason.TIMED_OUT)}), world.limits)
    assert first(d) == "ended-together likely", d.model_dump_json(indent=1)
    assert confirmed(d) == []
    assert d.plans == ()
    read = diagnose(e, world.limits)  # neither machine nor engine was started again: parts of one job
    assert first(read) == "main-exited-zero likely"
    for name in names[1:]:
        engine.run("rm", name)
    alone = world.gather().model_copy(update={"host": Unknown(reason=UnknownReason.TIMED_OUT)})
    assert first(diagnose(alone, world.limits)) == "main-exited-zero likely"


@pytest.mark.incident("T2-only-sleeps", came="open", fed="readers", known=True)
def test_a_container_that_only_sleeps_does_not_do_its_work(engine: Engine) -> None:
    engine.create("sleeper", "sh", "-c", "while :; do sleep 60; done")
    d = World(engine, "sleeper").judge()
    assert d.state is State.CANNOT_TELL, d.headline
    assert first(d) == "application-dead possible"
    assert "does its work" not in d.headline


@pytest.mark.incident("T2-only-sleeps", came="right", fed="readers", known=True, twin="a program runs beside its sleep")
def test_a_container_with_a_program_says_what_it_covers(engine: Engine, tmp_path: Path) -> None:
    engine.create("busy", "sh", "-c", "tail -f /etc/passwd & sleep 1000")
    d = World(engine, "busy").judge()
    assert d.state is State.HEALTHY, d.model_dump_json(indent=1)
    assert "not configured" in d.headline
    configured = World(engine, "busy", match="tail -f").judge()
    assert "its process runs" in configured.headline
    assert configured.causes == () or all(c.certainty is not Certainty.CONFIRMED for c in configured.causes)


@pytest.mark.incident("T2-10", came="right", fed="readers", known=True, twin="the engine restarts it after a failure only")
def test_who_restarts_after_a_failure_only_is_named(engine: Engine) -> None:
    name = f"serve{uuid4().hex[:6]}"
    engine.create(name, "sh", "-c", CRASH, options=("--restart", "on-failure:5"))
    engine.wait_status(name, "exited")
    d = World(engine, name).judge()
    assert first(d) == "failed-with-code-zero likely"
    assert "code 0 counts as none" in str(d.causes[0].evidence)
    assert any("5 times at most" in f.issue for f in d.findings)


@pytest.mark.incident("T2-shm", came="right", fed="readers", known=True)
def test_a_full_shared_memory_inside(engine: Engine) -> None:
    engine.create("shm", "sleep", "1000", options=("--shm-size", "1m"))
    well = World(engine, "shm", match="sleep").judge()
    assert well.state is State.HEALTHY, "the fault taken out: nothing in it"
    engine.run("exec", "shm", "sh", "-c", "dd if=/dev/zero of=/dev/shm/x bs=1024 count=1024 2>/dev/null; true")
    d = World(engine, "shm", match="sleep").judge()
    assert first(d) == "shm-full likely", d.model_dump_json(indent=1)
    assert "of 1 MiB" in d.headline
    engine.run("rm", "-f", "shm")


@pytest.mark.incident("T2-empty-source", came="right", fed="readers", known=True)
def test_an_empty_bind_source_that_the_application_misses(engine: Engine, tmp_path: Path) -> None:
    data = tmp_path / "disk"
    data.mkdir()
    said = "FileNotFoundError: [Errno 2] No such file or directory: '/in/train.bin'"
    engine.create("empty", "sh", "-c", f'echo start; echo "{said}"; exit 1', options=("-v", f"{data}:/in"))
    engine.wait_status("empty", "exited")
    d = World(engine, "empty").judge()
    assert first(d) == "mount-gone likely", d.model_dump_json(indent=1)
    assert str(data) in str(d.causes[0].evidence)
    assert d.plans == ()
    (data / "other.bin").write_bytes(b"x")  # the folder holds data: the missing file is the application's matter
    d = World(engine, "empty").judge()
    assert first(d).startswith("main-exited-error ")
    engine.run("rm", "empty")


UPGRADED = "{at} upgrade docker.io:amd64 20.10.24+dfsg1-1 20.10.24+dfsg1-1+deb12u1"


@pytest.mark.incident("T2-old-upgrade", came="right", fed="readers", known=True)
def test_an_upgrade_of_hours_ago_that_this_restart_made_effective() -> None:
    """A real engine that was stopped and started again; the package log's line, hours old, through its parser."""
    with docker_engine() as own:
        own.create("held", "sleep", "1000")
        time.sleep(1.2)
        own.stop_daemon()
        own.kill_all()
        own.up()
        own.wait_status("held", "exited")
        world = World(own, "held")
        e = world.gather()
    assert first(diagnose(e, world.limits)).startswith("daemon-restarted "), "the fault taken out: no package was upgraded"
    assert isinstance(e.host, Known)
    assert isinstance(e.container, Known)
    assert e.container.value.started_at
    for hours, slug in ((-3.0, "daemon-upgraded "), (3.0, "daemon-restarted ")):  # after its start, and before it
        d = diagnose(aged(e, hours), world.limits)
        assert first(d).startswith(slug), (hours, d.headline)
    assert "made it effective" in str(diagnose(aged(e, -3.0), world.limits).causes[0].evidence)


def aged(e: Evidence, hours: float) -> Evidence:
    """As if the container had been started four hours earlier, and the engine upgraded `hours` before that (negative: after it)."""
    assert isinstance(e.container, Known)
    assert isinstance(e.host, Known)
    began = e.container.value.started_at
    assert began is not None
    began -= timedelta(hours=4)
    line = UPGRADED.format(at=(began - timedelta(hours=hours)).astimezone().strftime("%Y-%m-%d %H:%M:%S"))
    (row,) = host_packages.dpkg(line)
    upgrade = Upgrade(**{**row, "at": datetime.fromtimestamp(row["at"], UTC)})
    container = Known[ContainerFacts](value=e.container.value.model_copy(update={"started_at": began}))
    host = Known[HostFacts](value=e.host.value.model_copy(update={"upgrades": (upgrade,), "booted_at": began - timedelta(days=9)}))
    return e.model_copy(update={"container": container, "host": host})
