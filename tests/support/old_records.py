"""Records as the version before made them: runs of deployments without a work pool. And races for records of either form."""

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pytest
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.objects import FlowRun
from prefect.states import Pending

from flows import records, store


def old_deployments() -> None:
    """Registers them as the version before did."""

    def make(c: SyncPrefectClient) -> None:
        for name in records.FLOWS:
            c.create_deployment(
                flow_id=c.create_flow_from_name(name),
                name=name,
                entrypoint=f"flows.engine.act.{name}",
                pull_steps=[],
                enforce_parameter_schema=False,
                parameter_openapi_schema={"type": "object", "properties": {}},
            )

    store.ask(make)


def create_old(flow: str, parameters: dict[str, Any], **more: Any) -> FlowRun:
    """What stood where `records.create_record` stands now."""
    return store.create_run(f"{flow}/{flow}", parameters, **more)


@contextmanager
def as_before() -> Iterator[None]:
    """Meanwhile the engine makes its records as the version before did."""
    with pytest.MonkeyPatch.context() as m:
        m.setattr(records, "create_record", create_old)
        yield


def races(forms: tuple[str, ...], rounds: int) -> Counter[str]:
    """A process for each form; in each round all ask for one record at the same moment. How often each won.

    Asserts that all are given one and the same record in each round, and that it holds the token of one of them.
    """
    series, won = uuid4().hex[:8], Counter(dict.fromkeys(range(len(forms)), 0))
    argv = [[sys.executable, "-m", "tests.support.old_records", form, str(k), series] for k, form in enumerate(forms)]
    racers = [subprocess.Popen(a, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for a in argv]
    try:
        assert [_line(p) for p in racers] == ["ready"] * len(forms)
        for n in range(rounds):
            for p in racers:
                assert p.stdin is not None
                p.stdin.write(f"{n}\n")
                p.stdin.flush()
            answers = {_line(p) for p in racers}
            assert len(answers) == 1, f"round {n}: {answers}"
            won[int(answers.pop().split()[1])] += 1
        assert len(store.find_runs(["race", series])) == rounds
    finally:
        for p in racers:
            p.communicate()
    return Counter({f"{forms[k]} {k}": count for k, count in won.items()})


def _line(p: "subprocess.Popen[str]") -> str:
    assert p.stdout is not None
    return p.stdout.readline().strip()


def _racer(form: str, me: str, series: str) -> None:
    make = create_old if form == "old" else records.create_record
    store.find_runs(["race"], limit=1)  # connected before the first round
    print("ready", flush=True)
    for line in sys.stdin:
        key = f"race-{series}/{line.strip()}"
        made = make(
            records.ACT, {"token": me}, state=Pending(), key=key, name=f"race-{series}", tags=["race", series], labels={}
        )
        print(made.id, store.read_run(made.id).parameters["token"], flush=True)


if __name__ == "__main__":
    _racer(*sys.argv[1:])
