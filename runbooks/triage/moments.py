"""The time that a log line carries, as seconds that can be compared with those of lines stamped alike."""

import re
from typing import NamedTuple

_MONTHS = {m: n for n, m in enumerate(b"Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(), 1)}
_CLOCK = rb"(?P<h>\d\d):(?P<m>\d\d):(?P<s>\d\d)"
_FORMS = (
    ("date", re.compile(rb"(?P<year>\d{4})[-/](?P<month>\d\d)[-/](?P<day>\d\d)[T _,]+" + _CLOCK)),
    ("syslog", re.compile(rb"\b(?P<name>[A-Z][a-z]{2}) +(?P<day>\d{1,2}) " + _CLOCK)),
    ("glog", re.compile(rb"\b[IWEF](?P<month>\d\d)(?P<day>\d\d) " + _CLOCK)),
    ("boot", re.compile(rb"^(?:<\d+>|kern\s*:\w+\s*: )?\[ *(?P<boot>\d+)\.\d{6}\]")),
)
DAY = 86400
LOOKED_AT = 90  # bytes of a line in which its time stands


class Moment(NamedTuple):
    """When, on the clock of one form of stamp: only moments of one form can be compared."""

    form: str
    seconds: int

    def apart(self, other: "Moment") -> int | None:
        """Seconds between the two; None where nobody can tell."""
        return abs(self.seconds - other.seconds) if self.form == other.form else None


def moment(line: bytes) -> Moment | None:
    """The line's own; None where it carries none."""
    for form, pattern in _FORMS:
        if found := pattern.search(line[:LOOKED_AT]):
            return Moment(form, _seconds(found.groupdict()))
    return None


def _seconds(part: dict[str, bytes]) -> int:
    if "boot" in part:
        return int(part["boot"])
    month = _MONTHS.get(part["name"], 1) if "name" in part else int(part["month"])
    days = int(part.get("year", 0)) * 372 + month * 31 + int(part["day"])  # months of 31 days: near enough
    return days * DAY + int(part["h"]) * 3600 + int(part["m"]) * 60 + int(part["s"])
