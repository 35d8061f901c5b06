"""The leader's /status, from a real server: as it is, with more fields, with wrong types, slow, refusing, gone."""

import json
import time
from typing import Any

import pytest

from deployments.lab.leader import LabLeader
from runbooks.core.fleet import Leader
from runbooks.core.reading import Absent, Known, Unknown, UnknownReason
from runbooks.gpu.leader import LeaderView
from runbooks.gpu.parsers.leader_status import parse_leader_status
from tasks.gpu.leader import read_leader, without_login
from tests.support.gpu_node import context

BASE: dict[str, Any] = {"node_id": "a", "leader_id": "a", "peers": {}}


def read(lab: LabLeader, **fields: Any) -> Known[LeaderView] | Absent | Unknown:
    """Through the fleet file's leader."""
    return read_leader(context(leader=Leader(url=lab.url, timeout_s=1, **fields)))


def test_what_it_believes_of_each_peer() -> None:
    peers: dict[str, dict[str, Any]] = {
        "node-a": {
            "selfplay_jobs": 3,
            "training_jobs": 1,
            "gpu_percent": 0.5,
            "last_heartbeat": time.time() - 7,
            "x": [1],
        },
        "node-b": {"selfplay_jobs": 0, "gpu_percent": None},
        "node-c": {"gpu_percent": 3},
    }
    with LabLeader(peers=peers, zombies=["node-a"]) as lab:
        found = read(lab)
    assert isinstance(found, Known)
    view = found.value
    assert view.is_leader
    assert view.zombies == ("node-a",)
    assert view.url == lab.url
    a, b = view.peers  # node-c says nothing of jobs: no claim is not the claim 0
    assert (a.node, a.jobs, a.gpu_percent) == ("node-a", 4, 0.5)
    assert a.last_seen_s is not None
    assert 6 < a.last_seen_s < 10
    assert (b.jobs, b.gpu_percent, b.last_seen_s) == (0, None, None)


def test_none_configured_is_absent() -> None:
    assert isinstance(read_leader(context()), Absent)


def test_a_follower_says_so() -> None:
    with LabLeader(node_id="n2", leader_id="n1") as lab:
        found = read(lab)
    assert isinstance(found, Known)
    assert not found.value.is_leader
    assert found.value.leader_id == "n1"


@pytest.mark.parametrize(
    ("lab", "reason"),
    [
        (LabLeader(delay_s=3), UnknownReason.TIMED_OUT),
        (LabLeader(status=500), UnknownReason.FAILED),
        (LabLeader(token="right"), UnknownReason.DENIED),
        (LabLeader(answer=b"<html>proxy</html>"), UnknownReason.UNPARSABLE),
        (LabLeader(answer=b"[]"), UnknownReason.UNPARSABLE),
        (LabLeader(answer=b""), UnknownReason.UNPARSABLE),
    ],
    ids=["slow", "500", "401", "html", "list", "empty"],
)
def test_every_no_has_its_own_reason(lab: LabLeader, reason: UnknownReason) -> None:
    with lab:
        found = read(lab)
    assert isinstance(found, Unknown)
    assert found.reason is reason
    assert found.source is not None
    assert found.source.command.startswith("GET http://127.0.0.1:")


def test_gone_is_unreachable() -> None:
    with LabLeader() as lab:
        url = lab.url
    found = read_leader(context(leader=Leader(url=url, timeout_s=1)))
    assert isinstance(found, Unknown)
    assert found.reason is UnknownReason.UNREACHABLE


def test_the_token_goes_along_and_into_no_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_TOKEN", "tok-12345-secret")
    with LabLeader(token="tok-12345-secret", peers={"n": {"selfplay_jobs": 1}}) as lab:
        found = read(lab, token_env="LAB_TOKEN")
    assert isinstance(found, Known)
    assert "tok-12345-secret" not in found.model_dump_json()


def test_an_empty_token_variable_is_denied() -> None:
    with LabLeader() as lab:
        found = read(lab, token_env="NO_SUCH_VARIABLE_HERE")
    assert isinstance(found, Unknown)
    assert found.reason is UnknownReason.DENIED


@pytest.mark.parametrize(
    "change",
    [
        {"peers": {"n": {"selfplay_jobs": "3"}}},
        {"peers": {"n": {"selfplay_jobs": True}}},
        {"peers": {"n": {"selfplay_jobs": -1}}},
        {"peers": {"n": {"selfplay_jobs": 1.5}}},
        {"peers": {"n": {"selfplay_jobs": 1, "gpu_percent": "5%"}}},
        {"peers": {"n": None}},
        {"peers": []},
        {"peers": None},
        {"node_id": 5},
        {"is_leader": "yes"},
        {"idle_detection_stats": {"zombie_nodes": "n"}},
        {"idle_detection_stats": {"zombie_nodes": [1]}},
    ],
    ids=json.dumps,
)
def test_a_wrong_type_names_its_field(change: dict[str, Any]) -> None:
    found = parse_leader_status({**BASE, **change})
    assert isinstance(found, Unknown)
    assert found.reason is UnknownReason.UNPARSABLE


def test_its_own_node_counts_too() -> None:
    found = parse_leader_status({**BASE, "self": {"selfplay_jobs": 2}})
    assert isinstance(found, Known)
    assert [(p.node, p.jobs) for p in found.value.peers] == [("a", 2)]


def test_a_url_is_shown_without_its_login() -> None:
    assert without_login("http://u:p@h:80/x?token=1") == "http://h:80/x"
