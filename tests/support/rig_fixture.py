"""The engine rig as a pytest fixture."""

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.support.engine_rig import Rig
from tests.support.set_state import set_state

if TYPE_CHECKING:
    from prefect.client.schemas.objects import FlowRun


@pytest.fixture(scope="session")
def own_server() -> None:
    """Asked for by every fixture that runs a Prefect server: its tests keep this process's way to one."""


@pytest.fixture(scope="session")
def rig(own_server: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """Server and zygote, for the whole test process."""
    made = Rig(tmp_path_factory.mktemp("rig"))
    with made.settings():
        made.begin()
        yield made
        made.close()


def _open() -> "list[FlowRun]":
    from flows import store
    from flows.engine.state_table import OPEN

    return store.find_runs([store.RUNBOOK_TAG], OPEN) + store.find_runs([store.ACT_TAG], OPEN)


@pytest.fixture
def nothing_left(rig: Rig) -> Iterator[None]:
    """Ends the runs that were made meanwhile."""
    from prefect.states import Completed

    before = {r.id for r in _open()}
    yield
    for run in _open():
        if run.id not in before:
            set_state(run.id, Completed(message="the test is over"))


@pytest.fixture(autouse=True)
def no_server_of_others(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rig stays for the whole process, as do its environment and its toy: a test without it finds neither, whatever ran before."""
    if "own_server" not in request.fixturenames:
        if toy := sys.modules.get("tests.support.toy"):
            toy.take_out(monkeypatch)
        for name in [n for n in os.environ if n.startswith("PREFECT_") or n in ("GPU_RUNBOOKS_HOME", "TOY_WORLDS")]:
            monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def nothing_outlives_its_test(request: pytest.FixtureRequest) -> Iterator[None]:
    """All worlds are nodes of one machine: a breaker that a test trips would hold for the tests after it, as would a worker."""
    yield
    if "rig" in request.fixturenames:
        request.getfixturevalue("rig").stop_workers()
        from flows import store
        from flows.engine.guards import BREAKER, TRIPPED

        for prefix in (BREAKER, TRIPPED):
            for name in store.variables(prefix):
                store.delete_variable(prefix + name)
