"""One gateway for all tests that need one; its files are rewritten, its targets used once."""

from collections.abc import Iterator

import httpx
import pytest

from flows import store
from tests.support.engine_rig import Rig
from tests.support.gateway import firing
from tests.support.gateway_fleet import GatewayFleet


@pytest.fixture(scope="session")
def fleet(rig: Rig, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[GatewayFleet]:
    """Enough targets for the short counts, or for the soak."""
    soak = str(request.config.option.markexpr) in ("soak", "prove", "soak and not prove")
    made = GatewayFleet(rig, tmp_path_factory.mktemp("gateway"), 420 if soak else 40)
    yield made
    stops_after_its_acts(made)


def stops_after_its_acts(fleet: GatewayFleet) -> None:
    """SIGTERM: the run that was just taken acts to its end, nothing else is taken, and the end is a clean one."""
    [node] = fleet.take(1)
    [begun] = fleet.gateway.alert(firing(node))
    assert fleet.gateway.stop(limit_s=180) == 0, fleet.gateway.log()
    assert store.read_run(begun["run"]).labels["outcome"] == "fixed"
    assert fleet.fixes(node) == 1
    with pytest.raises(httpx.TransportError):
        fleet.gateway.alert(firing(node, "ToyLate"))
