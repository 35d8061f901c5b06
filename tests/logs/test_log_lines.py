"""Lines as the seed's orchestrator writes them, in every container they come in, become events."""

import json
from datetime import UTC, datetime

import pytest

from runbooks.core.logs_config import LogMark, LogPlace, LogShape, LogSources
from runbooks.parsers.logs.containers import held
from runbooks.parsers.logs.event import LoggedEvent
from runbooks.parsers.logs.lines import HIDDEN, LogParser
from runbooks.parsers.logs.merge import merged, names
from runbooks.parsers.logs.shapes import ORCHESTRATOR, WORKER, shape_named
from runbooks.parsers.logs.summary import cycles_at, summarized

AT = datetime(2026, 3, 2, 3, 10, 5, tzinfo=UTC)
CYCLE = """\
ORCHESTRATOR CYCLE #12
================================================================================
2026-03-02 03:10:05,000 - control_loop - INFO - Starting orchestrator cycle
2026-03-02 03:10:06,000 - database - ERROR - Task counts endpoint returned status 500: boom
2026-03-02 03:10:06,500 - database - WARNING - Fallback returned: 0 total, 0 queued
2026-03-02 03:10:07,000 - control_loop - INFO - SCALING DECISION ANALYSIS:
   FINAL DESIRED: 2 workers
2026-03-02 03:10:08,000 - control_loop - INFO - Cycle completed: {'workers_promoted': 1, 'workers_spawned': 0, 'tasks_reset': 3}
2026-03-02 03:10:08,100 - control_loop - INFO - Orchestrator cycle completed in 3.10s: {'workers_promoted': 1, 'tasks_reset': 3}
"""


def events(text: str, shape: LogShape = ORCHESTRATOR, name: str = "log") -> tuple[list[LoggedEvent], LogParser]:
    """Of one source."""
    parser = LogParser("log", shape)
    found = [e for e in map(parser.feed, held(text, name).entries) if e]
    parser.end()
    return found, parser


def test_plain_lines_and_what_stands_between_them() -> None:
    found, parser = events("2026-03-02 03:10:04,000 - x - INFO - before\n" + CYCLE)
    assert [e.kind for e in found] == ["", "cycle", "", "decision", "decision", "decision", "decision", "summary", "summary"]
    cycle, started, counts = found[1], found[2], found[3]
    assert (cycle.cycle, cycle.own_time, cycle.more) == (12, False, ["=" * 80]), "a print has no time of its own"
    assert (started.at, started.severity, started.logger) == (AT, "INFO", "control_loop")
    assert (counts.severity, counts.cycle, counts.phase) == ("ERROR", 12, "counts")
    assert (parser.lines, parser.unfit) == (10, 3)
    assert any("UTC is assumed" in note for note in parser.notes)


def test_each_container_gives_the_same_events() -> None:
    line = {"asctime": "2026-03-02 03:10:05,250", "name": "database", "levelname": "ERROR", "message": "Failed to get workers: {}"}
    rest = {k: v for k, v in line.items() if k != "message"} | {"level": "info"}
    stamp = 1772421005250000000
    export = [{"message": line["message"], "attributes": rest, "tags": {"service": "s"}, "timestamp": stamp}]
    api = {"timestamp": "2026-03-02T03:10:05.250Z", "message": line["message"], "attributes": [
        {"key": k, "value": json.dumps(v)} for k, v in rest.items()]}  # fmt: skip
    texts = {
        "plain": "2026-03-02 03:10:05,250 - database - ERROR - Failed to get workers: {}",
        "json": json.dumps(line),
        "list": json.dumps(export, indent=1),
        "flat": json.dumps({"timestamp": stamp, "level": "info", **line}),
        "api": json.dumps(api),
        "nested": json.dumps({"timestamp": stamp, "severity": "info", "message": json.dumps(line)}),
        "framed": json.dumps({"timestamp": stamp, "message": "2026-03-02 03:10:05,250 - database - ERROR - Failed to get workers: {}"}),
    }
    for name, text in texts.items():
        (event,), _ = events(text)
        assert (event.severity, event.logger, event.message) == ("ERROR", "database", "Failed to get workers: {}"), name
        assert event.at == AT.replace(microsecond=250000), name


def test_the_field_level_says_nothing() -> None:
    (event,), _ = events(json.dumps({"timestamp": "2026-03-02T03:10:05Z", "level": "info", "message": "x"}))
    assert event.severity == ""


def test_an_error_text_in_a_json_file_is_no_log() -> None:
    assert "Service" in held('Service "gpu" not found\n', "export.json").problem
    assert held('Service "gpu" not found\n', "export.log").problem == ""
    assert held(json.dumps([{"message": "x"}] * 1000), "export.json").export == 1000


def test_a_cycle_is_summed_once_though_two_lines_say_it() -> None:
    summary = summarized(events(CYCLE)[0])
    (cycle,) = summary.cycles
    assert cycle.numbers == {"workers_promoted": 1, "workers_spawned": 0, "tasks_reset": 3, "seconds": 3.1}
    assert summary.totals()["log"]["tasks_reset"] == 3
    assert (cycle.errors, cycle.summed, cycle.phases["counts"]) == (1, True, 2)
    assert [c.number for c in cycles_at(summary, AT.replace(second=7))] == [12]
    assert [e.message.strip().split(":")[0] for e in cycle.decisions][-2:] == ["SCALING DECISION ANALYSIS", "FINAL DESIRED"]
    assert cycles_at(summary, AT.replace(hour=4)) == [], "the log ends before: nothing is known of that time"
    assert cycles_at(summary, AT.replace(hour=2)) == []


def test_errors_that_differ_in_ids_are_one_kind() -> None:
    text = "".join(f"2026-03-02 03:1{n}:00,000 - d - ERROR - no pod gpu-2026_{n} for 'x{n}'\n" for n in range(4))
    (kind,) = summarized(events(text)[0]).errors
    assert (kind.count, kind.first, kind.last) == (4, AT.replace(minute=10, second=0), AT.replace(minute=13, second=0))


def test_the_zone_of_a_shape() -> None:
    found, parser = events("2026-03-02 03:10:05,000 - x - INFO - m", ORCHESTRATOR.model_copy(update={"zone": "Europe/Berlin"}))
    assert found[0].at == AT.replace(hour=2)
    assert parser.notes == ()


def test_a_clock_that_differs_from_the_platforms_is_said() -> None:
    _, parser = events(json.dumps({"timestamp": "2026-03-02T03:10:05Z", "asctime": "2026-03-02 04:10:05,000", "message": "x"}))
    assert any("+3600 s" in note for note in parser.notes)


def test_a_workers_times_of_day_get_their_date_from_the_last_change() -> None:
    parser = LogParser("w", WORKER)
    found = [parser.feed(x) for x in ("[23:59:58] INFO HEADLESS starts", "of no form", "[00:00:05] ERROR CUDA out of memory")]
    parser.end(datetime(2026, 3, 2, 0, 0, 7, tzinfo=UTC))
    assert [e.at for e in found if e] == [datetime(2026, 3, 1, 23, 59, 58, tzinfo=UTC), datetime(2026, 3, 2, 0, 0, 5, tzinfo=UTC)]
    assert found[0] is not None
    assert found[0].more == ["of no form"]
    assert any("no date" in note for note in parser.notes)


def test_a_private_key_over_lines_is_hidden() -> None:
    body = [f"b64line{n}" for n in range(3)]
    lines = ["-----BEGIN OPENSSH PRIVATE KEY-----", *body, "-----END OPENSSH PRIVATE KEY-----", "after"]
    for stamped in (True, False):
        frame = "2026-03-02 03:10:05,000 - x - INFO - "
        text = f"{frame}before\n" + "\n".join(frame * stamped + x for x in lines)
        said = "\n".join(e.text for e in events(text)[0])
        assert "b64line" not in said
        assert HIDDEN in said
        assert "after" in said
    one = json.dumps({"message": "key: " + "\n".join(lines)})
    assert "b64line" not in events(one)[0][0].message


def test_an_id_is_not_a_longer_one() -> None:
    assert names("worker gpu-1 is", "gpu-1")
    assert names("(gpu-1).", "gpu-1")
    assert not names("worker gpu-10 is", "gpu-1")
    assert not names("worker gpu-1-a is", "gpu-1")
    assert not names("my-gpu-1", "gpu-1")


def test_times_that_cannot_be_and_texts_that_are_hostile() -> None:
    for text in ('{"timestamp": 1e400, "message": "x"}', '{"timestamp": [], "message": {"a": 1}}', "[" * 50_000, "{" * 50_000,
                 "9999-99-99 99:99:99 - x - INFO - m", "0001-01-01T00:00:00+14:00 m", '{"timestamp": "9" }', "\x00\xff" * 100,
                 "Cycle completed: {" + "[" * 4000, "Cycle completed: {'a': 1e999, 'b': True, 3: 4}"):  # fmt: skip
        found, _ = events(text)
        assert len(found) == 1
        assert merged(found)


def test_a_shape_of_the_fleet_file() -> None:
    shape = LogShape(
        time=("ts",), severity=("lvl",), message=("text",), time_format="%d.%m.%Y %H:%M:%S", zone="UTC",
        marks=(LogMark(pattern=r"round (?P<cycle>\d+)", kind="cycle"), LogMark(pattern=r"made (?P<made>\d+)", kind="summary")),
    )  # fmt: skip
    config = LogSources(shapes={"mine": shape}, files=(LogPlace(path="/x", shape="mine"),))
    found, _ = events(
        json.dumps({"ts": "02.03.2026 03:10:05", "lvl": "err", "text": "round 4"}) + '\n{"text": "made 7"}', shape_named("mine", config)
    )
    assert (found[0].at, found[0].severity, found[0].cycle) == (AT, "ERROR", 4)
    assert summarized(found).cycles[0].numbers == {"made": 7}
    for wrong in ({"zone": "Europe/Atlantis"}, {"time_format": "%Q"}, {"lines": ["x"]}, {"marks": [{"pattern": "("}]}):
        with pytest.raises(ValueError, match=r"zone|format|message|regular"):
            LogShape.model_validate(wrong)
    with pytest.raises(ValueError, match="none of orchestrator, worker"):
        LogSources(files=(LogPlace(path="/x", shape="odd"),))
