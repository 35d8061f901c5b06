"""Each reading is a task run in Prefect: its name, its outcome, the look that it belongs to. Prefect gets none of the values."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from prefect import flow, task
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId
from prefect.client.schemas.objects import StateType, TaskRun

from flows import store
from flows.engine.run import current_run_id
from flows.reaper import sweep
from runbooks.core.reading import NOT_RECORDED, Absent, Known, Source, Unknown, UnknownReason
from tasks import task_run
from tasks.diagnostic import ReaderPool, diagnostic, in_detail, shown
from tasks.transport.base import TransportError
from tests.support.engine_rig import REPO, Rig, kill_and_wait
from tests.support.freezing import frozen
from tests.support.waiting import until_answered

SECRET = "hf_" + "aQ7" * 12
READ = Known[int](value=7, source=Source(command="dmesg", host="n"))
DENIED = Unknown(reason=UnknownReason.DENIED, detail=f"only root reads it, {SECRET}")
NONE = Absent(proof="no GPU here")
ENDS: dict[str, tuple[Any, str, StateType, str]] = {
    "a value": (READ, "Read", StateType.COMPLETED, "dmesg"),
    "none": (NONE, "Absent", StateType.COMPLETED, "no GPU here"),
    "unread": (DENIED, "Unknown: denied", StateType.CRASHED, "only root reads it, <secret"),
    "one of two": ((READ, NOT_RECORDED, DENIED), "Unknown: denied", StateType.CRASHED, "only root reads it"),
    "not asked": (NOT_RECORDED, "Read", StateType.COMPLETED, ""),
    "one none": ((READ, NONE), "Read", StateType.COMPLETED, "dmesg"),
    "plain": ("text", "Read", StateType.COMPLETED, ""),
    "no answer": (TransportError(UnknownReason.TIMED_OUT, f"60 s, {SECRET}"), "Unknown: timed out", StateType.CRASHED, "60 s, <secret"),
    "a fault": (ValueError(f"odd {SECRET}"), "Failed", StateType.FAILED, "ValueError: odd <secret"),
}


@diagnostic("{what} {{of n}} · {node}")
def reading(what: str, node: str = "n") -> Any:
    end = ENDS[what][0]
    if isinstance(end, Exception):
        raise end
    return end


def tasks_of(run: str, count: int) -> list[TaskRun]:
    """The run's task runs, once so many have ended: they reach the server a moment later."""
    mine = FlowRunFilter(id=FlowRunFilterId(any_=[run]))

    def ended() -> list[TaskRun]:
        found = store.ask(lambda c: c.read_task_runs(flow_run_filter=mine))
        return found if len(found) >= count and all(t.state and t.state.is_final() for t in found) else []

    found: list[TaskRun] = until_answered(ended, 20)
    return found


def test_a_reading_is_a_task_that_says_how_it_ended(rig: Rig) -> None:
    got: dict[str, Any] = {}

    @flow
    def own() -> str:
        for what in ENDS:
            try:
                got[what] = reading(what)
            except (TransportError, ValueError) as e:
                got[what] = e
        return current_run_id()

    run = own()
    assert got == {what: end for what, (end, *_) in ENDS.items()}, "as without Prefect, whatever the state is"
    found = {t.name: t for t in tasks_of(run, len(ENDS))}
    assert set(found) == {f"{what} {{of n}} · n" for what in ENDS}
    for what, (_, name, kind, said) in ENDS.items():
        one = found[f"{what} {{of n}} · n"]
        assert one.state is not None
        assert (one.state.name, one.state.type) == (name, kind), what
        assert said in str(one.state.message), what
        assert SECRET not in str(one.state.message)
        assert one.state.data is None or "dmesg" not in str(one.state.data)
        assert "diagnostic" in one.tags


def test_the_log_has_what_was_read_once_and_no_error_for_what_was_not(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    @flow
    def own() -> None:
        reading("a value")
        reading("unread")

    own()
    lines = [(r.getMessage(), r.levelname) for r in caplog.records if r.name.startswith(("tasks", "prefect.task"))]
    assert lines == [("Read: dmesg", "INFO"), (lines[1][0], "INFO")]
    assert lines[1][0].startswith("Unknown: denied: only root reads it, <secret")


def test_within_another_task_and_outside_a_run_it_is_called_as_it_is(rig: Rig) -> None:
    @task
    def node() -> None:
        assert reading("a value") == READ

    @diagnostic("both")
    def both() -> Any:
        return reading("a value"), reading("none")

    @flow
    def own() -> str:
        node()
        assert both() == (READ, NONE)
        return current_run_id()

    assert reading("a value") == READ
    assert {t.name.partition("-")[0] for t in tasks_of(own(), 2)} == {"node", "both"}


def test_in_detail_a_tasks_own_readings_are_task_runs(rig: Rig) -> None:
    """And not what these read in turn, nor what another task reads."""

    @diagnostic("both")
    def both() -> Any:
        return reading("a value"), reading("none")

    @task
    def node(name: str) -> None:
        with in_detail(name):
            assert both() == (READ, NONE)
            with ReaderPool(2) as pool:
                assert list(pool.map(reading, ["none"] * 2, "xy")) == [NONE] * 2
        assert reading("a value") == READ

    @task
    def plain() -> None:
        assert reading("a value") == READ

    @flow
    def own() -> str:
        node("n7")
        plain()
        return current_run_id()

    found = tasks_of(own(), 5)
    assert {t.name.partition("-")[0] for t in found} == {"node", "plain", "both", "none {of n} · x", "none {of n} · y"}
    assert {tuple(sorted(t.tags)) for t in found if t.name.startswith(("both", "none"))} == {("diagnostic", "n7")}


@pytest.mark.parametrize("detail", [False, True])
def test_a_node_of_the_nightly_is_one_task_unless_its_readings_are_asked_for(detail: bool, rig: Rig, tmp_path: Path) -> None:
    w, id_file = rig.world(), tmp_path / "id"
    files = {"fleet": str(w.fleet), "out": str(tmp_path / "reports")}
    rig.wait(rig.start({"do": "run", "slug": "nightly", "parameters": files | {"detail": detail}, "id_file": str(id_file)}))
    run = id_file.read_text()

    def read_of_the_toy() -> list[TaskRun]:
        return [t for t in tasks_of(run, 1) if t.name == f"toy world · {w.name}"]

    if detail:
        until_answered(read_of_the_toy, 20)
    found = {t.name: set(t.tags) for t in tasks_of(run, 1)}
    assert found.pop(f"check {w.name}") == set()
    assert set(map(frozenset, found.values())) == ({frozenset({"diagnostic", w.name})} if detail else set())


def test_readings_in_threads_belong_to_the_run(rig: Rig) -> None:
    @flow
    def own() -> str:
        with ReaderPool(4) as pool:
            assert list(pool.map(reading, ["a value"] * 8, map(str, range(8)))) == [READ] * 8
        return current_run_id()

    assert {t.name for t in tasks_of(own(), 8)} == {f"a value {{of n}} · {n}" for n in range(8)}


def test_outside_a_run_prefect_is_not_even_imported() -> None:
    code = """
import sys
from tasks.container.watch_record import read_before
from tasks.context import utc_now
print(read_before("n", "c", utc_now(), 60).kind, "prefect" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=REPO, env=os.environ)
    assert done.stdout.split() == ["absent", "False"], done.stderr


READ_AND_JUDGED = ["toy world", "judge"]
CARRIED_OUT = ["lock", *READ_AND_JUDGED, "decision", "action on", *READ_AND_JUDGED]
FIRST, BEFORE, PROOF = "first look", "right before the action", "proof"


@pytest.mark.parametrize(
    ("mode", "graph", "looks"),
    [("diagnose", [*READ_AND_JUDGED, "decision", "report"], [FIRST]),
     ("auto", [*READ_AND_JUDGED, "decision", *CARRIED_OUT, "report"], [FIRST, BEFORE, PROOF])],
)  # fmt: skip
def test_the_graph_of_a_run_reads_like_its_timeline(mode: str, graph: list[str], looks: list[str], rig: Rig) -> None:
    w = rig.world()
    run = w.run(mode)
    found = sorted(tasks_of(run, len(graph)), key=lambda t: str(t.start_time))
    assert [t.name.partition(f" {w.name}")[0].removesuffix(" ·") for t in found] == graph
    readings = [t for t in found if "diagnostic" in t.tags]
    assert [(set(t.tags) & {FIRST, BEFORE, PROOF}) for t in readings] == [{look} for look in looks]
    said = {t.name.partition(" ")[0]: (t.state.name, str(t.state.message)) for t in found if t.state}
    assert said["decision"][0] == {"diagnose": "Nothing to do", "auto": "Act"}[mode]
    if mode == "auto":
        (act,) = w.acts()
        assert said["lock"] == ("Locked", str(act.id))
        assert said["action"][0] == "Done"
        assert str(act.id) in said["action"][1]
        (step,) = tasks_of(str(act.id), 1)
        assert (step.name, step.tags) == (f"toy-fix · {w.name}", ["remediation"])
        assert step.state is not None
        assert step.state.name == "Done"
        assert act.parent_task_run_id is None, "Prefect would cancel it while a step is at work"


def test_a_guards_no_stands_in_the_graph_with_its_code(rig: Rig) -> None:
    w = rig.world()
    with frozen():
        run = w.run("auto")
    (found,) = (t for t in tasks_of(run, 4) if t.name == "decision")
    assert found.state is not None
    assert (found.state.name, found.state.type) == ("Refused: frozen", StateType.FAILED)


def test_no_answer_of_the_server_is_waited_for(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that has begun has to start within seconds, whatever the server does: Prefect asks it for the limits of each tag."""
    asked: list[str] = []
    got: list[Any] = []

    @flow
    def own() -> None:
        for client in (httpx.Client, httpx.AsyncClient):
            monkeypatch.setattr(client, "send", lambda _self, request, **_more: asked.append(request.url.path))
        try:
            got.append(reading("a value"))
        finally:
            monkeypatch.undo()

    own()
    assert got == [READ]
    assert [path for path in asked if "logs" not in path] == []


def test_what_prefect_cannot_show_is_done_once_all_the_same(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    calls = []

    def call() -> int:
        calls.append(1)
        return 5

    @flow
    def own() -> int:
        return shown("it", "diagnostic", call)

    monkeypatch.setattr(task_run, "_task", lambda: None)
    assert own() == 5
    assert calls == [1]
    assert "it is not shown as a task run: AttributeError" in caplog.text


def test_what_was_being_read_when_the_run_was_killed_ends_with_it(rig: Rig, nothing_left: None) -> None:
    fifo = rig.home / "never"
    os.mkfifo(fifo)
    w = rig.world(log=str(fifo))
    pid, id_file = w.start_run("diagnose")
    run = str(until_answered(lambda: id_file.exists() and id_file.read_text(), 20))
    mine = FlowRunFilter(id=FlowRunFilterId(any_=[run]))

    def reading_now() -> list[TaskRun]:
        return [t for t in store.ask(lambda c: c.read_task_runs(flow_run_filter=mine)) if t.state and t.state.is_running()]

    until_answered(reading_now, 20)
    kill_and_wait(pid)
    rig.wait(pid)
    os.close(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK))  # its command reads no longer
    sweep()
    (one,) = store.ask(lambda c: c.read_task_runs(flow_run_filter=mine))
    assert one.state is not None
    assert (one.state.type, one.state.message) == (StateType.CRASHED, "its process is gone")



def test_the_printed_flow_of_a_users_own(rig: Rig, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (text,) = re.findall(r"^```python\n(.*?)^```$", (REPO / "deployments/README.md").read_text(encoding="utf-8"), re.M | re.S)
    (tmp_path / "own_flow.py").write_text(text, encoding="utf-8")
    own = runpy.run_path(str(tmp_path / "own_flow.py"))["before_a_job"]
    w = rig.world()
    state = own(w.name, str(w.fleet), return_state=True)
    assert state.is_completed()
    found = {t.name for t in tasks_of(str(state.state_details.flow_run_id), 2)}
    assert found == {f"kernel log · {w.name}", f"limits, disks, clock and names · {w.name}"}
    assert "Gauge(" in caplog.text
