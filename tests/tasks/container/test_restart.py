"""Restarting a container by its id on a real Docker engine; and what the process reading sees of one."""

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from runbooks.container.parsers.docker import parse_time
from runbooks.container.words import clock
from runbooks.core.containers_config import ManagedContainer, engine_of
from runbooks.core.plan import Step
from runbooks.core.reading import Absent, Known
from runbooks.core.refusal import RefusalCode
from tasks.container import act_restart
from tasks.container.act_restart import restart_container
from tasks.context import ActionRefused
from tasks.gpu.container_gpus import read_container_gpus
from tasks.gpu.processes import read_processes
from tasks.transport.base import TransportError
from tests.support.docker_engine import Engine, docker_engine
from tests.support.gpu_node import BOOT, context, job, look
from tests.support.racing import meanwhile


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    """One engine for these tests."""
    with docker_engine() as found:
        yield found


@pytest.fixture(autouse=True)
def _client(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`docker` on this node is that engine's client."""
    (tmp_path / "docker").write_text("#!/bin/sh\nexec " + " ".join(engine.argv) + ' "$@"\n')
    (tmp_path / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/sbin:/usr/bin:/sbin:/bin")


def step(box: str, boot: str = BOOT) -> Step:
    """Its restart."""
    args = {"container": box, "boot_id": boot}
    return Step(kind="restart-container", owner="node-a", args=args, commands=("docker restart",), effect="runs")


def start(engine: Engine, name: str, *options: str, words: tuple[str, ...] = ("sleep", "600")) -> str:
    """A running container's full id."""
    box = engine.run("run", "-d", "--network=none", "--name", name, *options, "bb:1", *words)
    return box.strip()


def test_the_same_container_runs_anew(engine: Engine) -> None:
    box = start(engine, "again", "--stop-timeout", "1")
    before = engine.inspect("again")["State"]["Pid"]
    said, gap = restart_container(step(box), context()).said
    assert "could not be seen" in gap
    after = engine.inspect("again")
    assert after["Id"] == box
    assert after["State"]["Pid"] != before
    assert f"again ({box[:12]}) was started at {clock(parse_time(after['State']['StartedAt']))}" in said


def test_identities_and_the_opt_out(engine: Engine) -> None:
    box = start(engine, "mine", "--label", "gpu-runbooks.hands-off=true")
    for one, words in (
        (step("mine"), "not a full container id"),
        (step(box[:12]), "not a full container id"),
        (step("f" * 64), "no container"),
        (step(box, "other-boot"), "was booted since"),
        (step(box), "opts out"),
    ):
        began = engine.inspect("mine")["State"]["StartedAt"]
        with pytest.raises(ActionRefused, match=words):
            restart_container(one, context())
        assert engine.inspect("mine")["State"]["StartedAt"] == began


def test_somebody_starts_it_or_makes_another_one_in_that_moment(engine: Engine) -> None:
    """Started again since the first look: what runs in the new life stays. Removed, and one of that name made: that one stays."""
    box = start(engine, "raced", "--stop-timeout", "1")
    lives = []

    def again() -> None:
        engine.run("restart", "-t", "0", "raced")
        lives.append(engine.inspect("raced")["State"]["StartedAt"])

    for name in ("_life", "_inspect", "_nobody_at_work"):
        with meanwhile(act_restart, name, again), pytest.raises(ActionRefused, match="started container"):
            restart_container(step(box), context())
        assert engine.inspect("raced")["State"]["StartedAt"] == lives[-1]
    made = []

    def replace() -> None:
        engine.run("rm", "-f", "raced")
        made.append((start(engine, "raced"), engine.inspect("raced")["State"]["StartedAt"]))

    with meanwhile(act_restart, "_nobody_at_work", replace), pytest.raises(TransportError, match=r"[Nn]o such"):
        restart_container(step(box), context())
    now = engine.inspect("raced")
    assert [(now["Id"], now["State"]["StartedAt"])] == made


def test_a_process_in_a_container_is_seen_from_the_host(engine: Engine) -> None:
    box = start(engine, "seen", words=("sleep", "601"))
    pid = engine.inspect("seen")["State"]["Pid"]
    time.sleep(0.2)
    found = look(jobs=(job("c", match=r"^sleep 601$"),))[pid]
    assert found.container == box
    assert found.ns_pids[-1] == 1
    assert len(found.ns_pids) == 2


def test_who_works_in_a_container_is_seen_whoever_started_it(engine: Engine) -> None:
    box = start(engine, "upload", "--stop-timeout", "1")
    pid = engine.compute_in("upload")
    looked = read_processes(context(), 0.6, (), ())
    assert isinstance(looked.inside, Known)
    (one,) = (i for i in looked.inside.value if i.container == box)
    mine = next(p for p in one.most if p.pid == pid)
    assert (one.others, one.unread) == (2, ())
    assert (mine.io_window_bytes or 0) > 1 << 20
    assert mine.command.startswith("busybox dd if")
    engine.run("rm", "-f", "upload")


def test_a_container_in_which_somebody_is_at_work_is_not_restarted(engine: Engine) -> None:
    """Whoever began to work after the judgment is spared; of whom it was known, and chosen knowingly, is not."""
    box = start(engine, "works", "--stop-timeout", "1")
    pid, began = engine.compute_in("works"), engine.inspect("works")["State"]["StartedAt"]
    with pytest.raises(ActionRefused, match=rf"pid {pid} \(busybox dd if.*\) read and wrote \d+\.\d MiB") as no:
        restart_container(step(box), context())
    assert no.value.code is RefusalCode.IN_USE
    assert engine.inspect("works")["State"]["StartedAt"] == began
    ticks = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    other = step(box).model_copy(update={"args": step(box).args | {"moving": [{"pid": pid, "start_ticks": ticks + 1}]}})
    with pytest.raises(ActionRefused, match="busybox dd if"):
        restart_container(other, context())
    known = step(box).model_copy(update={"args": step(box).args | {"moving": [{"pid": pid, "start_ticks": ticks}]}})
    restart_container(known, context())
    assert engine.inspect("works")["State"]["StartedAt"] != began


def test_a_container_of_which_no_process_is_seen_is_not_restarted(engine: Engine) -> None:
    box = start(engine, "ended", words=("true",))
    engine.run("wait", "ended")
    with pytest.raises(ActionRefused, match="no process of container") as no:
        restart_container(step(box), context())
    assert no.value.code is RefusalCode.CANNOT_CHECK


def test_containers_without_gpus_are_not_asked(engine: Engine) -> None:
    start(engine, "plain")
    found = read_container_gpus(context())
    assert isinstance(found, Known)
    assert found.value == ()


def test_a_container_that_lost_its_devices_says_it_in_the_drivers_words(tmp_path: Path) -> None:
    asked = {"HostConfig": {"DeviceRequests": [{"Driver": "", "Count": -1, "Capabilities": [["gpu"]]}]}}
    boxes = [{"Id": c * 64, "Name": f"/box-{c}", **asked} for c in "abc"]  # as `docker run --gpus all` shows in inspect
    (tmp_path / "boxes.json").write_text(json.dumps(boxes))
    (tmp_path / "docker").write_text(
        f"""#!/bin/sh
case "$1 $2" in
ps*) printf '%064d\n' 1 2 3 ;;
inspect*) cat {tmp_path}/boxes.json ;;
"exec a"*) echo 'Failed to initialize NVML: Unknown Error'; exit 255 ;;
"exec b"*) echo 'GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-5a3c1e90)' ;;
*) echo 'exec: "nvidia-smi": executable file not found in $PATH'; exit 127 ;;
esac
"""
    )
    found = read_container_gpus(context())
    assert isinstance(found, Known), found
    assert [(c.name, c.nvml) for c in found.value] == [
        ("box-a", "Failed to initialize NVML: Unknown Error"),
        ("box-b", ""),
    ]
    assert found.source is not None
    assert "1 containers with GPUs have no nvidia-smi" in found.source.excerpt


def test_the_fleet_files_engine_is_asked_and_acts(engine: Engine, tmp_path: Path) -> None:
    """No `docker` on this node answers: the client and its options are those of the node's containers."""
    box = start(engine, "odd", "--stop-timeout", "1")
    (tmp_path / "docker").write_text("#!/bin/sh\necho 'nobody asks this one' >&2; exit 1\n")
    usual = context()
    kept = ManagedContainer(name="odd", node=usual.node.name, engine=tuple(engine.argv))
    odd = replace(usual, fleet=usual.fleet.model_copy(update={"containers": (kept,)}))
    assert engine_of(odd.fleet.containers_on(usual.node.name)) == tuple(engine.argv)
    assert isinstance(read_container_gpus(odd), Known)
    began = engine.inspect("odd")["State"]["StartedAt"]
    args = {"container": box, "boot_id": BOOT, "engine": list(engine.argv)}
    restart_container(step(box).model_copy(update={"args": args}), odd)
    assert engine.inspect("odd")["State"]["StartedAt"] != began


def test_no_docker_is_absent(tmp_path: Path) -> None:
    (tmp_path / "docker").unlink()
    (tmp_path / "docker").write_text(
        "#!/bin/sh\necho 'Cannot connect to the Docker daemon at unix:///x.' >&2; exit 1\n"
    )
    (tmp_path / "docker").chmod(0o755)
    assert isinstance(read_container_gpus(context()), Absent)
