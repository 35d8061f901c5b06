"""Which units, timers and cron lines count as a second supervisor, on recorded words of systemd (252)."""

import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from runbooks.container.others import labelled
from tasks.container.probes import supervisors, units

IDENT = "4be1c0ffee12" + "0" * 52
ASK: dict[str, Any] = {"name": "ray_docker", "id": IDENT}
REST = {"ActiveState": "inactive", "SubState": "dead", "UnitFileState": "enabled", "NRestarts": "0", "Result": "success",
        "Restart": "always", "InvocationID": "", "TriggeredBy": "", "WantedBy": "multi-user.target",
        "ActiveExitTimestampMonotonic": "0"}  # fmt: skip
RUNS = REST | {"ActiveState": "active", "SubState": "running", "InvocationID": "3f2a5c0e9d1b4a6c8e7f0123456789ab"}
START = "ExecStart=/usr/bin/docker start -a ray_docker"


def found(
    monkeypatch: pytest.MonkeyPatch, folder: Path, text: str, says: dict[str, dict[str, str]]
) -> list[dict[str, Any]]:
    """What is found of one unit file and systemd's words on each unit."""
    (folder / "w.service").write_text(text)

    def systemctl(*words: str) -> str | None:
        if words[-1] == "*.service":
            return ""
        return "\n".join(f"{k}={v}" for k, v in says[words[-1]].items()) if words[-1] in says else None

    monkeypatch.setattr(units, "FILES", (str(folder / "*.service"),))
    monkeypatch.setattr(units, "systemctl", systemctl)
    return units.units(ASK)


CASES: dict[str, tuple[str, dict[str, dict[str, str]], list[tuple[str, bool, bool]]]] = {
    # what systemd says -> (unit, has a life that can be stopped, rests)
    "runs": (START, {"w.service": RUNS}, [("w.service", True, False)]),
    "waits to start again": (START, {"w.service": RUNS | {"ActiveState": "activating", "SubState": "auto-restart"}},
                             [("w.service", True, False)]),
    "rests until the boot": (START, {"w.service": REST}, [("w.service", False, True)]),
    "gave up": (START, {"w.service": REST | {"ActiveState": "failed", "Result": "start-limit-hit"}},
                [("w.service", False, True)]),
    "its start is queued": (START, {"w.service": REST | {"Job": "77"}}, [("w.service", False, False)]),
    "disabled": (START, {"w.service": REST | {"UnitFileState": "disabled"}}, []),
    "disabled, stopped a while ago": (
        START, {"w.service": REST | {"UnitFileState": "disabled", "ActiveExitTimestampMonotonic": "5000000"}},
        [("w.service", False, True)]),
    "nobody pulls it": (START, {"w.service": REST | {"UnitFileState": "static", "WantedBy": ""}}, []),
    "a timer starts it": (
        START, {"w.service": REST | {"UnitFileState": "static", "WantedBy": "", "TriggeredBy": "w.timer"},
                "w.timer": RUNS | {"SubState": "waiting"}}, [("w.timer", True, False)]),
    "a timer that rests": (
        START, {"w.service": REST | {"UnitFileState": "static", "WantedBy": "", "TriggeredBy": "w.timer"},
                "w.timer": REST}, []),
    "ran once and stays active": (START, {"w.service": RUNS | {"SubState": "exited"}}, [("w.service", False, True)]),
    "a boot starts the old one by its id": ("ExecStart=/usr/bin/docker start -a 4be1c0ffee12", {"w.service": REST},
                                            [("w.service", False, False)]),
    "systemd cannot be asked": (START, {}, [("w.service", False, False)]),
    "of another container": ("ExecStart=/usr/bin/docker start -a ray_docker2", {"w.service": RUNS}, []),
    "only looks at it": ("ExecStart=/usr/bin/docker logs -f ray_docker", {"w.service": RUNS}, []),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_unit(case: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text, says, expected = CASES[case]
    got = found(monkeypatch, tmp_path, text, says)
    assert [(x["name"], bool(x["life"]), bool(x.get("rests"))) for x in got] == expected


def test_the_commands_of_a_script_count(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = tmp_path / "keep.sh"
    script.write_text("#!/bin/sh\ndocker restart ray_docker\n")
    assert found(monkeypatch, tmp_path, f"ExecStart={script}", {"w.service": RUNS})
    script.write_text("#!/bin/sh\ndocker restart another\n")
    assert found(monkeypatch, tmp_path, f"ExecStart={script}", {"w.service": RUNS}) == []


def test_templates_and_drop_ins_are_read_as_systemd_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    said = (
        "Id=keep@ray_docker.service\nExecStart={ path=/usr/bin/docker ; argv[]=/usr/bin/docker start -a ray_docker ; "
        "ignore_errors=no ; start_time=[n/a] ; stop_time=[n/a] ; pid=0 ; code=(null) ; status=0/0 }\n\nId=other.service\n"
    )
    monkeypatch.setattr(units, "FILES", ())
    monkeypatch.setattr(units, "systemctl", lambda *w: said if w[-1] == "*.service" else None)
    assert [x["name"] for x in units.units(ASK)] == ["keep@ray_docker.service"]


@pytest.mark.parametrize(
    ("line", "counts"),
    [
        ("*/5 * * * * root docker start ray_docker", True),
        ("#*/5 * * * * root docker start ray_docker", False),
        ("*/5 * * * * root docker exec ray_docker nvidia-smi", False),
        ("*/5 * * * * root docker start ray_docker-2", False),
    ],
)
def test_cron(line: str, counts: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "t").write_text(line + "\n")
    monkeypatch.setattr(supervisors, "TABLES", (str(tmp_path / "*"),))
    monkeypatch.setattr(supervisors, "pids", lambda: [1])
    monkeypatch.setattr(supervisors, "stat", lambda _pid: {"comm": "cron"})
    assert bool(supervisors.cron(ASK)) is counts


@pytest.mark.parametrize(
    ("tool", "text", "counts"),
    [
        ("sh", "while true; do docker exec ray_docker ray start; sleep 10; done", True),
        (
            "python3",
            "import subprocess, time\nwhile 1:\n time.sleep(60)\n subprocess.run(['docker', 'start', 'ray_docker'])",
            True,
        ),
        ("python3", "import time\nwhile 1:\n time.sleep(60)\n print('docker logs of ray_docker')", False),
    ],
)
def test_a_loop_in_any_script(tool: str, text: str, counts: bool, tmp_path: Path) -> None:
    path = tmp_path / "keep"
    path.write_text(f"true || echo\n{text}\n" if tool == "sh" else text)
    argv = [tool, str(path)]
    process = subprocess.Popen(argv, env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, stderr=subprocess.DEVNULL)
    try:
        time.sleep(0.3)
        mine = [x for x in supervisors.loops(ASK | {"id": ""}) if x["pid"] == process.pid]
        assert [x["name"] for x in mine] == [str(path)] * counts
    finally:
        process.kill()
        process.wait()


def test_a_script_that_comes_through_a_pipe_or_a_descriptor_holds_nobody_up(tmp_path: Path) -> None:
    """`bash /dev/fd/3` is the other's descriptor; a FIFO without a writer never ends."""
    loop = tmp_path / "loop"
    loop.write_text("while true; do docker start ray_docker; sleep 10; done\n")
    os.mkfifo(tmp_path / "fifo")
    reads, writes = os.pipe()
    with loop.open("rb") as script:
        shells = [
            subprocess.Popen(
                ["/bin/sh", f"/dev/fd/{script.fileno()}"], pass_fds=[script.fileno()], env={"PATH": str(tmp_path)}
            ),
            subprocess.Popen(["sh", f"/dev/fd/{reads}"], pass_fds=[reads]),
            subprocess.Popen(["sh", str(tmp_path / "fifo")]),
        ]
        try:
            time.sleep(0.3)
            began = time.monotonic()
            assert [supervisors.script(p.pid)[1] for p in shells[1:]] == ["", ""]
            assert "docker start" in supervisors.script(shells[0].pid)[1] or shells[0].poll() is not None
            assert time.monotonic() - began < 5
        finally:
            for shell in shells:
                shell.kill()
                shell.wait()
            os.close(reads)
            os.close(writes)


QUADLET = """Id=worker.service
ExecStart={ path=/usr/bin/podman ; argv[]=/usr/bin/podman run --name=systemd-worker --cidfile=/run/worker.cid --replace --rm -d bb:1 ; x=y }
"""


def test_a_quadlet_s_container_has_its_name_from_systemd_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The generated file says %N, so that the name stands only in what systemd has read; the label names the unit as well."""
    (tmp_path / "worker.service").write_text(
        "ExecStart=/usr/bin/podman run --name=systemd-%N --cidfile=%t/%N.cid --replace --rm -d bb:1\n"
    )

    def says(*words: str) -> str | None:
        return QUADLET if words[-1] == "*.service" else "\n".join(f"{k}={v}" for k, v in RUNS.items())

    monkeypatch.setattr(units, "FILES", (str(tmp_path / "*.service"),))
    monkeypatch.setattr(units, "systemctl", says)
    assert [x["name"] for x in units.units({"name": "systemd-worker", "id": IDENT})] == ["worker.service"]
    assert units.units({"name": "other", "id": IDENT}) == []
    assert [x["name"] for x in units.units({"name": "other", "id": IDENT, "unit": "worker.service"})] == ["worker.service"]


LABELS: dict[str, tuple[dict[str, str], list[tuple[str, str, bool]]]] = {
    "static pod": ({"io.kubernetes.pod.name": "dcgm-node7", "io.kubernetes.pod.namespace": "kube-system",
                    "io.kubernetes.container.name": "dcgm"},
                   [("kubernetes", "pod dcgm-node7, namespace kube-system, container dcgm", False)]),
    "swarm": ({"com.docker.swarm.service.name": "trainer"}, [("swarm", "service trainer", False)]),
    "compose": ({"com.docker.compose.project": "p", "com.docker.compose.service": "web"}, [("compose", "project p, service web", True)]),
    "nobody": ({"maintainer": "io.kubernetes.pod.name"}, []),
}  # fmt: skip


@pytest.mark.parametrize("case", LABELS)
def test_labels(case: str) -> None:
    labels, wanted = LABELS[case]
    assert [(s.kind, s.name, s.rests) for s in labelled(labels)] == wanted


COMPOSE = {"project": "train", "dir": "/srv/train", "files": ["/srv/train/compose.yml"]}


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("ExecStart=/usr/bin/docker compose up\nWorkingDirectory=/srv/train", True),
        ("ExecStart=/usr/bin/docker-compose -f /srv/train/compose.yml up --abort-on-container-exit", True),
        ("ExecStart=/usr/bin/docker compose -p train up", True),
        ("ExecStart=/usr/bin/docker compose -p train-2 up", False),
        ("ExecStart=/usr/bin/docker compose up\nWorkingDirectory=/srv/training", False),
        ("ExecStart=/usr/bin/docker compose -p train logs -f", False),
    ],
)
def test_a_unit_that_runs_compose_on_its_project(text: str, counts: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "w.service").write_text(text + "\n")
    monkeypatch.setattr(units, "FILES", (str(tmp_path / "*.service"),))
    said = "\n".join(f"{k}={v}" for k, v in RUNS.items())
    monkeypatch.setattr(units, "systemctl", lambda *w: "" if w[-1] == "*.service" else said)
    assert bool(units.units({"name": "train_web_1", "id": IDENT, "compose": COMPOSE})) is counts
