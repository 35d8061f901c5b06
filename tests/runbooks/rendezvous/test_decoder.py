"""States decode without torch; a hostile pickle does nothing, whatever it asks for."""

import base64
import os
import pickle
import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runbooks.parsers.torchrun_cmdline import parse_launch
from runbooks.rendezvous.parsers.rdzv_state import decode_state
from runbooks.rendezvous.parsers.safe_pickle import Unreadable

DYNAMIC = "torch.distributed.elastic.rendezvous.dynamic_rendezvous"


def real_state(protocol: int, **fields: Any) -> str:
    """A pickle of torch's own class."""
    torch_module = pytest.importorskip(DYNAMIC, reason="torch is missing: pip install torch==2.13.0")
    state = torch_module._RendezvousState()
    node = torch_module._NodeDesc("n1", 100, 0)
    state.participants[node] = 0
    state.last_heartbeats[node] = datetime(2026, 5, 1, 12, 0, 1, 250000, tzinfo=UTC)
    state.wait_list.add(torch_module._NodeDesc("n2", 7, 1))
    for name, value in fields.items():
        setattr(state, name, value)
    return base64.b64encode(pickle.dumps(state, protocol)).decode()


@pytest.mark.parametrize("protocol", [3, 4, 5])
def test_a_real_state_decodes(protocol: int) -> None:
    """Every protocol that torch uses (the default of its Python: 3, 4 or 5)."""
    got = decode_state(real_state(protocol, round=3, complete=True, closed=True))
    assert (got.round, got.complete, got.closed) == (3, True, True)
    assert [s.member.label for s in got.participants] == ["n1_100_0"]
    assert [m.label for m in got.wait_list] == ["n2_7_1"]
    assert got.beats[0].at == datetime(2026, 5, 1, 12, 0, 1, 250000, tzinfo=UTC)


class Hostile:
    """Runs a command when it is unpickled."""

    def __init__(self, *call: Any) -> None:
        self.call = call

    def __reduce__(self) -> Any:
        return self.call[0], tuple(self.call[1:])


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
def test_a_hostile_pickle_does_nothing(tmp_path: Path, protocol: int) -> None:
    """Neither a command, nor an import, nor a file."""
    mark = tmp_path / "mark"
    for call in (
        (os.system, f"touch {mark}"),
        (subprocess.call, ["touch", str(mark)]),
        (eval, f"open({str(mark)!r}, 'w')"),
        (getattr, "text", "upper"),
    ):
        text = base64.b64encode(pickle.dumps({"x": Hostile(*call)}, protocol)).decode()
        with pytest.raises(Unreadable):
            decode_state(text)
    assert not mark.exists()


def test_nothing_is_imported() -> None:
    """A global of a module that is not loaded stays not loaded, and the decoder never needs torch."""
    code = (
        "import sys, base64\n"
        "from runbooks.rendezvous.parsers.rdzv_state import decode_state\n"
        "from runbooks.rendezvous.parsers.safe_pickle import Unreadable\n"
        "try: decode_state(base64.b64encode(b'\\x80\\x04\\x8c\\x09antigravi\\x8c\\x01x\\x93.').decode())\n"
        "except Unreadable as e: print(e)\n"
        "assert 'torch' not in sys.modules and 'antigravity' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "refused global" in done.stdout


@given(st.binary(max_size=400))
@settings(max_examples=500, deadline=None)
def test_any_bytes_are_a_state_or_unreadable(raw: bytes) -> None:
    """Never another error."""
    with pytest.raises(Unreadable):
        decode_state(base64.b64encode(raw).decode())


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_a_damaged_state_is_read_or_unreadable(data: st.DataObject) -> None:
    """Bytes changed in a real state."""
    raw = bytearray(base64.b64decode(real_state(4)))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    with suppress(Unreadable):
        decode_state(base64.b64encode(bytes(raw)).decode())


def test_deep_and_long_pickles_end() -> None:
    """Nesting and length are bounded."""
    deep, long = b"\x80\x04" + b")\x85" * 60_000 + b".", b"\x80\x04]" + b"\x94" * 60_000 + b"."
    for raw in (b"(" * 100_000 + b".", deep, long):
        with pytest.raises(Unreadable):
            decode_state(base64.b64encode(raw).decode())


def test_command_lines() -> None:
    """Forms in which torchrun is started."""
    key = b"k"
    plain = parse_launch(
        [
            "/usr/bin/python",
            "/x/torchrun",
            "--nnodes",
            "2:4",
            "--rdzv_id=a",
            "--rdzv-backend",
            "c10d",
            "t.py",
            "--lr",
            "1",
        ],
        key,
    )
    assert plain is not None
    assert (plain.run_id, plain.backend, plain.min_nodes, plain.max_nodes, plain.script) == ("a", "c10d", 2, 4, "t.py")
    module = parse_launch(
        ["python", "-m", "torch.distributed.run", "--standalone", "-m", "pkg.train", "--token", "x"], key
    )
    assert module is not None
    assert (module.standalone, module.script, module.run_id) == (True, "pkg.train", "none")
    assert "token" not in module.model_dump_json()
    pet = parse_launch(["torchrun", "t.py"], key, {"PET_RDZV_ID": "k8s", "PET_NNODES": "3"})
    assert pet is not None
    assert (pet.run_id, pet.min_nodes) == ("k8s", 3)
    assert parse_launch(["python", "train.py"], key) is None
