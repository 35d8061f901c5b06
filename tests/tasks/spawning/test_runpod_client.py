"""The stand-in of the provider, held to the official `runpod` package; our client on all three surfaces."""

import importlib
import os
import sys
import time
from collections.abc import Iterator

import pytest

from deployments.lab.fake_runpod import KEY, FakeRunPod
from runbooks.core.orchestrator_config import RunPodConfig
from runbooks.parsers.runpod import Phase, Runtime, StoppedBy, parse_pod
from tasks.clients.runpod import NotFound, RunPodClient
from tasks.installation import installation_redactor


@pytest.fixture
def fake() -> Iterator[FakeRunPod]:
    server = FakeRunPod()
    yield server
    server.close()


def test_the_official_package_drives_the_stand_in(fake: FakeRunPod, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNPOD_API_BASE_URL", fake.url)
    for name in [n for n in sys.modules if n == "runpod" or n.startswith("runpod.")]:
        monkeypatch.delitem(sys.modules, name)
    runpod = importlib.import_module("runpod")
    runpod.api_key = KEY  # type: ignore[attr-defined]
    made = runpod.create_pod("gpu-new", "org/app:1", "NVIDIA GeForce RTX 4090")
    assert made["id"] in fake.pods
    assert [p["id"] for p in runpod.get_pods()] == [made["id"]]
    assert runpod.get_pod(made["id"])["desiredStatus"] == "RUNNING"
    runpod.stop_pod(made["id"])
    assert runpod.get_pod(made["id"])["desiredStatus"] == "EXITED"
    runpod.resume_pod(made["id"], 1)
    fake.pods[made["id"]].gpus = 0
    runpod.stop_pod(made["id"])
    with pytest.raises(runpod.error.QueryError, match="not enough free GPUs"):
        runpod.resume_pod(made["id"], 1)
    runpod.terminate_pod(made["id"])
    assert fake.pods == {}
    kind = "NVIDIA GeForce RTX 4090"
    assert kind in [g["id"] for g in runpod.get_gpus()]
    assert runpod.get_gpu(kind)["lowestPrice"]["uninterruptablePrice"] is None
    fake.stock[kind, "EU-RO-1"] = "Low"
    assert runpod.get_gpu(kind)["lowestPrice"]["uninterruptablePrice"] == 0.6


def client(fake: FakeRunPod, monkeypatch: pytest.MonkeyPatch) -> RunPodClient:
    monkeypatch.setenv("RUNPOD_API_KEY", KEY)
    config = RunPodConfig(rest_url=f"{fake.url}/v1", rest2_url=f"{fake.url}/v2", graphql_url=f"{fake.url}/graphql")
    return RunPodClient(config, installation_redactor())


def test_our_client_joins_the_surfaces(fake: FakeRunPod, monkeypatch: pytest.MonkeyPatch) -> None:
    fake.add("p1", log=("a", "b"), pull_s=9999)
    fake.add("p2", name="not-ours")
    mine = client(fake, monkeypatch)
    pod = mine.pod("p1")
    assert (pod.phase, pod.runtime, pod.ip, pod.wants_ssh) == (Phase.RUNNING, Runtime.NULL, "", True)
    fake.pods["p1"].pull_s = 0
    pod = mine.pod("p1")
    assert (pod.runtime, pod.gpus, pod.ssh_port, pod.cost_per_hour, pod.disk_gb) == (Runtime.THERE, 1, 2222, 0.59, 70)
    assert [p.id for p in mine.pods()] == ["p1"]
    assert mine.log("p1") == ("a", "b")
    fake.act(fake.pods["p1"], "stop")
    pod = mine.pod("p1")
    assert (pod.phase, pod.stop, pod.ip, pod.ssh_port) == (Phase.EXITED, StoppedBy.USER, "", None), (
        "stale ports are not shown"
    )
    mine.terminate("p1")
    with pytest.raises(NotFound):
        mine.pod("p1")


def test_stock_by_type_and_data_centre(fake: FakeRunPod, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = client(fake, monkeypatch)
    fake.stock = {("NVIDIA GeForce RTX 4090", "US-TX-3"): "High", ("NVIDIA RTX A6000", "EU-RO-1"): "Low"}
    fake.volumes = [{"id": "v1", "name": "models", "size": 100, "dataCenterId": "EU-RO-1"}]
    assert [(t.name, t.anywhere, t.here) for t in mine.stock(1)] == [("RTX 4090", "High", ""), ("RTX A6000", "Low", "")]
    assert [(t.anywhere, t.here) for t in mine.stock(1, "EU-RO-1")] == [("High", ""), ("Low", "Low")]
    assert mine.volumes()[0].data_center == "EU-RO-1"


def test_three_shapes_of_one_pod(fake: FakeRunPod) -> None:
    made = fake.add("p1")
    for shape in (made.rest1(), made.rest2(), made.graphql()):
        pod = parse_pod(shape)
        assert (pod.id, pod.phase, pod.ip, pod.ssh_port) == ("p1", Phase.RUNNING, "127.0.0.1", 2222)
    for text, stop in (
        ("Outbid: Mon Aug 04 2025", StoppedBy.OUTBID),
        ("Terminated by user: Mon Aug 04 2025", StoppedBy.USER),
        ("Exited by Runpod: Mon", StoppedBy.PROVIDER),
        ("Exited by Runpod: out of credit", StoppedBy.CREDIT),
        ("Rented by User: Mon", StoppedBy.NONE),
    ):
        assert parse_pod({"id": "x", "desiredStatus": "EXITED", "lastStatusChange": text}).stop is stop, text


def test_no_key_is_denied(monkeypatch: pytest.MonkeyPatch, fake: FakeRunPod) -> None:
    from tasks.transport.base import TransportError

    monkeypatch.delenv("RUNPOD_API_KEY", raising=False)
    monkeypatch.setattr("tasks.credentials._block", lambda _name: "")
    with pytest.raises(TransportError, match="RUNPOD_API_KEY"):
        RunPodClient(RunPodConfig(), installation_redactor())
    assert os.environ.get("RUNPOD_API_KEY") is None


def test_a_pull_moves_in_time_and_an_ended_pod_is_shown_before_it_vanishes(
    fake: FakeRunPod, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = client(fake, monkeypatch)
    pod = fake.add("pull1", name="gpu-pull", pull_s=0.4, layers=4)
    first = ours.log("pull1")
    assert any("Downloading" in line for line in first)
    assert ours.pod("pull1").runtime is Runtime.NULL
    time.sleep(0.5)
    assert ours.log("pull1")[-1] == "start container"
    assert ours.pod("pull1").runtime is Runtime.THERE
    fake.vanish_s = 0.3
    ours.terminate("pull1")
    assert ours.pod("pull1").terminated
    assert not ours.pod("pull1").ssh_port, "stale ports are not believed"
    time.sleep(0.4)
    with pytest.raises(NotFound):
        ours.pod(pod.id)
