"""One gateway for all tests that need one; its files are rewritten, its targets used once."""

from collections.abc import Iterator

import pytest

from tests.support.engine_rig import Rig
from tests.support.gateway_fleet import GatewayFleet


@pytest.fixture(scope="session")
def fleet(rig: Rig, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[GatewayFleet]:
    """Enough targets for the short counts, or for the soak."""
    soak = "soak" in str(request.config.option.markexpr) and "not soak" not in str(request.config.option.markexpr)
    made = GatewayFleet(rig, tmp_path_factory.mktemp("gateway"), 420 if soak else 40)
    yield made
    assert made.gateway.stop() == 0
