"""Tensors named by a torch pickle: shapes, the storages that they need, top-level keys and scalars. Python 3.8,
stdlib only."""

from __future__ import annotations

from typing import Any, NamedTuple

from runbooks.checkpoint.parsers.machine import Call, Global, Persistent
from runbooks.checkpoint.parsers.pickled import as_dict
from runbooks.checkpoint.parsers.types import StructureCheck

ITEM = {
    "Double": 8, "Float": 4, "Half": 2, "BFloat16": 2, "Long": 8, "Int": 4, "Short": 2, "Char": 1, "Byte": 1,
    "Bool": 1, "ComplexDouble": 16, "ComplexFloat": 8, "QUInt8": 1, "QInt8": 1, "QInt32": 4, "QUInt4x2": 1,
    "QUInt2x4": 1, "Untyped": 1,
}  # fmt: skip
DTYPE = {
    "float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "int64": 8, "int32": 4, "int16": 2, "int8": 1,
    "uint8": 1, "bool": 1, "complex128": 16, "complex64": 8, "uint16": 2, "uint32": 4, "uint64": 8,
    "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1, "float8_e8m0fnu": 1,
    "complex32": 4, "qint8": 1, "quint8": 1, "qint32": 4,
}  # fmt: skip
SHORT = {"Float": "float32", "Double": "float64", "Half": "float16", "BFloat16": "bfloat16", "Long": "int64",
         "Int": "int32", "Short": "int16", "Char": "int8", "Byte": "uint8", "Bool": "bool",
         "ComplexFloat": "complex64", "ComplexDouble": "complex128"}  # fmt: skip
REBUILD = ("parameter", "parameter_with_state", "qtensor", "tensor", "tensor_v2", "tensor_v3", "sparse_tensor",
           "meta_tensor_no_storage", "nested_tensor", "wrapper_subclass", "device_tensor_from_numpy",
           "device_tensor_from_cpu_tensor")  # fmt: skip
DEFAULT_ALLOWED = {  # what torch.load(weights_only=True) takes without being told (torch 2.13)
    "collections.OrderedDict", "collections.Counter", "torch.nn.parameter.Parameter", "torch.serialization._get_layout",
    "torch.Size", "torch.Tensor", "torch.device", "_codecs.encode", "builtins.bytearray", "builtins.set",
    "builtins.complex",
    "__builtin__.bytearray", "__builtin__.set", "__builtin__.complex", "torch._tensor._rebuild_from_type_v2",
    *(f"torch._utils._rebuild_{name}" for name in REBUILD),
}  # fmt: skip
RUNS_CODE = {
    "os", "posix", "nt", "subprocess", "sys", "runpy", "socket", "shutil", "importlib", "pickle", "_pickle", "pty",
    "code",
    "webbrowser", "asyncio", "ctypes", "multiprocessing", "commands", "bdb", "pdb", "timeit", "builtins", "__builtin__",
    "operator", "functools", "copyreg extension", "requests", "urllib", "http", "threading", "signal", "tempfile",
    "platform",
}  # fmt: skip
HARMLESS_BUILTINS = {"set", "frozenset", "bytearray", "complex", "object", "list", "dict", "tuple", "int", "float",
"str",
                     "bytes", "slice", "range", "bool"}  # fmt: skip


class Storage(NamedTuple):
    """A storage that the pickle refers to."""

    key: str
    bytes: int
    item: int


class Walk:
    """Collects what a torch pickle says."""

    def __init__(self) -> None:
        self.tensors: dict[str, str] = {}
        self.storages: dict[str, Storage] = {}
        self.dtypes: dict[str, str] = {}  # storage -> type of its numbers
        self.named: dict[str, str] = {}  # storage -> the first tensor in it
        self.bad: list[str] = []
        self.unknown: list[str] = []  # storages of a type that is not known here

    def run(self, root: Any) -> None:
        """Visits every object once."""
        seen: set[int] = set()
        todo: list[tuple[Any, str]] = [(root, "")]
        while todo:
            value, path = todo.pop()
            if isinstance(value, (str, int, float, bytes, type(None), Global)) or id(value) in seen:
                continue
            seen.add(id(value))
            if isinstance(value, Persistent):
                self.storage(value)
            elif isinstance(value, Call) and value.name.startswith("torch._utils._rebuild_tensor"):
                self.tensor(value, path)
            todo.extend(_inside(value, path))

    def storage(self, found: Persistent) -> Storage | None:
        """Records a storage reference `('storage', type, key, location, numel)`."""
        pid = found.pid
        if not (isinstance(pid, tuple) and len(pid) >= 5 and pid[0] == "storage" and isinstance(pid[1], Global)):
            return None
        item = ITEM.get(pid[1].name.replace("Storage", ""))
        if item is None and pid[1].name.endswith("Storage"):
            self.unknown.append(f"storage type {pid[1]} is not known here")
            return None
        if item is None or not isinstance(pid[2], str) or not isinstance(pid[4], int) or pid[4] < 0:
            self.bad.append(f"a storage reference of type {pid[1]} that makes no sense")
            return None
        known = Storage(pid[2], pid[4] * item, item)
        before = self.storages.get(known.key)
        if before is not None and before.bytes != known.bytes:
            self.bad.append(f"storage {known.key} is {before.bytes} and {known.bytes} bytes long")
        self.storages[known.key] = known
        return known

    def tensor(self, call: Call, path: str) -> None:
        """Records a tensor and checks that it lies within its storage."""
        args = call.args if isinstance(call.args, tuple) else ()
        if len(args) < 4 or not isinstance(args[0], Persistent):
            return
        storage = self.storage(args[0])
        offset, size, stride = args[1], args[2], args[3]
        dims = (size, stride)
        if storage is None or not all(isinstance(d, tuple) and all(isinstance(n, int) for n in d) for d in dims):
            return
        kind = args[0].pid[1].name.replace("Storage", "")
        dtype, item = SHORT.get(kind, kind.lower()), storage.item
        if call.name.endswith("_v3") and len(args) > 6 and isinstance(args[6], Global):
            dtype = args[6].name
            item = DTYPE.get(dtype, 1)
        self.tensors[path] = f"{dtype}{list(size)}"
        self.dtypes.setdefault(storage.key, dtype)
        self.named.setdefault(storage.key, path)
        empty = any(n == 0 for n in size)
        last = 0 if empty else offset + 1 + sum((n - 1) * s for n, s in zip(size, stride))  # noqa: B905
        if len(size) != len(stride) or any(n < 0 for n in size) or last * item > storage.bytes:
            self.bad.append(
                f"tensor {path} needs {last * item} bytes of storage {storage.key}, which has {storage.bytes}"
            )


def _inside(value: Any, path: str) -> list[tuple[Any, str]]:
    dot = path + "." if path else ""
    if isinstance(value, dict):
        return [(v, f"{dot}{k}" if isinstance(k, (str, int)) else path) for k, v in value.items()]
    if isinstance(value, (list, tuple)):
        return [(v, f"{dot}{i}") for i, v in enumerate(value)]
    if isinstance(value, (set, frozenset)):
        return [(v, path) for v in value]
    if isinstance(value, Call):
        pairs = [(v, f"{dot}{k}" if isinstance(k, (str, int)) else path) for k, v in value.pairs]
        return [(value.args, path), (value.state, path), (value.items, path), *pairs]
    return [(value.pid, path)] if isinstance(value, Persistent) else []


def _safe_by_default(found: Global) -> bool:
    name = str(found)
    if name in DEFAULT_ALLOWED:
        return True
    return found.module in ("torch", "torch.storage") and (found.name in DTYPE or found.name.endswith("Storage"))


def _runs_code(found: Global) -> bool:
    top = found.module.split(".")[0]
    if top in ("builtins", "__builtin__"):
        return found.name not in HARMLESS_BUILTINS
    return top in RUNS_CODE or found.module in RUNS_CODE


def judge_globals(check: StructureCheck, found: set[Global], known: frozenset[str] = frozenset()) -> None:
    """Lists the globals that torch.load refuses by default, and those that would run code."""
    rest = sorted(g for g in found if str(g) not in known)
    refused, unsafe = (
        [str(g) for g in rest if not _safe_by_default(g)],
        [str(g) for g in rest if _runs_code(g)],
    )
    check.refused_globals = sorted({*check.refused_globals, *refused})
    check.unsafe_globals = sorted({*check.unsafe_globals, *unsafe})


def describe_top(check: StructureCheck, root: Any) -> None:
    """Top-level keys and plain values of the checkpoint's object."""
    top = as_dict(root)
    if top is None:
        return
    check.keys = sorted(str(k) for k in top)
    plain = {
        str(k): v for k, v in top.items() if isinstance(v, (int, float, bool)) or (isinstance(v, str) and len(v) < 200)
    }
    check.scalars = dict(sorted(plain.items())[:50])
