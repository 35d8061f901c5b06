"""What a run reads right now, on a terminal; on a pipe the run's events alone."""

from threading import Thread

import pytest

from deployments.cli.reading_line import WIDTH, ReadingLine
from tasks import diagnostic

Out = pytest.CaptureFixture[str]


@diagnostic.diagnostic("kernel log · {node}")
def read(node: str) -> str:
    return node


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch) -> ReadingLine:
    line = ReadingLine(on=True)
    monkeypatch.setattr(diagnostic, "LISTENERS", [line.begins])
    return line


def test_the_next_event_replaces_the_reading(line: ReadingLine, capsys: Out) -> None:
    read("node-a")
    line.passed("gathered", "read node-a")
    line.passed("judged", "nothing is wrong")
    line.end()
    begun, gone, events = capsys.readouterr().err.partition(f"\r{' ' * WIDTH}\r")
    assert begun.rstrip() == "\r  … kernel log · node-a"
    assert gone
    assert events == "  read node-a\n  nothing is wrong\n"


def test_a_long_or_hostile_name_stays_in_its_line(line: ReadingLine, capsys: Out) -> None:
    read("\x1b[2J\n" + "x" * 500)
    line.end()
    shown = capsys.readouterr().err
    assert "\x1b" not in shown
    assert "\n" not in shown
    assert max(map(len, shown.split("\r"))) <= WIDTH


def test_readings_in_threads_write_whole_lines(line: ReadingLine, capsys: Out) -> None:
    threads = [Thread(target=read, args=(f"node-{n}",)) for n in range(20)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    names = {part.strip() for part in capsys.readouterr().err.split("\r") if part}
    assert names == {f"… kernel log · node-{n}" for n in range(20)}


def test_on_a_pipe_only_events(capsys: Out, monkeypatch: pytest.MonkeyPatch) -> None:
    line = ReadingLine(on=False)
    monkeypatch.setattr(diagnostic, "LISTENERS", [line.begins])
    assert read("node-a") == "node-a"
    line.passed("gathered", "read node-a")
    line.end()
    assert capsys.readouterr().err == "  read node-a\n"
