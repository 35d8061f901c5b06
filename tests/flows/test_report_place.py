"""A nightly whose report can be kept nowhere reads nothing, nor does a part of one. A runbook still runs: it may be what repairs."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from flows import store
from tests.support.engine_rig import Rig


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A node's port: whoever reads the node connects to it."""
    with socket.create_server(("127.0.0.1", 0)) as made:
        made.settimeout(0.2)
        yield made


@pytest.fixture
def fleet(tmp_path: Path, listener: socket.socket) -> str:
    path = tmp_path / "fleet.yaml"
    far = {"name": "far", "host": "127.0.0.1", "port": listener.getsockname()[1], "user": "op"}
    path.write_text(yaml.safe_dump({"name": f"place-{os.urandom(3).hex()}", "nodes": [far]}))
    return str(path)


WORK: dict[str, dict[str, Any]] = {
    "nightly": {},
    "nightly-shard": {"nodes": ["far"], "parent": "none"},
}


@pytest.mark.parametrize("slug", WORK)
def test_nothing_is_read_before_the_place_was_tried(rig: Rig, slug: str, fleet: str, listener: socket.socket, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    place, id_file = tmp_path / "file" / "x", rig.home / f"place-{os.urandom(4).hex()}.id"
    job = {"do": "run", "slug": slug, "parameters": WORK[slug] | {"fleet": fleet, "out": str(place)}}
    rig.wait(rig.start(job | {"id_file": str(id_file)}))
    with pytest.raises(TimeoutError):
        listener.accept()
    state = store.read_run(id_file.read_text()).state
    assert state is not None
    assert f"no report can be written to {place}: a file stands where a folder is needed" in str(state.message)
    assert state.is_failed()
