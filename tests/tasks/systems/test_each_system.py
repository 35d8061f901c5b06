"""Every system that a fleet file names is tried, side by side and for a bounded time; each fault says how it is put right."""

import json
import time
from asyncio import CancelledError
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
import yaml

from deployments.doctor.fleet import check_fleet
from deployments.lab.leader import LabLeader
from deployments.ports import free_port
from runbooks.core.fleet import Fleet
from runbooks.core.nightly import CheckState, NightlyReport, SystemCheck
from runbooks.core.nightly_table import nightly_table
from runbooks.core.outcome import Outcome
from runbooks.core.render_nightly import nightly_headline, render_nightly
from runbooks.notify.nightly import message_of_nightly
from tasks.systems.answers import begin_here
from tasks.systems.from_node import begin_node
from tasks.systems.trying import Try, begin_all, check_of
from tasks.transport.local import LocalHost
from tests.core.nights import night, result
from tests.deployments.test_cli import call
from tests.support.silent_servers import hanging, serving

NODE = {"name": "n", "local": True}
ETCD = {"/health": '{"health":"true"}', "/version": '{"etcdserver":"3.5.9"}', "/v3/maintenance/alarm": "{}"}


def fleet(**sections: Any) -> Fleet:
    return Fleet.model_validate({"nodes": [NODE], **sections})


def paged(pages: dict[str, str], status: int = 200) -> AbstractContextManager[str]:
    """A server that answers by path; anything else is 404."""

    def answer(path: str) -> tuple[int, bytes]:
        page = next((text for start, text in pages.items() if path.startswith(start)), None)
        return (404, b"") if page is None else (status, page.encode())

    return serving(answer)


def asked(whole: Fleet) -> dict[str, SystemCheck]:
    """By name, from here and from the node; every fault says how it is put right."""
    found = (*begin_here(whole)(), *begin_node(whole, "n", LocalHost("n"))[1]())
    assert all(c.fix for c in found if c.state is CheckState.FAULT), found
    return {c.name: c for c in found}


def keys(store: str) -> dict[str, str]:
    """What a client of that store finds in its environment."""
    return {"AWS_ENDPOINT_URL_S3": store, "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_DEFAULT_REGION": "us-east-1"}


def dead() -> str:
    return f"127.0.0.1:{free_port()}"


def test_what_is_dead_is_told_with_its_fix(tmp_path: Path) -> None:
    """As the doctor says it, from its command: none of these needs an orchestrator."""
    sections = {
        "nodes": [NODE],
        "systems": [{"name": "registry", "url": f"tcp://{dead()}"}, {"name": "web", "url": f"http://{dead()}/"}],
        "leader": {"url": f"http://{dead()}"},
        "rendezvous": [{"name": "main", "endpoints": [f"http://{dead()}", f"http://{dead()}/b"], "nodes": ["n"]}],
        "ray": {"head": "n", "dashboard": f"http://{dead()}"},
        "checkpoints": {"tiers": [{"name": "bucket", "kind": "s3", "bucket": "ckpt", "endpoint": f"http://{dead()}"}]},
        "reports": {"s3": "s3://nobody-has-it/reports"},
    }
    path = tmp_path / "fleet.yaml"
    path.write_text(yaml.safe_dump(sections))
    done = call("doctor", "--fleet", str(path), "--json", GPU_RUNBOOKS_HOME=str(tmp_path / "home"), **keys(f"http://{dead()}"))
    assert done.returncode == 1
    faults = [c for c in json.loads(done.stdout) if c["state"] == "FAULT"]
    names = [c["name"] for c in faults]
    here, behind = ["registry", "web", "leader", "checkpoint tier bucket", "reports.s3"], ["ray", "rendezvous main", "rendezvous main"]
    assert names == [*here, *behind], faults
    assert all(c["fix"] for c in faults)
    assert "gpu-runbooks run stale-rendezvous main" in faults[-1]["fix"]


def test_what_is_well_is_told_too() -> None:
    version = {"/api/version": '{"ray_version": "2.9.0"}'}
    with paged({}) as page, LabLeader() as leader, paged(ETCD) as etcd, paged(version) as ray:
        listed = {"/ckpt": "<ListBucketResult><KeyCount>0</KeyCount></ListBucketResult>"}
        with paged(listed) as store, pytest.MonkeyPatch.context() as m:
            for name, value in keys(store).items():
                m.setenv(name, value)
            found = asked(fleet(
                systems=[{"name": "web", "url": page}, {"name": "tcp", "url": page.replace("http", "tcp")}],
                leader={"url": leader.url},
                rendezvous=[{"name": "main", "endpoints": [etcd], "nodes": ["n"]}],
                ray={"head": "n", "dashboard": ray},
                checkpoints={"tiers": [{"name": "bucket", "kind": "s3", "bucket": "ckpt", "endpoint": store}]},
                reports={"s3": "s3://ckpt/reports"},
            ))  # fmt: skip
    assert {n: str(c.state) for n, c in found.items() if c.state is not CheckState.OK} == {}, found
    assert sorted(found) == ["checkpoint tier bucket", "leader", "ray", "rendezvous main", "reports.s3", "tcp", "web"]
    assert "etcd 3.5.9" in found["rendezvous main"].detail
    assert "Ray 2.9.0" in found["ray"].detail


@pytest.mark.parametrize(
    ("code", "status", "state", "fix"),
    [
        ("NoSuchBucket", 404, "FAULT", "correct reports.s3 in the fleet file, or have its owner create the bucket"),
        ("InvalidAccessKeyId", 403, "FAULT", "Correct the pair where it comes from."),
        ("AccessDenied", 403, "note", "s3:PutObject below s3://gone/reports is enough"),
    ],
)
def test_what_a_store_answers_is_told_apart(code: str, status: int, state: str, fix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with paged({"/": f"<Error><Code>{code}</Code><Message>said so</Message></Error>"}, status) as store:
        for name, value in keys(store).items():
            monkeypatch.setenv(name, value)
        found = asked(fleet(reports={"s3": "s3://gone/reports"}))["reports.s3"]
    assert (found.state, found.fix, found.reachable) == (state, fix, True)
    assert found.detail.startswith(f"s3://gone/reports: {code}: said so")


def test_a_leader_that_answers_is_not_yet_well(monkeypatch: pytest.MonkeyPatch) -> None:
    with LabLeader(token="right-token-of-the-leader") as leader:
        without = asked(fleet(leader={"url": leader.url}))["leader"]
        monkeypatch.setenv("LEADER_TOKEN", "wrong-token-of-the-leader")
        wrong = asked(fleet(leader={"url": leader.url, "token_env": "LEADER_TOKEN"}))["leader"]
        monkeypatch.setenv("LEADER_TOKEN", "right-token-of-the-leader")
        right = asked(fleet(leader={"url": leader.url, "token_env": "LEADER_TOKEN"}))["leader"]
    assert (without.state, without.fix) == ("FAULT", "give leader.token_env in the fleet file")
    assert (wrong.state, wrong.reachable) == ("FAULT", True)
    assert wrong.fix.startswith("set environment variable LEADER_TOKEN")
    assert right.state is CheckState.OK
    with LabLeader(leader_id="another") as follower:
        found = asked(fleet(leader={"url": follower.url}))["leader"]
    assert (found.state, found.detail) == ("note", "answers, but the leader is another")


@pytest.mark.parametrize(
    ("health", "alarm", "says"),
    [('{"health":"false"}', "{}", "not healthy"), ('{"health":"true"}', '{"alarms":[{"alarm":"NOSPACE"}]}', "alarms NOSPACE")],
)
def test_an_etcd_that_answers_is_not_yet_well(health: str, alarm: str, says: str) -> None:
    with paged(ETCD | {"/health": health, "/v3/maintenance/alarm": alarm}) as etcd:
        found = asked(fleet(rendezvous=[{"name": "main", "endpoints": [etcd], "nodes": ["n"]}]))["rendezvous main"]
    assert (found.state, found.reachable) == ("FAULT", True)
    assert says in found.detail


@pytest.mark.parametrize(
    ("endpoint", "state", "says"),
    [
        ("", "note", "nobody listens"),  # at a port of ours that is free
        ("no-such-host.invalid:29500", "FAULT", "cannot be resolved"),
        ("no-such-host.invalid", "FAULT", ":29400"),
        ("[::1]", "note", "[::1]:29400"),
    ],
)
def test_a_c10d_store_is_there_only_while_a_job_runs(endpoint: str, state: str, says: str) -> None:
    place = {"name": "p2p", "backends": ["c10d"], "endpoints": [endpoint or dead()], "nodes": ["n"]}
    found = asked(fleet(rendezvous=[place]))["rendezvous p2p"]
    assert found.state == state
    assert says in found.detail


def test_what_hangs_holds_up_nobody() -> None:
    """Ten that take the connection and say nothing, three seconds each, beside one that answers."""
    with hanging() as silent, paged({}) as page:
        names = [{"name": f"s{i}", "url": silent, "timeout_s": 3} for i in range(10)]
        began = time.monotonic()
        found = begin_here(fleet(systems=[*names, {"name": "web", "url": page}]))()
        took = time.monotonic() - began
    assert [c.name for c in found if c.wrong] == [f"s{i}" for i in range(10)]
    assert not any(c.reachable for c in found[:10])
    assert took < 15, "one after the other these are 30 s"


def test_a_client_without_an_end_is_not_waited_for_and_what_it_said_is_kept() -> None:
    def sleeps() -> Iterator[SystemCheck]:
        yield check_of("key", "ok", "a pair")
        time.sleep(40)

    began = time.monotonic()
    tries = [Try("slow", "http://slow", sleeps, "wake it"), Try("well", "", lambda: (check_of("well", "ok", "is well"),), "")]
    said, slow, well = begin_all(tries, bound_s=0.5)()
    assert time.monotonic() - began < 20
    assert (slow.state, slow.reachable, slow.detail, slow.fix) == ("FAULT", False, "no answer within 0.5 s", "wake it")
    assert (said.name, said.detail) == ("key", "a pair")
    assert well.state is CheckState.OK


def test_what_is_asked_from_a_node_holds_up_no_runbook_there() -> None:
    """The look at the node is over while a dashboard on it says nothing; what that says is waited for later."""
    with hanging() as silent:
        began = time.monotonic()
        look, later = begin_node(fleet(ray={"head": "n", "dashboard": silent}), "n", LocalHost("n"))
        took = time.monotonic() - began
    assert look.blind is None
    assert took < 7.5, "curl waits 8 s for it"
    (ray,) = later()
    assert (ray.state, ray.reachable) == ("FAULT", False)


@pytest.mark.parametrize("error", [ZeroDivisionError, CancelledError])
def test_a_client_that_breaks_is_a_fault_and_breaks_nothing_else(error: type[BaseException]) -> None:
    at = "http://user:hunter22hunter@odd/"

    def breaks() -> Iterator[SystemCheck]:
        yield check_of("key", "ok", f"for {at}")
        raise error("of its own")

    said, found = begin_all([Try("odd", at, breaks, f"see that {at} runs")])()
    assert (said.name, said.state) == ("key", "ok"), "what it said before is kept"
    assert (found.state, found.detail) == ("FAULT", f"{error.__name__}: of its own")
    assert found.fix.endswith("@odd/ runs")
    assert "hunter22hunter" not in said.model_dump_json() + found.model_dump_json()


def test_behind_a_node_that_is_shut_nothing_is_asked() -> None:
    shut = {"name": "n", "host": "127.0.0.1", "port": free_port(), "user": "root", "key": {"agent": True}}
    sections = {"ray": {"head": "n"}, "rendezvous": [{"name": "main", "endpoints": ["http://127.0.0.1:1"], "nodes": ["n"]}]}
    found = {c.name: c for c in check_fleet(Fleet.model_validate({"nodes": [shut], **sections}))}
    assert found["node n"].state == "FAULT"
    for name in ("ray", "rendezvous main"):
        assert (found[name].state, found[name].says) == ("FAULT", "not tried: it is asked from n, which cannot be entered")
        assert found[name].fix == found["node n"].fix


@pytest.mark.parametrize(("trigger", "asked_for"), [("nightly", ["ray"]), ("sweep", [])])
def test_a_sweep_of_every_few_minutes_asks_no_system(trigger: str, asked_for: list[str], tmp_path: Path) -> None:
    from flows.sweep.sweeping import Sweep, _first
    from tasks.transport.open import HostPool

    whole = fleet(ray={"head": "n", "dashboard": f"http://{dead()}"})
    with HostPool() as pool:
        look, later = _first(Sweep(whole, ("zombie-gpu",), tmp_path, "r", trigger), whole.node("n"), pool)
        assert (look.node, [s.name for s in later()]) == ("n", asked_for)
    named = fleet(systems=[{"name": "web", "url": f"http://{dead()}"}], leader={"url": f"http://{dead()}"})
    assert [s.name for s in begin_here(named, named_only=True)()] == ["web"]


def nightly_of(*systems: SystemCheck) -> NightlyReport:
    return night(1, result("a"), systems=systems)


def test_a_nightly_tells_what_is_silent_what_is_wrong_and_how_it_is_put_right() -> None:
    silent = check_of("leader", "FAULT", "refused", "start it", silent=True)
    wrong = check_of("reports.s3", "FAULT", "NoSuchBucket", "make the bucket")
    report = nightly_of(silent, wrong, check_of("ray", "ok", "Ray 2.9.0"), check_of("p2p", "note", "nobody listens"))
    assert report.outcome is Outcome.CANNOT_TELL
    assert nightly_of(wrong).outcome is Outcome.CANNOT_TELL
    assert nightly_of(check_of("ray", "ok", "x"), check_of("p2p", "note", "y")).outcome is Outcome.HEALTHY
    assert nightly_headline(report).endswith("; no answer from leader; at fault: reports.s3")
    page = render_nightly(report)
    assert "| leader | NO | refused (0.0 s); fix: start it |" in page
    assert "| reports.s3 | yes, at fault | NoSuchBucket (0.0 s); fix: make the bucket |" in page
    assert "nobody listens" not in page, "what works without is no news of a night"
    assert "## Systems" in page
    assert "## Systems" not in render_nightly(nightly_of(check_of("p2p", "note", "nobody listens")))
    table = nightly_table(report)
    assert "refused; fix: start it" in table
    assert "NoSuchBucket; fix: make the bucket" in table
    assert {"leader: no answer", "reports.s3: NoSuchBucket"} <= set(message_of_nightly(report, "x").do_now)
    again = NightlyReport.model_validate_json(report.model_dump_json())
    assert (again.systems, again.outcome) == (report.systems, report.outcome)


def test_a_report_of_an_older_version_is_read() -> None:
    system = {"name": "db", "url": "tcp://x:1", "reachable": False, "detail": "refused", "seconds": 0.1}
    old = nightly_of().model_dump(mode="json") | {"systems": [system]}
    found = NightlyReport.model_validate(old)
    assert found.systems[0].wrong
    assert "no answer from db" in nightly_headline(found)


def test_a_part_of_a_nightly_hands_over_what_its_nodes_were_asked() -> None:
    from flows.sweep.shards import _heard, _row
    from flows.sweep.sweeping import NodeAnswer

    answer = NodeAnswer([result("a")], [], None, (check_of("ray", "ok", "y"),))
    row = json.loads(json.dumps(_row(answer)))
    assert _heard(row) == answer
    del row["systems"], row["look"]
    assert _heard(row).systems == (), "a worker of the release before tells of none"
