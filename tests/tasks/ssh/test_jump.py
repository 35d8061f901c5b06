"""Log-ins through a jump host: two real sshds, broken one by one; the jump host is logged in to once a run."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deployments.lab.sshd import Sshd, make_key, public_key
from deployments.ports import free_port
from runbooks.core.reading import Known
from runbooks.core.verdict import State
from runbooks.ssh.evidence import Stage
from tests.support.sshd_room import Room
from tests.tasks.ssh.test_real_sshd import authorize_no_one, context_of, look


def way(jump: Sshd, **fields: Any) -> dict[str, Any]:
    """The jump host as the fleet file names it."""
    given = {
        "host": jump.address,
        "port": jump.port,
        "key": {"file": str(jump.key)},
        "known_hosts": str(jump.known_hosts),
    }
    return given | fields


def well(jump: Sshd) -> dict[str, Any]:
    return way(jump)


def refused_there(jump: Sshd) -> dict[str, Any]:
    return way(jump, key={"file": str(make_key(jump.folder / "unknown"))})


def unknown_host(jump: Sshd) -> dict[str, Any]:
    return way(jump, known_hosts=str(jump.folder / "none"))


def nothing_listens(jump: Sshd) -> dict[str, Any]:
    return way(jump, port=free_port())


CASES = [
    (well, {}, Stage.DONE, "", ""),
    (refused_there, {}, Stage.TCP, "jump-host-fails", "refused"),
    pytest.param(unknown_host, {}, Stage.TCP, "jump-host-fails", "unknown", marks=pytest.mark.soak),
    pytest.param(nothing_listens, {}, Stage.TCP, "jump-host-fails", "refused", marks=pytest.mark.soak),
    (well, {"AllowTcpForwarding": "no"}, Stage.TCP, "jump-host-fails", "cannot reach"),
]


@pytest.mark.parametrize(
    ("make", "options", "stage", "slug", "words"), CASES, ids=lambda c: getattr(c, "__name__", str(c))
)
def test_each_way_to_fail_at_the_jump_host(
    folder: Path, make: Callable[[Sshd], dict[str, Any]], options: dict[str, str], stage: Stage, slug: str, words: str
) -> None:
    room = Room(folder)
    with Sshd(folder, "jump", options=options) as jump, room:
        fleet = room.fleet(folder, jump=make(jump))
        with context_of(fleet) as context:
            for _ in range(2):
                evidence, d = look(context)
        assert isinstance(evidence.wire, Known)
        assert evidence.wire.value.stage is stage, d.model_dump_json(indent=1)
        assert evidence.wire.value.connections <= 6
        assert [c.slug for c in d.causes[:1]] == ([slug] if slug else [])
        assert words in " ".join(d.causes[0].evidence if d.causes else ())
        assert d.state is (State.UNHEALTHY if slug else State.HEALTHY)
        log = jump.read_log()
        assert log.count("Accepted publickey") + log.count("Failed publickey") <= 1, "one log-in to the jump host a run"


def test_behind_the_jump_host_the_node_is_judged_as_ever(folder: Path) -> None:
    room = Room(folder)
    authorize_no_one(room)
    with Sshd(folder, "jump") as jump, room:
        fleet = room.fleet(folder, jump=way(jump), public_key=public_key(room.key))
        with context_of(fleet) as context:
            evidence, d = look(context)
        assert isinstance(evidence.wire, Known)
        assert evidence.wire.value.jump == jump.address
        assert d.causes[0].slug == "key-not-registered"
        assert [s.kind for p in d.plans for s in p.steps] == ["add-public-key"]
