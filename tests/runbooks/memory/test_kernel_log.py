"""Whatever part of the kernel's report of memory that ran out was read: never healthy, and of a place only what a line says."""

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from runbooks.core.knowledge import load_runbook
from runbooks.core.reading import Absent, Known
from runbooks.core.verdict import State
from runbooks.memory.diagnose import diagnose
from runbooks.memory.evidence import Evidence
from runbooks.memory.limits import Limits
from runbooks.memory.parsers.kernel_ooms import WANTED, HostOom, parse_host_ooms
from tests.runbooks import more_sick
from tests.runbooks.test_recorded_versions import KERNEL
from tests.support.yaml_file import read_yaml_all

DOCS = read_yaml_all(Path(__file__).parent / "kernel_log.yaml")
LIMITS = Limits(**load_runbook("memory-pressure").limit_values())
ZERO = (more_sick.AT - timedelta(hours=2)).timestamp()


def evidence(kernel: str, log: str | None = None, sweep: bool = False) -> Evidence:
    """A machine that is well, but for these lines."""
    kills = tuple(parse_host_ooms([x for x in kernel.splitlines() if re.search(WANTED, x, re.I)], ZERO))
    found = more_sick.memory(log or "", killed=Known[tuple[HostOom, ...]](value=kills))
    since = more_sick.AT - timedelta(hours=1) if sweep else None
    return found.model_copy(update={"since": since} | ({} if log else {"log": Absent(proof="no log was named")}))


@pytest.mark.parametrize("doc", DOCS, ids=lambda d: d["title"])
def test_situation(doc: dict[str, Any]) -> None:
    seen, want = evidence(doc["kernel"], doc.get("log"), doc.get("sweep", False)), doc["expect"]
    got = diagnose(seen, LIMITS)
    shown = got.model_dump_json(indent=1)
    assert got.state == want["state"], shown
    assert [f"{c.slug} {c.certainty}" for c in got.causes] == want["causes"], shown
    assert isinstance(seen.killed, Known)
    assert [k.pid for k in seen.killed.value] == want["kills"], shown
    assert want.get("says", "") in " | ".join(w for c in got.causes for w in c.evidence), shown
    assert want.get("unknown", "") in " | ".join(got.unknowns), shown


@pytest.mark.parametrize("version", KERNEL)
def test_each_line_of_a_recorded_report_alone_is_never_healthy(version: str) -> None:
    """The lines that a look asks the kernel log for are those that it can read."""
    wanted = [x for x in KERNEL[version][0].splitlines() if re.search(WANTED, x, re.I)]
    assert wanted
    for line in wanted:
        got = diagnose(evidence(line), LIMITS)
        assert got.state is not State.HEALTHY, line
        assert {c.slug for c in got.causes} <= {"host-oom", "cgroup-oom"}, line
