"""stale-rendezvous through the engine on a real etcd: cleared once wherever it is killed, a living run never touched."""

import json
import os
import shlex
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from deployments.cli import restore
from deployments.cli import run as run_online
from deployments.ports import free_port
from deployments.processes import stop
from flows import store
from flows.engine.approval import answer_run
from flows.engine.lock import lock_all, release
from runbooks.core.halted import NAME
from runbooks.core.plan import Plan, Step
from runbooks.rendezvous.parsers.etcd_v2 import store_name
from tests.faults.real import AFTER_A_STEP, RealWorld, killed_at, outcome
from tests.faults.test_worker import ended, start_worker, wait_until
from tests.runbooks.rendezvous.test_decoder import real_state
from tests.support.arguments import sample
from tests.support.engine_rig import Rig
from tests.support.etcd import Etcd, real_etcd
from tests.support.freezing import frozen
from tests.support.gpu_node import state, wait_state
from tests.support.printed import by_hand
from tests.support.torchrun import Agents, alone_on_this_machine, pair
from tests.support.waiting import until
from tests.tasks.rendezvous.test_etcd_acts import dead_run, many_keys
from tests.tasks.rendezvous.test_old_agent import listens, orphaned_agent

KEYS = 4  # of one dead run
BEAT = 0.1


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[Etcd]:
    """A server of its own (an act on it that nobody saw succeed makes the next one ask) with one dead run that is asked
    about, and one that is nobody's business."""
    folder = tmp_path / "etcd"
    folder.mkdir()
    with real_etcd(folder) as server:
        dead_run(server, "job")
        dead_run(server, "other")
        yield server


def shown(w: RealWorld) -> str:
    """What decides, of the newest report."""
    r = w.report()
    return json.dumps([r["headline"], r["guards"], r["acts"], r["diagnosis"]["causes"]], indent=1)


def clear_by_hand(etcd: Etcd) -> None:
    """Every key of `job`."""
    for key in of_job(etcd):
        etcd.call("DELETE", f"/v2/keys{key}")


def world(
    rig: Rig, folder: Path, etcd: Etcd, target: str = "t/job", reports: str | None = "out", **more: Any
) -> RealWorld:
    """The runbook on `t/job`, where dead runs may be cleared by themselves and a dead etcd started."""
    place = {"name": "t", "backends": ["etcd-v2", "etcd"], "endpoints": [etcd.url], "nodes": ["local"]}
    fleet: dict[str, Any] = {
        "nodes": [{"name": "local", "local": True}],
        "rendezvous": [place | {"keep_alive_s": BEAT, "contained": True} | more],
        "limits": {"stale-rendezvous": {"fsync_p99_s": 60}},  # the disk is shared with other tests
    } | ({"reports": {"folder": str(folder / reports)}} if reports else {})
    return RealWorld(rig, folder, "stale-rendezvous", target, fleet, ("continue-processes", "delete-run-keys", "start-etcd"))


def of_job(etcd: Etcd) -> list[str]:
    """The run's keys that are there."""
    return [k for k in etcd.leaves() if k.endswith("/job") or (store_name(k) or "").startswith("torch.rendezvous.job.")]


@contextmanager
def beating(etcd: Etcd, run: str) -> Iterator[None]:
    """An agent of another machine: all that is seen of it here is its heartbeat."""
    stop = threading.Event()

    def beat() -> None:
        while not stop.wait(BEAT):
            put_state(etcd, run, datetime.now(UTC))

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def put_state(etcd: Etcd, run: str, at: datetime) -> None:
    """One member, `gone` (a name that nothing answers to), in a round that never completed."""
    from torch.distributed.elastic.rendezvous import dynamic_rendezvous as torch_module

    member = torch_module._NodeDesc("localhost", 2**22 + 7, 0)
    text = real_state(4, participants={member: 0}, last_heartbeats={member: at}, wait_list=set())
    etcd.put(f"/torch/elastic/rendezvous/{run}", text, ttl=7200)


@pytest.fixture(autouse=True)
def room_in_the_budget(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """`restore` takes the policy of the environment; all tests' nodes are one machine, and the default's budget is small."""
    monkeypatch.setenv("GPU_RUNBOOKS_POLICY", str(rig.policy))


def test_cleared_by_itself_and_put_back_by_command(
    rig: Rig, tmp_path: Path, etcd: Etcd, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Diagnose changes nothing; auto clears exactly one run; `restore` brings it back through the same engine."""
    before = etcd.leaves()
    w = world(rig, tmp_path, etcd)
    assert outcome(w.run("auto")) == "fixed", w.report()
    assert of_job(etcd) == []
    assert len(etcd.leaves()) == KEYS
    w.check(max_acts=1)
    (file,) = (tmp_path / "out" / "rendezvous").glob("*.json")
    assert str(file) in json.dumps(w.report()["acts"])
    monkeypatch.setattr(run_online, "ready", lambda: "")
    command = [str(file), "--fleet", str(tmp_path / "fleet.yaml"), "--json", "--who", "ana"]
    assert restore.main([*command, "--dry-run"]) == 0
    assert of_job(etcd) == []
    capsys.readouterr()
    assert restore.main(command) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["outcome"] == "fixed"
    assert etcd.leaves() == before
    report = w.report()
    assert (report["permission"]["by"], report["permission"]["who"]) == ("person", "ana")
    assert [a["kinds"] for a in report["acts"]] == [["restore-run-keys"]]
    assert restore.main(command) == 0  # there already: no run, nothing written
    assert len(w.reports()) == 2


def test_what_a_real_worker_saves_outlives_it(
    rig: Rig, tmp_path: Path, etcd: Etcd, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The documented fleet file says nothing of reports, and a worker's process runs in a folder that is then removed: the
    report, its page and the saved keys lie where the run says, and the keys come back by the command that it prints."""
    before = etcd.leaves()
    w = world(rig, tmp_path, etcd, reports=None)
    run = w.run("approve", out=None)
    assert outcome(run) == "waiting"
    relative = tmp_path / "relative"
    monkeypatch.setenv("RELATIVE_LOG", str(relative))
    worker = start_worker(rig)
    try:
        assert answer_run(run, {"decision": "approve", "who": "ana"}) == ""
        wait_until(lambda: ended(run))
    finally:
        stop(worker, limit_s=15)
    assert outcome(run) == "fixed"
    assert of_job(etcd) == []
    assert store.read_run(run).labels["owner.pid"] != str(os.getpid())
    page = Path(str(store.read_run(run).labels["report"]))
    report = json.loads(page.with_suffix(".json").read_text())
    (said,) = [s for a in report["acts"] for s in a["said"] if s.startswith("saved ")]
    file = Path(said.split(" to ")[1].split(" (on ")[0])
    assert file.is_absolute()
    assert page.is_relative_to(rig.home / "state/reports")
    assert file.is_relative_to(rig.home / "state/reports/rendezvous")
    assert not relative.exists() or relative.read_text() == ""
    monkeypatch.setattr(run_online, "ready", lambda: "")
    monkeypatch.chdir(tmp_path)
    assert restore.main([str(file), "--fleet", str(tmp_path / "fleet.yaml"), "--out", str(w.out)]) == 0, (
        capsys.readouterr()
    )
    assert etcd.leaves() == before


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_five_thousand_keys_through_the_engine(
    rig: Rig, tmp_path: Path, etcd: Etcd, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plan, act run, report and restore of a world of thousands of ranks: what can be deleted can be put back."""
    many_keys(etcd, "job", 5_000)
    before = etcd.leaves()
    w = world(rig, tmp_path, etcd)
    run = w.run("approve")
    w.approve(run)
    assert outcome(run) == "fixed", shown(w)
    assert of_job(etcd) == []
    (file,) = (tmp_path / "out" / "rendezvous").glob("*.json")
    monkeypatch.setattr(run_online, "ready", lambda: "")
    assert restore.main([str(file), "--fleet", str(tmp_path / "fleet.yaml"), "--who", "ana"]) == 0
    assert etcd.leaves() == before


def test_restore_obeys_freeze_and_lock(rig: Rig, tmp_path: Path, etcd: Etcd, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody works on that etcd, or everything is frozen: nothing is written."""
    w = world(rig, tmp_path, etcd)
    file = saved_job(etcd, tmp_path)
    monkeypatch.setattr(run_online, "ready", lambda: "")
    command = [str(file), "--fleet", str(tmp_path / "fleet.yaml")]
    owner = f"etcd:127.0.0.1:{etcd.port}"
    step = Step(kind="delete-run-keys", owner=owner, args=sample("delete-run-keys"), commands=(), effect="")
    locks = lock_all(Plan(name="x", steps=(step,), for_causes=("c",)), {"runbook_run": "test"})
    try:
        assert restore.main(command) == 4
    finally:
        release(locks, "only a test")
    assert any("is locked by action run" in g for g in w.report()["guards"])
    with frozen():
        assert restore.main(command) == 4
    assert of_job(etcd) == []


def saved_job(etcd: Etcd, folder: Path) -> Path:
    """The run `job`, saved to a file and deleted."""
    from tests.support.rendezvous import act, context_of, fast, look, place

    context = fast(context_of(place(etcd.url), folder, "t/job"))
    act(look(context)[1].plans[0], context)
    (file,) = (folder / "rendezvous").glob("*.json")
    return file


@pytest.mark.parametrize("point", killed_at("step-done"))
def test_killed_while_clearing(rig: Rig, tmp_path: Path, etcd: Etcd, point: str) -> None:
    """Wherever the run is killed: at most one act, the other run untouched, and in the end the id is free or whole."""
    w = world(rig, tmp_path, etcd)
    w.arm(point)
    w.run("auto")
    assert w.struck()
    w.carry_on()
    w.check(max_acts=1)
    assert len(of_job(etcd)) in (0, KEYS)
    assert len(etcd.leaves()) == len(of_job(etcd)) + KEYS
    if point in AFTER_A_STEP:
        assert of_job(etcd) == []


def test_a_heartbeat_during_approval_saves_the_run(rig: Rig, tmp_path: Path, etcd: Etcd) -> None:
    """A dead run waits for a person; an agent comes back to life; the approval then deletes nothing."""
    put_state(etcd, "job", datetime(2026, 5, 1, tzinfo=UTC))
    w = world(rig, tmp_path, etcd)
    run = w.run("approve")
    assert outcome(run) == "waiting", w.report()
    with beating(etcd, "job"):
        w.approve(run)
        assert len(of_job(etcd)) == KEYS
    report = w.report()
    assert report["acts"] == []
    causes = report["diagnosis"]["causes"]
    assert "heartbeat" in json.dumps(causes) or [c["slug"] for c in causes] == ["still-joining"], causes


@pytest.mark.soak
def test_room_is_made_only_with_approval(rig: Rig, tmp_path: Path) -> None:
    """A real no-space alarm: auto asks, a person says yes, the alarm is off and torch's keys are as they were."""
    with real_etcd(tmp_path, "--quota-backend-bytes=2000000") as server:
        dead_run(server, "job")
        before = server.leaves()
        body = {"key": "eA==", "value": "eHh4" * 25_000}
        while "error" not in server.call("POST", "/v3/kv/put", body=body):
            pass
        w = world(rig, tmp_path, server, target="t")
        run = w.run("auto")
        assert outcome(run) == "waiting", w.report()
        w.approve(run)
        assert outcome(run) == "fixed", w.report()
        assert w.report()["acts"][0]["kinds"] == ["defragment-etcd"]
        assert server.leaves() == before
        assert "error" not in server.call("POST", "/v3/kv/put", body=body)


@pytest.mark.soak
def test_a_dead_etcd_is_started_by_itself_with_its_data(rig: Rig, tmp_path: Path) -> None:
    """Where the policy names it: the configured command, once, and every key is there again."""
    with real_etcd(tmp_path) as server:
        dead_run(server, "job")
        before = server.leaves()
        pid_file, script = tmp_path / "pid", tmp_path / "start.sh"
        argv = shlex.join([str(a) for a in server.process.args])  # type: ignore[union-attr]
        script.write_text(f"setsid {argv} >>{tmp_path}/log2 2>&1 </dev/null & echo $! > {pid_file}\n")
        server.stop()
        start = {"node": "local", "command": ["sh", str(script)], "data_dir": str(tmp_path / "data")}
        w = world(rig, tmp_path, server, target="t", start=start)
        try:
            assert outcome(w.run("auto")) == "fixed", w.report()
            assert server.leaves() == before
            w.check(max_acts=1)
        finally:
            os.kill(int(pid_file.read_text()), signal.SIGKILL)


@contextmanager
def stopped(server: Etcd) -> Iterator[int]:
    """etcd, by SIGSTOP; its pid. It runs afterwards, whatever the test did."""
    assert server.process is not None
    pid = server.process.pid
    os.kill(pid, signal.SIGSTOP)
    wait_state(pid, "T", 60)
    try:
        yield pid
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_stopped_etcd_is_continued_and_keeps_every_key(rig: Rig, tmp_path: Path, etcd: Etcd) -> None:
    """By one approval, although the fleet file has a command that starts etcd. Another stopped etcd stays stopped."""
    before, start = etcd.leaves(), {"node": "local", "command": ["false"]}
    neighbour = tmp_path / "neighbour"
    neighbour.mkdir()
    with real_etcd(neighbour) as other, stopped(other) as beside, stopped(etcd) as pid:
        w = world(rig, tmp_path, etcd, target="t", start=start)
        run = w.run("approve")
        assert outcome(run) == "waiting"
        assert [p["name"] for p in w.report()["diagnosis"]["plans"]] == [NAME]
        w.approve(run)
        assert outcome(run) == "fixed", w.report()
        assert f"pid {pid} runs again" in str(w.report()["acts"])
        assert (etcd.leaves(), state(beside)) == (before, "T")
        w.check(max_acts=1)


def test_one_that_was_continued_meanwhile_is_left_alone(rig: Rig, tmp_path: Path, etcd: Etcd) -> None:
    """Somebody continues it between question and answer; the approved plan is not carried out."""
    with stopped(etcd) as pid:
        w = world(rig, tmp_path, etcd, target="t")
        run = w.run("approve")
        assert outcome(run) == "waiting"
        os.kill(pid, signal.SIGCONT)
        until(etcd.healthy, 120, "an etcd that answers")
        w.approve(run)
        assert w.report()["acts"] == []
        assert "etcd-stuck" not in str(w.report()["diagnosis"]["causes"])
        w.carry_on()


def test_what_is_printed_continues_a_stopped_etcd(rig: Rig, tmp_path: Path, etcd: Etcd) -> None:
    before = etcd.leaves()
    with stopped(etcd):
        w = world(rig, tmp_path, etcd, target="t")
        assert outcome(w.run("diagnose")) == "sick"
        (plan,) = w.report()["diagnosis"]["plans"]
        done = by_hand(Plan.model_validate(plan).steps)
        assert done.returncode == 0, done.stderr
        until(etcd.healthy, 120, "an etcd that answers")
        assert etcd.leaves() == before


def as_a_person(rig: Rig, folder: Path) -> dict[str, str]:
    """The environment of a person who has the program, and whose fleet and policy files are those of the test."""
    files = {"GPU_RUNBOOKS_FLEET": str(folder / "fleet.yaml"), "GPU_RUNBOOKS_POLICY": str(folder / "policy.yaml")}
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return files | {"PATH": path, "GPU_RUNBOOKS_HOME": str(rig.home / "state")}


def test_what_is_printed_puts_a_run_back(rig: Rig, tmp_path: Path, etcd: Etcd) -> None:
    """The command of the question, pasted into a shell; the file lies in a folder with a blank in its name."""
    before = etcd.leaves()
    w = world(rig, tmp_path, etcd, reports="kept by us")
    assert outcome(w.run("auto")) == "fixed", {k: w.report()[k] for k in ("guards", "acts", "timeline", "diagnosis")}
    (file,) = (tmp_path / "kept by us" / "rendezvous").glob("*.json")
    asked = w.run("approve", options={"restore": str(file)})
    assert outcome(asked) == "waiting"
    plan = Plan.model_validate(w.report()["diagnosis"]["plans"][0])
    assert [s.kind for s in plan.steps] == ["restore-run-keys"]
    assert answer_run(asked, {"decision": "reject", "who": "ana"}) == ""
    w.work()
    assert of_job(etcd) == []
    done = by_hand(plan.steps, env=as_a_person(rig, tmp_path))
    assert done.returncode == 0, (plan.steps[0].commands, done.stderr)
    assert etcd.leaves() == before


def test_what_is_printed_probes_and_clears_what_the_probe_left(rig: Rig, tmp_path: Path, etcd: Etcd) -> None:
    """The probe closes its round as every clean end does: the next start would fail, if its keys were not cleared, too."""
    value = etcd.call("GET", "/v2/keys/torch/elastic/rendezvous/job")["node"]["value"]
    (tmp_path / "state").write_text(value)
    script = tmp_path / "probe.sh"
    script.write_text(
        f'curl -sSf "$1/v2/keys/torch/elastic/rendezvous/$2" -X PUT --data-urlencode "value@{tmp_path}/state" >/dev/null'
        f" && echo world 2 rank 0 | tee -a {tmp_path}/said\n"
    )
    probe = {"command": ["sh", str(script), "{endpoint}", "{run}"], "nodes": ["local"], "expect": r"world 2 rank \d"}
    w = world(rig, tmp_path, etcd, probe=probe)
    run = w.run("approve")
    assert outcome(run) == "waiting", w.report()
    plan = Plan.model_validate(w.report()["diagnosis"]["plans"][0])
    assert [s.kind for s in plan.steps] == ["delete-run-keys", "probe-rendezvous"]
    assert answer_run(run, {"decision": "reject", "who": "ana"}) == ""
    w.work()
    done = by_hand(plan.steps, env=as_a_person(rig, tmp_path))
    assert (tmp_path / "said").read_text() == "world 2 rank 0\n", (plan.steps[1].commands, done.stderr)
    assert len(of_job(etcd)) == 1, "what a clean end leaves"
    assert done.returncode == 1, done.stdout + done.stderr
    (waits,) = [str(r.id) for r in store.find_runs([store.RUNBOOK_TAG]) if r.state and r.state.is_paused() and str(r.id) in done.stdout]
    assert answer_run(waits, {"decision": "approve", "who": "ana"}) == ""
    wait_until(lambda: ended(waits))
    assert outcome(waits) == "fixed", shown(w)
    assert of_job(etcd) == []
    assert len(etcd.leaves()) == KEYS


@pytest.mark.soak
@pytest.mark.parametrize(("says", "ends"), [("world 2 rank 0", "fixed"), ("hangs", "not-fixed")])
def test_a_probe_run_proves_what_was_cleared(rig: Rig, tmp_path: Path, etcd: Etcd, says: str, ends: str) -> None:
    """The command runs in the same act after the deletion; where it forms no world, the run is not called fixed."""
    probe = {"command": ["echo", says], "nodes": ["local"], "expect": r"world 2 rank \d"}
    w = world(rig, tmp_path, etcd, probe=probe)
    run = w.run("approve")
    assert outcome(run) == "waiting", w.report()
    w.approve(run)
    assert outcome(run) == ends, shown(w)
    assert w.report()["acts"][0]["kinds"] == ["delete-run-keys", "probe-rendezvous"]
    assert of_job(etcd) == []
    assert len(etcd.leaves()) == KEYS


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_an_old_agent_that_holds_the_port_is_ended_once_a_person_said_so(rig: Rig, tmp_path: Path) -> None:
    """A real one, two seconds past its time (the limit is set so): by pid, start and command; the port is free."""
    port = free_port()
    place = {"name": "t", "backends": ["c10d"], "endpoints": ["127.0.0.1:1"], "nodes": ["local"], "port": port}
    fleet = {
        "nodes": [{"name": "local", "local": True}],
        "rendezvous": [place | {"contained": True}],
        "limits": {"stale-rendezvous": {"old_agent_age_s": -598}},
        "reports": {"folder": str(tmp_path / "out")},
    }
    w = RealWorld(rig, tmp_path, "stale-rendezvous", "t/job1", fleet, ("terminate-processes",))
    with alone_on_this_machine():
        pid = orphaned_agent(Agents(tmp_path), port, tmp_path)
        try:
            until(lambda: age_of(pid) > 3, 60, "an agent that waits too long")
            run = w.run("approve", options={"symptom": "RuntimeError: Address already in use"})
            assert outcome(run) == "waiting", w.report()
            w.approve(run)
            assert outcome(run) == "fixed", w.report()
            assert w.report()["acts"][0]["kinds"] == ["terminate-processes"]
            assert not listens(port)
        finally:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def age_of(pid: int) -> float:
    """Seconds since that process began."""
    ticks = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19])
    return float(Path("/proc/uptime").read_text().split()[0]) - ticks / os.sysconf("SC_CLK_TCK")


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("mode", ["auto", *(pytest.param(m, marks=pytest.mark.soak) for m in ("diagnose", "approve"))])
def test_real_torchrun_lives_and_the_dead_are_cleared(rig: Rig, tmp_path: Path, etcd: Etcd, mode: str) -> None:
    """The runbook on a training run changes nothing in any mode; a finished run is cleared and its id starts again."""
    end, beat = f"127.0.0.1:{etcd.port}", ",keep_alive_interval=1"
    w = world(rig, tmp_path, etcd, keep_alive_s=1)
    with alone_on_this_machine():
        agents = Agents(tmp_path)
        try:
            pair(agents, end, "live", 100_000, "live", beat)
            clear_by_hand(etcd)
            pair(agents, end, "job", 1, "first", beat)
            assert [a.wait(60) for a in agents.started[2:]] == [0, 0]
            run = w.run(mode, target="t/live")
            assert outcome(run) == "healthy", w.report()
            assert [c["slug"] for c in w.report()["diagnosis"]["causes"]] == ["live-run"]
            finished = w.run(mode, target="t/job")
            if mode == "approve":
                w.approve(finished)
            assert (of_job(etcd) == []) == (mode != "diagnose"), shown(w)
            assert len(w.acts()) == (mode != "diagnose")
            assert all(a.poll() is None for a in agents.started[:2]), "the living run died"
            if mode != "diagnose":
                pair(agents, end, "job", 1, "again", beat)
        finally:
            agents.stop()
