"""What a probe is given goes by stdin, whatever its size: here and over a real sshd."""

import re

import pytest

from runbooks.core.reading import UnknownReason
from tasks.remote import probe
from tasks.remote.probe import MARK, run_program
from tasks.transport.base import Host, TransportError
from tasks.transport.local import LocalHost
from tasks.transport.ssh import SshHost

ECHO = """
import json, sys
ask = json.loads(sys.argv[1])
line = open("/proc/self/cmdline", "rb").read().replace(b"\\0", b" ").decode()
print(json.dumps({"n": len(ask["keys"]), "last": ask["keys"][-1], "line": line, "main": __name__}))
"""


@pytest.fixture(params=["here", "over ssh"])
def either(request: pytest.FixtureRequest) -> Host:
    return LocalHost("n") if request.param == "here" else request.getfixturevalue("host")


def test_data_of_any_size_arrives_and_never_shows(either: Host) -> None:
    """16 MiB: an argument holds 128 KiB. The mark stands there, so that a probe is never taken for a job."""
    keys = [f"/torch/elastic/store/{n:06d}/" + "k" * 140 for n in range(100_000)] + ["ü 'x' \\ \U0001f600"]
    got = run_program(either, "echo", ECHO, {"keys": keys}, timeout_s=60)
    assert (got["n"], got["last"], got["main"]) == (len(keys), keys[-1], "__main__")
    assert MARK in got["line"]
    assert len(got["line"]) < 1000
    assert "torch" not in got["line"]


def test_a_program_that_came_cut_off_does_nothing(either: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link that is cut while a program is sent looks to the node like its end: what came must not run."""
    monkeypatch.setattr(probe, "BOOT", re.sub(r"read\(\)", "read(30)", probe.BOOT))
    with pytest.raises(TransportError, match="cut off") as caught:
        run_program(either, "echo", "print('{}')\n" + "#" * 100, {}, timeout_s=20)
    assert caught.value.reason is UnknownReason.FAILED
    assert str(caught.value).endswith(f"({MARK} echo)")


def test_a_line_that_no_node_takes_is_refused_with_its_size(host: SshHost) -> None:
    with pytest.raises(TransportError, match="a node takes 128"):
        host.run(["true", "x" * (200 << 10)])
