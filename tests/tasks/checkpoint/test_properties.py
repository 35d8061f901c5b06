"""Any damage anywhere: never an exception, never silence where the format has checksums; and no pickle ever runs."""

import ast
import contextlib
import io
import os
import pickle
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runbooks.checkpoint.parsers import pickled as ckpt_pickle
from runbooks.checkpoint.parsers.machine import PickleUnreadable
from runbooks.checkpoint.parsers.sets import CheckpointSpec
from runbooks.checkpoint.parsers.sniff import check_file
from tests.support.ckpt_files import FORMATS, Files, bytes_blob, judge, need, save, spec_for

PARSERS = Path(ckpt_pickle.__file__).parent
WHOLE: dict[str, Files] = {}


@pytest.fixture(scope="module", autouse=True)
def _whole(tmp_path_factory: pytest.TempPathFactory) -> None:
    for form in FORMATS:
        WHOLE[form] = save(form, tmp_path_factory.mktemp(form), width=8)


def _same(a: object, b: object) -> bool:
    torch = need("torch")
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(_same(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(_same, a, b))
    return bool(torch.equal(a, b)) if isinstance(a, torch.Tensor) else a == b


@settings(max_examples=400, deadline=None)
@given(st.floats(0, 1, exclude_max=True), st.integers(0, 7))
def test_any_flipped_bit_of_a_zip_is_told(where: float, bit: int) -> None:
    """Refused, or noted and proven to load the very same values."""
    torch = need("torch")
    data = WHOLE["torch-zip"]["ckpt.pt"]
    at = int(where * len(data))
    broken = data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]
    check = judge({"ckpt.pt": broken}, spec_for("torch-zip"))
    if check.whole:
        assert check.notes, f"bit {bit} of byte {at} passed without a word"
        loaded = [torch.load(io.BytesIO(d), weights_only=True) for d in (broken, data)]
        assert _same(*loaded)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(FORMATS), st.floats(0, 1), st.integers(1, 5000), st.binary(max_size=64), st.data())
def test_any_cut_is_told(form: str, where: float, length: int, insert: bytes, data: st.DataObject) -> None:
    """A piece cut out of (or replaced by other bytes in) any file: told, for every format, if the length changed."""
    files = WHOLE[form]
    name = data.draw(st.sampled_from(sorted(n for n in files if not n.endswith(".json"))))
    old = files[name]
    at = int(where * (len(old) - 1))
    new = old[:at] + insert + old[at + length :]
    if len(new) != len(old):
        assert not judge(files | {name: new}, spec_for(form)).whole


@settings(max_examples=300, deadline=None)
@given(
    st.binary(max_size=400),
    st.sampled_from([b"", b"PK\x03\x04", b"\x80\x02", b"\x08" + bytes(7) + b"{", b"\x80\x04"]),
)
def test_any_bytes_give_an_answer(tail: bytes, head: bytes) -> None:
    assert not check_file(bytes_blob("x.pt", head + tail)).whole
    assert check_file(bytes_blob("x.safetensors", head + tail)).faults or tail.startswith(b"}")


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=300))
def test_pickle_machine_never_breaks(data: bytes) -> None:
    with contextlib.suppress(PickleUnreadable):
        ckpt_pickle.load(data)


class _Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("touch /tmp/never-made-by-checkpoint-check",)


def test_nothing_is_executed_or_imported(tmp_path: Path) -> None:
    torch = need("torch")
    torch.save({"model_state_dict": {"w": torch.ones(40)}, "x": _Evil(), "step": 100}, tmp_path / "ckpt.pt")
    check = judge({"ckpt.pt": (tmp_path / "ckpt.pt").read_bytes()}, spec_for("torch-zip"))
    assert check.whole
    assert check.unsafe_globals == ["posix.system"]
    assert not Path("/tmp/never-made-by-checkpoint-check").exists()
    for line in ("exec(", "eval(", "__import__", "import pickle", "importlib", "getattr(v", "subprocess"):
        assert line not in (PARSERS / "pickled.py").read_text()


def test_bombs_are_cheap() -> None:
    """Memo index of four gigabytes, a claimed length of an exabyte, keys whose hash would take for ever."""
    nested = b"\x80\x02(K\x01t" + b"2\x86" * 200 + b"q\x00}h\x00K\x01s."
    bombs = (
        b"\x80\x02Nr\xff\xff\xff\xff.",
        b"\x80\x04\x8e" + b"\xff" * 7 + b"\x0f.",
        nested,
        b"\x80\x02" + b"(" * 100000 + b".",
    )
    begun = time.monotonic()
    for bomb in bombs:
        with contextlib.suppress(PickleUnreadable):
            ckpt_pickle.load(bomb)
    assert time.monotonic() - begun < 30


def test_refused_globals_as_torch_says(tmp_path: Path) -> None:
    """The names that weights_only refuses are those that torch itself lists."""
    torch, numpy = need("torch"), need("numpy")
    model = torch.nn.Linear(3, 3)
    plain = {
        "m": model.state_dict(),
        "p": torch.nn.Parameter(torch.ones(3)),
        "s": torch.Size([3]),
        "d": torch.float16,
    }
    odd = {"n": numpy.float64(3.0), "a": numpy.ones(3), "w": Path("x"), "m": model}
    for value in (plain, odd, {**plain, **odd}):
        torch.save(value, tmp_path / "x.pt")
        check = check_file(bytes_blob("x.pt", (tmp_path / "x.pt").read_bytes()))
        assert check.faults == []
        assert check.refused_globals == sorted(torch.serialization.get_unsafe_globals_in_checkpoint(tmp_path / "x.pt"))


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
def test_plain_values_as_pickle_reads_them(protocol: int) -> None:
    value: dict[Any, Any] = {
        "a": [1, -5, 1 << 70, 2.5, None, True, False],
        "b": ("x", b"y", "\u20ac"),
        3: {"c": {1, 2}},
        "e": "",
        "l": [[]] * 3,
    }
    if protocol < 4:
        value.pop(3)
    if protocol < 3:
        value["b"] = ("x", "\u20ac")
    assert ckpt_pickle.load(pickle.dumps(value, protocol))[0] == value


def test_whole_models_of_many_kinds(tmp_path: Path) -> None:
    """Views, shared storages, empty tensors, half, complex, sparse, quantised-like, module objects: none is refused."""
    torch = need("torch")
    base = torch.randn(50, 40)
    value = {
        "view": base[3:7, ::2], "t": base.t(), "empty": torch.empty(0, 3), "scalar": torch.tensor(3),
        "half": base.half(),
        "bool": base > 0, "complex": torch.randn(3, dtype=torch.complex64), "sparse": base.relu().to_sparse(),
        "f8": base.to(torch.float8_e4m3fn), "u16": torch.zeros(9, dtype=torch.uint16), "exp": base[:1].expand(9, 40),
        "par": torch.nn.Parameter(base), "module": torch.nn.Sequential(torch.nn.Linear(4, 4)),
        "rng": torch.get_rng_state(),
    }  # fmt: skip
    for zipped in (True, False):
        for protocol in (2, 4, 5):
            torch.save(value, tmp_path / "x.pt", _use_new_zipfile_serialization=zipped, pickle_protocol=protocol)
            check = judge({"x.pt": (tmp_path / "x.pt").read_bytes()}, CheckpointSpec())
            assert check.faults == [], (zipped, protocol)


def test_node_modules_are_python_38() -> None:
    for path in PARSERS.glob("*.py"):
        ast.parse(path.read_text(), feature_version=(3, 8))
