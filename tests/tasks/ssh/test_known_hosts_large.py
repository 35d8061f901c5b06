"""A known_hosts of ten thousand lines, hashed names, revoked keys and certificate authorities: judged right, and fast."""

import base64
import hashlib
import hmac
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from deployments.lab.sshd import make_key, public_key
from runbooks.core.reading import Known
from runbooks.core.verdict import State
from runbooks.ssh.evidence import HostKeyFact
from tests.support.sshd_room import Room
from tests.tasks.ssh.test_real_sshd import context_of, look, sign_host


def hashed(name: str) -> str:
    """The name as `HashKnownHosts yes` writes it."""
    salt = os.urandom(20)
    mark = hmac.new(salt, name.encode(), hashlib.sha1).digest()
    return f"|1|{base64.b64encode(salt).decode()}|{base64.b64encode(mark).decode()}"


def crowd(key: str, count: int = 10_000) -> str:
    """Lines about other hosts: half of them hashed; comments, blank and broken ones among them."""
    lines = [f"{hashed(f'h{i}') if i % 2 else f'[h{i}]:22,10.0.{i % 256}.1'} {key}" for i in range(count)]
    return (
        "\n".join(
            [*lines, "", "# a comment", "broken", "|1|nonsense ssh-ed25519 AAAA", f"@cert-authority *.else {key}"]
        )
        + "\n"
    )


def trusted(mine: str, ca: str) -> str:
    return f"{hashed(mine)} {{host}}\n"


def revoked(mine: str, ca: str) -> str:
    return f"{mine} {{host}}\n@revoked * {{host}}\n"


def by_authority(mine: str, ca: str) -> str:
    return f"@cert-authority {mine} {ca}\n"


CASES = [(trusted, HostKeyFact.TRUSTED), (revoked, HostKeyFact.REVOKED), (by_authority, HostKeyFact.CERTIFIED)]


@pytest.mark.parametrize(("lines", "fact"), CASES, ids=lambda x: getattr(x, "__name__", str(x)))
def test_ten_thousand_lines(folder: Path, lines: Callable[[str, str], str], fact: HostKeyFact) -> None:
    room = Room(folder)
    sign_host(room)
    place = folder / "with blank %h"
    place.mkdir()
    file = place / "known_hosts"
    with room.start():
        text = lines(f"[{room.address}]:{room.port}", public_key(room.folder / "host_ca"))
        other = public_key(make_key(folder / "other"))
        file.write_text(crowd(other) + text.replace("{host}", public_key(room.host_keys[0])))
        with context_of(room.fleet(folder, known_hosts=str(file))) as context:
            began = time.process_time()
            evidence, d = look(context)
            assert time.process_time() - began < 5, "judged in seconds"
    assert isinstance(evidence.wire, Known)
    host_key = evidence.wire.value.host_key
    assert host_key is not None
    assert host_key.fact is fact, host_key
    assert (d.state is State.HEALTHY) == (fact is HostKeyFact.TRUSTED)
    assert not host_key.stale, "no line of another host is called stale"
    assert len(evidence.model_dump_json()) < 100_000
