"""Lines of structured logs: JSON objects that hold a message and a level. Each line is parsed once.

The level is a word of its own there: `{"level": 50, "msg": "bye"}` reports a failure without a word that says so.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

LONGEST = 1 << 20  # bytes of a line that is parsed; a longer one stays as it stands
_BEFORE = 200  # characters of a container engine's or a collector's own words before the object
_MESSAGE = ("MESSAGE", "message", "msg", "log", "event", "text", "M", "@m", "@mt", "short_message", "body", "textPayload")
_ERROR = ("error", "err", "exc_info", "exception", "stack")
_INSIDE = ("fields", "record", "jsonPayload", "log")  # tracing (Rust), loguru, Google, Elastic Common Schema
# python-json-logger, structlog, logrus, zap (its short keys: L), slf4j with logstash, bunyan, pino, Google, ECS, Serilog, .NET,
# OpenTelemetry, journald, Go's slog, zerolog
_LEVEL = (
    "level", "levelname", "severity", "log.level", "log_level", "loglevel", "lvl", "L", "@l", "Level", "LogLevel", "severityText",
    "severity_text",
)  # fmt: skip
_PLAIN = frozenset(("level", "levelname", "severity", "lvl"))  # found by knowledge/failure.yaml where the word stands beside it
_WORD = re.compile(r"(?i)(?:error|err|e|crit(?:ical)?|c|fatal|f|d?panic|emerg(?:ency)?|alert|severe|fail(?:ure)?)")
_NUMBERS: dict[str, Callable[[int], bool]] = {  # who counts how
    "level": lambda n: 50 <= n <= 99,  # bunyan and pino: error 50, fatal 60; Python: critical 50
    "levelno": lambda n: 40 <= n <= 99,  # Python: error 40, critical 50
    "level_number": lambda n: 40 <= n <= 99,  # structlog
    "level_value": lambda n: n >= 40_000,  # logback: error 40000
    "severityNumber": lambda n: 17 <= n <= 24,  # OpenTelemetry: error 17-20, fatal 21-24
    "severity": lambda n: 500 <= n <= 800,  # Google's LogSeverity: error 500, emergency 800
    "PRIORITY": lambda n: 0 <= n <= 3,  # journald, by syslog: emergency 0, error 3
}
_GELF: Callable[[int], bool] = lambda n: 0 <= n <= 3  # noqa: E731 - one more row: Graylog counts `level` by syslog
_LEVELLED = re.compile(b'"(?:%s)"' % b"|".join(re.escape(k).encode() for k in dict.fromkeys((*_LEVEL, *_NUMBERS))))
_NAMED = re.compile(r"\w(?:Error|Exception|Failure)\b[^\n]*$")  # says it itself, and is known by how it ends
_END = 300  # characters of a text in which that is looked for


def converter(data: bytes) -> Callable[[bytes], bytes]:
    """How blocks of a text are read that begins so: as a structured log, or as plain lines with such objects here and there."""
    first = _parsed(data.split(b"\n", 1)[0])
    if first is not None and _message(first) is not None:
        return lambda block: b"\n".join(_converted(line) for line in block.split(b"\n"))
    return _with_levels


def _with_levels(block: bytes) -> bytes:
    if b'{"' not in block or not _LEVELLED.search(block):
        return block
    return b"\n".join(_with_level(line) for line in block.split(b"\n"))


def _with_level(line: bytes) -> bytes:
    """A line that holds an object somewhere, with its level behind it where a failure's level is no word that stands in it."""
    at = line.find(b'{"', 0, _BEFORE)
    entry = _parsed(line[at:]) if at >= 0 and _LEVELLED.search(line) else None
    level = "" if entry is None else _failing(entry, spelled=False)
    return line.rstrip() + f" [level={level}]".encode() if level else line


def _converted(line: bytes) -> bytes:
    """What a line of a structured log says, and its level where that is a failure's."""
    entry = _parsed(line)
    message = None if entry is None else _message(entry)
    if entry is None or message is None:
        return line if entry is None else _with_level(line)
    who = entry.get("SYSLOG_IDENTIFIER") or entry.get("_COMM") or ""
    extra = [str(entry[k]) for k in _ERROR if entry.get(k)]
    text = " ".join([f"{who}: {message}" if who else message, *extra]).replace("\n", " ⏎ ").rstrip(" ⏎")
    level = "" if _NAMED.search(text[-_END:]) else _failing(entry)
    return (f"{text} [level={level}]" if level else text).encode("utf-8", "replace")


def _parsed(line: bytes) -> dict[str, Any] | None:
    if len(line) > LONGEST or not line.strip().startswith(b"{"):
        return None
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) else None


def _message(entry: Mapping[str, Any]) -> str | None:
    for fields in _places(entry):
        for name in _MESSAGE:
            value = fields.get(name)
            if isinstance(value, str):
                return value
            if isinstance(value, list) and value and all(isinstance(b, int) and 0 <= b < 256 for b in value):
                return bytes(value).decode("utf-8", "replace")
    return None


def _places(entry: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The object, and those inside it that hold the message or the level in some formats."""
    yield entry
    yield from (inner for name in _INSIDE if isinstance(inner := entry.get(name), dict))


def _failing(entry: Mapping[str, Any], spelled: bool = True) -> str:
    """Its level where that is a failure's: "error" or worse. Not `spelled`: only where no word beside its name says so."""
    for fields in _places(entry):
        for name in _LEVEL:
            word = _word(fields.get(name))
            if _WORD.fullmatch(word):
                stands = len(word) > 2 and name in _PLAIN and isinstance(fields[name], str)
                return "" if stands and not spelled else word.lower() if len(word) > 2 else "error"
        for name, fails in _NUMBERS.items():
            rule = _GELF if name == "level" and "short_message" in fields else fails
            if (number := _number(fields.get(name))) is not None and rule(number):
                return "error"
    return ""


def _word(value: Any) -> str:
    """A level in words; loguru has it as the name of an object."""
    word = value.get("name") if isinstance(value, dict) else value
    return word.strip() if isinstance(word, str) else ""


def _number(value: Any) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 7:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
