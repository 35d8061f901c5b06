"""An etcd that is a container of a real Docker engine: killed, seen down, started again by the configured command."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from deployments.ports import free_port
from tests.support.docker_engine import Engine, docker_engine
from tests.support.etcd import Etcd, program_of
from tests.support.rendezvous import act, context_of, fast, look, place, slugs
from tests.support.waiting import until
from tests.tasks.rendezvous.test_etcd_acts import dead_run

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]


@pytest.fixture
def engine() -> Iterator[Engine]:
    with docker_engine() as running:
        yield running


def test_a_container_that_died_is_started_with_the_data_it_had(engine: Engine, tmp_path: Path) -> None:
    """The same container, every key there, and a second start is refused."""
    etcd = Etcd(tmp_path, free_port(), free_port())
    binary, urls = program_of("3.5"), (etcd.url, f"http://127.0.0.1:{etcd.peer}")
    command = ["/etcd", "--name=t", "--data-dir=/data", "--enable-v2=true", f"--initial-cluster=t={urls[1]}"]
    command += [f"--listen-client-urls={urls[0]}", f"--advertise-client-urls={urls[0]}"]
    command += [f"--listen-peer-urls={urls[1]}", f"--initial-advertise-peer-urls={urls[1]}"]
    (tmp_path / "data").mkdir(mode=0o700)
    mounts = ["-v", f"{binary}:/etcd:ro", "-v", f"{tmp_path}/data:/data"]
    made = engine.run("run", "-d", "--name", "etcd", "--network", "host", *mounts, "bb:1", *command).strip()
    until(etcd.healthy, 60, "a healthy etcd")
    dead_run(etcd, "job")
    before = etcd.leaves()
    start = {"node": "local", "command": (*engine.argv, "start", "etcd"), "data_dir": str(tmp_path / "data")}
    where = place(etcd.url, start=start)
    engine.run("kill", "etcd")
    _, d = look(fast(context_of(where, tmp_path / "reports", "t")))
    assert slugs(d) == ["etcd-down"], d
    said = act(d.plans[0], context_of(where, tmp_path / "reports", "t"))
    assert "it knows 1 runs" in said[0].said[-1]
    assert etcd.leaves() == before
    assert engine.run("ps", "-q", "--no-trunc").strip() == made
