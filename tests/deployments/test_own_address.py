"""The local server: who can reach it, and who can use it."""

import re
import stat
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from deployments.state import auth_string, state_dir
from tests.support.engine_rig import Rig

LOOPBACK = re.compile(r"0100007F|0{24}01000000")  # as /proc/net/tcp and tcp6 write it


def listeners(port: int) -> list[str]:
    """Addresses, as the kernel writes them, on which something listens at this port."""
    rows = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
    return [row[1].partition(":")[0] for row in rows if row[3] == "0A" and int(row[1].partition(":")[2], 16) == port]


def test_it_listens_on_loopback_alone(rig: Rig) -> None:
    found = listeners(rig.state.port)
    assert found
    assert [a for a in found if not LOOPBACK.fullmatch(a)] == []
    assert urlsplit(rig.state.api).hostname == "127.0.0.1"


@pytest.mark.parametrize("path", ["/flow_runs/count", "/deployments/filter", "/variables/filter", "/block_documents/filter"])
def test_without_the_password_it_says_nothing(rig: Rig, path: str) -> None:
    for header in ({}, {"Authorization": "Basic YWRtaW46YWRtaW4="}):
        request = urllib.request.Request(rig.state.api + path, data=b"{}", headers={"Content-Type": "application/json"} | header)  # noqa: S310
        with pytest.raises(urllib.error.HTTPError) as said:
            urllib.request.urlopen(request, timeout=10)  # noqa: S310
        assert said.value.code == 401


def test_the_password_is_for_this_user_alone(rig: Rig) -> None:
    path = state_dir() / "auth.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(auth_string().partition(":")[2]) >= 32
