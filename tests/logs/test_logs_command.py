"""`gpu-runbooks logs FILE` as a person runs it."""

import json
import os
import random
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from deployments.cli import main as cli
from tests.logs.test_log_lines import CYCLE

FRAME = "2026-03-02 03:09:00,000 - control_loop - INFO - "


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPU_RUNBOOKS_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("GPU_RUNBOOKS_FLEET", raising=False)


def logs(capsys: pytest.CaptureFixture[str], *args: object) -> tuple[int, str, str]:
    """Exit code, output, errors."""
    code = cli.main(["logs", *map(str, args)])
    got = capsys.readouterr()
    return code, got.out, got.err


def test_a_file_with_what_it_comes_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "orchestrator.log"
    path.write_text(FRAME + "x\n" + CYCLE)
    code, out, _ = logs(capsys, path)
    assert code == 0
    assert out.startswith("sources: 1 read whole\n")
    assert "2026-03-02 03:10:06 UTC  orchestrator.log  ERROR    Task counts endpoint returned status 500: boom" in out
    assert "workers_promoted 1, workers_spawned 0, tasks_reset 3" in out
    code, out, _ = logs(capsys, path, "--json", "--lines", 1)
    data = json.loads(out)
    assert (code, len(data["events"]), data["events_left_out"]) == (0, 1, 8)
    totals = data["summary"]["totals"]["orchestrator.log"]
    assert totals == {"workers_promoted": 1, "workers_spawned": 0, "tasks_reset": 3, "seconds": 3.1}


def test_why_it_did_not_scale_at_ten_past_three(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "orchestrator.log"
    path.write_text(FRAME + "x\n" + CYCLE)
    code, out, _ = logs(capsys, path, "--at", "2026-03-02T03:10:06")
    assert code == 0
    assert "was in cycle #12" in out
    assert "Fallback returned: 0 total, 0 queued" in out
    assert "a decision on readings that failed is none" in out
    code, out, _ = logs(capsys, path, "--at", "2026-03-02T05:10")
    assert (code, "no cycle of 2026-03-02 05:10:00 UTC was read" in out) == (3, True)


def test_what_is_missing_is_said_first_and_in_the_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad, cut = tmp_path / "good.log", tmp_path / "bad.json", tmp_path / "export.json"
    good.write_text(CYCLE)
    bad.write_text("Service 'gpu' not found\n")
    line = {"attributes": {"levelname": "INFO"}, "tags": {}}
    start = datetime(2026, 3, 2, 3, tzinfo=UTC)
    rows = [{"message": f"m{n}", "timestamp": (start + timedelta(seconds=n)).isoformat(), **line} for n in range(1000)]
    cut.write_text(json.dumps(rows))
    code, out, _ = logs(capsys, good, bad, cut)
    assert code == 1
    assert out.startswith("sources: 1 of 3 could not be read, 1 of 3 read in part\n  not read  bad.json")
    assert "it holds no log but a message: Service 'gpu' not found" in out
    assert "exports end at about 1,000" in out
    assert logs(capsys, bad)[0] == 3
    assert logs(capsys, cut, "--since", "2026-03-02T03:05")[0] == 0, "what was cut off lies before the time that is asked for"
    assert logs(capsys, cut, "--since", "2026-03-02T02:00")[0] == 1
    for odd in (tmp_path, Path("/dev/zero")):
        code, out, _ = logs(capsys, odd)
        assert (code, "no regular file" in out) == (3, True)
    fifo = tmp_path / "pipe"
    os.mkfifo(fifo)
    assert logs(capsys, fifo)[0] == 3
    code, _, err = logs(capsys, tmp_path / "god.log")
    assert (code, "nearest: good.log" in err, err.count("\n")) == (2, True, 1)


def test_an_empty_log_is_read_and_proves_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "orchestrator.log").touch()
    code, out, _ = logs(capsys, tmp_path / "orchestrator.log")
    assert code == 0
    assert "does not say that its writer is dead" in out


def test_secrets_and_codes_never_reach_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "o.log"
    secrets = ["postgresql://u:hunter2hunter2@db/x", "rpa_" + "A1b2C3d4" * 5, "Authorization: Bearer " + "abcDEF123" * 4]
    nasty = "\x1b[2J\x1b]0;owned\x07 up\rOVER \u202egnp \x9b31m \x00 end"
    lines = [FRAME + s for s in (*secrets, nasty)]
    lines += [json.dumps({"levelname": "ERROR", "message": f"first\n2026-01-01 00:00:00 UTC  forged  {secrets[0]}"}), f"unfit {secrets[1]}"]
    lines += [FRAME + "-----BEGIN RSA PRIVATE KEY-----", FRAME + "c2VjcmV0c2VjcmV0", FRAME + "-----END RSA PRIVATE KEY-----"]
    path.write_text("\n".join(lines))
    for args in ((), ("--json",), ("--at", "2026-03-02T03:09")):
        _, out, err = logs(capsys, path, *args)
        for word in ("hunter2", "A1b2C3d4", "abcDEF123", "c2VjcmV0"):
            assert word not in out + err, args
        assert not {"\x1b", "\x9b", "\u202e", "\r", "\x00", "\x07"} & set(out)
    _, out, _ = logs(capsys, path)
    assert not [x for x in out.splitlines() if x.startswith("2026-01-01")], "no line of a log can look like another one"


def test_only_what_names_a_worker_or_a_task(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "o.log"
    path.write_text("".join(f"{FRAME}{x}\n" for x in ("gpu-1 up", "gpu-10 up", "task t-1 of gpu-1", "nothing")))
    data = json.loads(logs(capsys, path, "--json", "--worker", "gpu-1")[1])
    assert [e["message"] for e in data["events"]] == ["gpu-1 up", "task t-1 of gpu-1"]
    data = json.loads(logs(capsys, path, "--json", "--task", "t-1")[1])
    assert [e["message"] for e in data["events"]] == ["task t-1 of gpu-1"]


BAD_WORDS = [("--since", "1h", "--until", "2h"), ("--follow", "--until", "1h"), ("--since", "soon"), ("--at", "2099-01-01"),
             ("--lines", "-1"), ("--shape", "orchestratr"), ("--since", "9" * 40 + "d")]  # fmt: skip


@pytest.mark.parametrize("args", BAD_WORDS)
def test_bad_words_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], args: tuple[str, ...]) -> None:
    path = tmp_path / "o.log"
    path.touch()
    try:
        code, _, err = logs(capsys, path, *args)
    except SystemExit as e:
        code, err = int(e.code or 0), capsys.readouterr().err
    assert code == 2
    assert "Traceback" not in err


def test_bytes_at_random_are_shown_and_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, dice = tmp_path / "o.log", random.Random(7)
    whole = (FRAME + "x\n" + CYCLE).encode()
    for _ in range(40):
        data = bytearray(whole)
        for _ in range(30):
            data[dice.randrange(len(data))] = dice.randrange(256)
        path.write_bytes(data)
        code, out, err = logs(capsys, path, "--json")
        assert (code, err) == (0, "")
        read = json.loads(out)["sources"][0]
        assert read["lines"] == data.count(b"\n")


def long_log(path: Path, lines: int) -> datetime:
    """A line a second; returns the last one's time."""
    start = datetime(2026, 3, 1, tzinfo=UTC)
    with path.open("w") as f:
        for n in range(lines):
            said = f"ORCHESTRATOR CYCLE #{n // 30}" if n % 30 == 0 else "HEALTH_CHECK [Worker gpu-1] " + "x" * 60
            f.write(f"{start + timedelta(seconds=n):%Y-%m-%d %H:%M:%S},000 - control_loop - INFO - {said}\n")
    return start + timedelta(seconds=lines - 1)


def test_a_time_in_the_middle_of_a_long_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "o.log"
    last = long_log(path, 200_000)
    code, out, _ = logs(capsys, path, "--lines", 1)
    assert (code, "only the newest 16 MiB" in out) == (1, True)
    at = last - timedelta(hours=50)
    data = json.loads(logs(capsys, path, "--json", "--since", at.isoformat(), "--until", (at + timedelta(minutes=1)).isoformat())[1])
    assert (data["exit_code"], len(data["events"])) == (0, 61)
    data = json.loads(logs(capsys, path, "--json", "--at", at.isoformat())[1])
    number = (200_000 - 1 - 50 * 3600) // 30
    assert (data["exit_code"], [c["number"] for c in data["cycles"]]) == (0, [number, number + 1, number + 2])
    code, out, _ = logs(capsys, path, "--since", (last - timedelta(hours=1)).isoformat(), "--lines", 1)
    assert (code, "3,601" in out or "3,600" in out) == (0, True)


@pytest.mark.soak
def test_a_gigabyte(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "o.log"
    last = long_log(path, 10_000_000)
    assert path.stat().st_size > 1 << 30
    begun = datetime.now(UTC)
    for args in ((), ("--since", "2026-03-20", "--until", last.isoformat()), ("--at", "2026-05-01T03:10")):
        assert logs(capsys, path, *args)[0] in (0, 1)
    assert datetime.now(UTC) - begun < timedelta(seconds=30)


def test_two_files_of_one_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [tmp_path / x / "o.log" for x in ("a", "b")]
    for path in paths:
        path.parent.mkdir()
        path.write_text(CYCLE)
    data = json.loads(logs(capsys, *paths, "--json")[1])
    assert sorted({e["source"] for e in data["events"]}) == sorted(map(str, paths))
    assert len(data["summary"]["cycles"]) == 2


def test_one_list_that_is_too_long_to_read_in_parts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "export.json"
    path.write_text(json.dumps([{"message": "x" * 1000}] * 20_000))
    code, out, _ = logs(capsys, path)
    assert (code, "it is not read in parts" in out) == (3, True)


def test_what_the_fleet_file_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "o.log").write_text(CYCLE)
    files = [{"path": str(tmp_path / "o.log")}, {"path": str(tmp_path / "o.log"), "node": "n1"}, {"path": "/no/such.log", "name": "gone"}]
    fleet = {"nodes": [{"name": "n1", "local": True}], "orchestrator": {"log_sources": {"files": files}}}
    file = tmp_path / "fleet.yaml"
    file.write_text(json.dumps(fleet))
    code, out, err = logs(capsys, "orchestrator", "--fleet", file, "--json")
    data = json.loads(out)
    assert (code, err) == (1, "")
    assert {s["name"]: s["state"] for s in data["sources"]} == {
        "gone": "not-read", "o.log": "whole", "n1:o.log": "whole"}  # fmt: skip
    assert len(data["events"]) == 16
    for wrong, said in (({"node": "n2"}, "no such node"), ({"name": "gone"}, "give each a `name`"), ({"shape": "mine"}, "none of")):
        file.write_text(json.dumps(fleet | {"orchestrator": {"log_sources": {"files": [*files, {"path": "/x.log", **wrong}]}}}))
        code, _, err = logs(capsys, "orchestrator", "--fleet", file)
        assert (code, said in err, "log_sources" in err) == (2, True, True), err
    code, _, err = logs(capsys, "orchestrator", tmp_path / "o.log")
    assert (code, "no section `orchestrator`" in err) == (2, True)
    fleet["orchestrator"] = {}
    file.write_text(json.dumps(fleet))
    assert "names no log" in logs(capsys, "orchestrator", "--fleet", file)[2]


def test_a_source_that_hangs_is_not_waited_for(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from tasks.clients.logs.bytes import LocalBytes

    (tmp_path / "fast.log").write_text(CYCLE)
    (tmp_path / "slow.log").write_text(CYCLE)
    part, stop = LocalBytes.part, threading.Event()

    def slow(self: LocalBytes, begin: int, count: int) -> bytes:
        if self.shown.endswith("slow.log"):
            stop.wait(20)
        return part(self, begin, count)

    monkeypatch.setattr(LocalBytes, "part", slow)
    code, out, _ = logs(capsys, tmp_path / "slow.log", tmp_path / "fast.log", "--seconds", "0.3")
    stop.set()
    assert (code, "not read within 0.3 s" in out, "CYCLE #12" in out) == (1, True, True)
