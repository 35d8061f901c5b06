"""Printed commands ask where the fleet file says that a thing is: no default port, socket or client in any of them."""

import re
from functools import cache
from typing import Any

import pytest

from runbooks.core.verdict import Diagnosis
from tests.runbooks.every import Situation, situations

PORTS = {"2379": "12379", "6379": "16379", "8265": "18265", "29400": "39400", "29500": "39500"}
SOCKET, ENGINE = "/srv/engine/odd.sock", ["docker", "-H", "unix:///srv/engine/odd.sock"]
USUAL = re.compile(r"(?<!\d)(?:2379|6379|8265|29400|29500)(?!\d)|/run/docker\.sock|(?<![/\w.-])docker (?!-H unix:///srv/engine/odd\.sock )")


def moved(value: Any, name: str = "") -> Any:
    """The same world with everything at an odd place."""
    if isinstance(value, dict):
        return {k: moved(v, k) for k, v in value.items()}
    if name == "engine" and value == ["docker"]:
        return ENGINE
    if isinstance(value, list):
        return [moved(v) for v in value]
    if isinstance(value, int) and str(value) in PORTS:
        return int(PORTS[str(value)])
    if not isinstance(value, str):
        return value
    for usual, odd in PORTS.items():
        value = re.sub(rf"(?<!\d){usual}(?!\d)", odd, value)
    return value.replace("/var/run/docker.sock", SOCKET)


def printed(found: Diagnosis) -> list[str]:
    """Every command that a report of it prints."""
    return [*found.by_hand, *(c for p in found.plans for s in p.steps for c in s.commands)]


RUNBOOKS = sorted({s.runbook for s in situations()})


@cache
def commands(runbook: str) -> tuple[str, ...]:
    """Of every situation of the runbook, in that world."""
    return tuple(command for case in situations() if case.runbook == runbook for command in printed(judged(case)))


def judged(case: Situation) -> Diagnosis:
    return case.judge(type(case.evidence).model_validate(moved(case.evidence.model_dump(mode="json"))))


@pytest.mark.parametrize("runbook", RUNBOOKS)
def test_no_printed_command_assumes_a_place(runbook: str) -> None:
    assert sorted({c for c in commands(runbook) if USUAL.search(c)}) == []


def test_the_odd_places_are_printed() -> None:
    """Else the test above would hold for a world that was not moved."""
    text = "\n".join(c for runbook in RUNBOOKS for c in commands(runbook))
    assert [place for place in ("12379", "18265", ENGINE[2]) if place not in text] == []


def told(found: Diagnosis) -> list[str]:
    """Every text of a report in which a command may stand."""
    return [*printed(found), *found.do_now, *(d for c in found.causes for d in c.decides)]


@pytest.mark.parametrize("runbook", RUNBOOKS)
def test_ssh_is_given_its_port_as_it_takes_it(runbook: str) -> None:
    """`ssh user@host:port` asks for a host of that name."""
    texts = {t for case in situations() if case.runbook == runbook for t in told(case.judge())}
    assert sorted(t for t in texts if re.search(r"\bssh\b[^`;|&]*@[\w.\[\]-]+:\d", t)) == []


def test_every_ssh_command_about_a_node_has_its_port() -> None:
    cases = [c for c in situations() if c.runbook == "ssh-auth-failure"]
    hosts = [(c.evidence.model_dump()["host"], c.evidence.model_dump()["port"], c.judge()) for c in cases]
    commands = [(t, port) for host, port, found in hosts for t in told(found) if re.search(rf"\bssh -[^`]*{re.escape(host)}", t)]
    assert len(commands) > 50
    assert sorted({t for t, port in commands if not re.search(rf"\bssh -[^`]*-p {port} ", t)}) == []
