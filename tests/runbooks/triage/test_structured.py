"""The level of a line of a structured log counts: in the shapes of the common loggers, and whatever stands before the object."""

import json
from functools import partial
from typing import Any

import pytest

from runbooks.core.verdict import State
from runbooks.triage.text import failures, judge_lines
from tests.runbooks.test_unexplained import QUIET, worlds
from tests.support.cost import cpu_seconds

SAID = "the loader is out of luck"  # no word of this reports a failure
SHAPES: dict[str, tuple[tuple[Any, ...], tuple[Any, ...], dict[str, Any]]] = {  # failing levels, others, the rest of the line
    "python-json-logger/levelname": (
        ("ERROR", "CRITICAL", "FATAL"), ("WARNING", "INFO", "DEBUG"), {"asctime": "2026-05-01 12:00:00,000", "message": SAID},
    ),
    "structlog/level": (("error", "critical"), ("warning", "info", "debug"), {"event": SAID, "timestamp": "2026-05-01T12:00:00Z"}),
    "zap/level": (("error", "dpanic", "panic", "fatal"), ("warn", "info", "debug"), {"ts": 1777636800.1, "caller": "a.go:1", "msg": SAID}),
    "zap, development/L": (("ERROR", "FATAL"), ("WARN", "INFO"), {"T": "2026-05-01T12:00:00Z", "M": SAID}),
    "logstash/level": (("ERROR", "FATAL"), ("WARN", "INFO"), {"@timestamp": "2026-05-01T12:00:00Z", "logger_name": "a.B", "message": SAID}),
    "logback/level_value": ((40000,), (30000, 20000), {"@timestamp": "2026-05-01T12:00:00Z", "message": SAID}),
    "bunyan/level": ((50, 60), (40, 30, 20), {"name": "a", "hostname": "h", "pid": 1, "msg": SAID, "time": "2026-05-01", "v": 0}),
    "pino/level": ((50, 60), (40, 30, 10), {"time": 1777636800000, "pid": 1, "hostname": "h", "msg": SAID}),
    "google/severity": (
        ("ERROR", "CRITICAL", "ALERT", "EMERGENCY", 500), ("WARNING", "NOTICE", "INFO", "DEFAULT", 400), {"textPayload": SAID},
    ),
    "google, an object/severity": (("ERROR",), ("INFO",), {"jsonPayload": {"message": SAID}}),
    "ecs/log.level": (("error",), ("info",), {"@timestamp": "2026-05-01T12:00:00Z", "message": SAID}),
    "serilog/@l": (("Error", "Fatal"), ("Warning", "Debug"), {"@t": "2026-05-01T12:00:00Z", "@m": SAID}),
    "opentelemetry/severityNumber": ((17, 21), (9, 13), {"body": SAID}),
    "gelf/level": ((0, 3), (4, 6), {"version": "1.1", "short_message": SAID}),
    "journald/PRIORITY": (("2", "3"), ("4", "6"), {"MESSAGE": SAID}),
    "tracing/level": (("ERROR",), ("WARN", "INFO"), {"fields": {"message": SAID}, "target": "a::b"}),
}  # fmt: skip
CASES = [(shape, level, True) for shape, (bad, _, _) in SHAPES.items() for level in bad]
CASES += [(shape, level, False) for shape, (_, good, _) in SHAPES.items() for level in good]
BEFORE = {
    "alone": "{}",
    "behind a plain line": "starting up\n{}",
    "in a container's log": "starting up\n2026-05-01T12:00:00.000000000Z stdout F {}",
    "behind a service's name": "starting up\nloader-1  | {}",
    "behind others of its kind": '{{"level": 30, "msg": "up"}}\n{}',
}


def line(shape: str, level: Any) -> str:
    name = shape.split("/")[1]
    return json.dumps({name: level} | SHAPES[shape][2])


@pytest.mark.parametrize("where", list(BEFORE))
@pytest.mark.parametrize(("shape", "level", "fails"), CASES)
def test_a_failure_s_level_reports_a_failure_and_no_other_does(shape: str, level: Any, fails: bool, where: str) -> None:
    found, more = failures(BEFORE[where].format(line(shape, level)))
    assert ([SAID in said for slug, said in found if not slug], more) == ([True] * fails, False)


def test_what_a_level_is_not() -> None:
    """The level of something else, a number that counts, a text that only looks like such a line."""
    for text in (
        {"msg": SAID, "log_level": "info"}, {"msg": SAID, "level": True}, {"msg": SAID, "level": 100},
        {"msg": SAID, "water": {"level": 50}},
        {"msg": SAID, "level": "e" * 9}, {"msg": SAID, "level": ["high"]}, {"msg": SAID, "level": None}, {"msg": SAID, "PRIORITY": "x"},
    ):  # fmt: skip
        assert failures(f"up\n{json.dumps(text)}")[0] == (), text
    assert failures('up\n{"level": 50, "msg": "cut')[0] == ()


def test_the_level_stands_behind_what_the_line_says() -> None:
    assert failures(line("pino/level", 60))[0] == (("", f"{SAID} [level=error]"),)
    assert failures(line("zap/level", "fatal"))[0] == (("", f"{SAID} [level=fatal]"),)


def test_an_error_of_a_known_kind_is_known_as_before() -> None:
    """What ends in the error itself is known by how it ends: nothing is put behind it."""
    text = "EOFError: Ran out of input"
    plain = [slug for slug, _ in failures(text)[0]]
    assert [slug for slug, _ in failures(json.dumps({"level": "error", "msg": text}))[0]] == plain


@pytest.mark.parametrize(("level", "state"), [("CRITICAL", State.CANNOT_TELL), ("FATAL", State.CANNOT_TELL), ("INFO", State.HEALTHY)])
def test_beside_it_nothing_is_healthy(level: str, state: State) -> None:
    """Through a runbook that reads a log."""
    for before in ("", f"{QUIET}\n"):
        said = before + json.dumps({"levelname": level, "message": SAID})
        for case, evidence in worlds("data-check", "log", said)[:1]:
            d = case.judge(evidence)
            assert d.state is state, d.headline
            assert (SAID in d.headline) is (state is State.CANNOT_TELL)


def test_the_time_grows_with_the_lines() -> None:
    one = line("pino/level", 30)
    for text in (
        "up\n" + '{"level"' * 20_000, "up\n" + '{"level": {"a":' * 20_000, "up\n" + f"{one}\n" * 2_000,
        "up\n" + '{"level": 5' + "0" * 100_000 + "}",
        f"{one}\n" + '{"msg": "' + "a" * 60_000 + '"}',
    ):  # fmt: skip
        assert cpu_seconds(partial(judge_lines, text), enough=0.5) < 3
