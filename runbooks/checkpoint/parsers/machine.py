"""The stack machine that a pickle is read on as data: names and records, nothing is imported or called."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class PickleUnreadable(Exception):
    """Not a pickle, or cut off."""

    kind = "pickle"


class Beyond(PickleUnreadable):
    """Larger or newer than what is read here: says nothing against the pickle."""

    kind = "beyond-reader"


class Global(NamedTuple):
    """A name that a real unpickler would import."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


class Call:
    """A call or construction that a real unpickler would make, with what was put into its result."""

    __slots__ = ("args", "func", "items", "pairs", "state")

    def __init__(self, func: Any, args: Any) -> None:
        self.func, self.args = func, args
        self.state: Any = None
        self.pairs: list[tuple[Any, Any]] = []
        self.items: list[Any] = []

    @property
    def name(self) -> str:
        """Dotted name of what would be called."""
        return str(self.func) if isinstance(self.func, Global) else "?"


class Persistent(NamedTuple):
    """A reference out of the pickle (torch: a storage)."""

    pid: Any


MARK = object()
LONGEST = 64 << 20  # bytes of one pickle


def as_key(key: Any) -> Any:
    """`key`, if hashing it is cheap; nested tuples that double at each level would take for ever."""
    if isinstance(key, (str, int, float, bytes, type(None), Call, Global)):
        return key
    budget, todo = 256, [key]
    while todo:
        item, budget = todo.pop(), budget - 1
        if budget < 0 or isinstance(item, (list, dict, set, bytearray)):
            raise Beyond("a key that cannot be hashed cheaply")
        if isinstance(item, (tuple, frozenset)):
            todo.extend(item)
    return key


class PickleMachine:
    """Runs one pickle's opcodes over plain lists."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data, self.at = data, at
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.globals: set[Global] = set()
        self.protocol = 0

    def take(self, n: int) -> bytes:
        end = self.at + n
        if n < 0 or end > len(self.data):
            raise PickleUnreadable(f"ends at byte {len(self.data)}, needs {end}")
        out = self.data[self.at : end]
        self.at = end
        return out

    def line(self) -> bytes:
        end = self.data.find(b"\n", self.at)
        if end < 0:
            raise PickleUnreadable("a text line without end")
        out = self.data[self.at : end]
        self.at = end + 1
        return out

    def until_mark(self) -> list[Any]:
        for i in range(len(self.stack) - 1, -1, -1):
            if self.stack[i] is MARK:
                items = self.stack[i + 1 :]
                del self.stack[i:]
                return items
        raise PickleUnreadable("no mark")

    def run(self, table: Mapping[int, Callable[[PickleMachine], None]]) -> Any:
        """The pickle's object; `table` says what each opcode does. `at` is then behind its STOP."""
        code = self.data
        try:
            while True:
                op = code[self.at]
                self.at += 1
                if op == 0x2E:  # STOP
                    return self.stack.pop()
                table[op](self)
        except PickleUnreadable:
            raise
        except KeyError as e:
            raise PickleUnreadable(f"unknown opcode or memo entry {e} at byte {self.at - 1}") from e
        except (IndexError, ValueError, TypeError, AttributeError, OverflowError, struct.error) as e:
            raise PickleUnreadable(f"{type(e).__name__} at byte {self.at}: {e}") from e

    def add_global(self, module: Any, name: Any) -> None:
        if not isinstance(module, str) or not isinstance(name, str):
            raise PickleUnreadable("a global whose name is not text")
        found = Global(module, name)
        self.globals.add(found)
        self.stack.append(found)

    def put_pairs(self, target: Any, flat: list[Any]) -> None:
        pairs = list(zip(flat[::2], flat[1::2]))  # noqa: B905 - no strict= before Python 3.10
        if isinstance(target, dict):
            target.update((as_key(k), v) for k, v in pairs)
        elif isinstance(target, Call):
            target.pairs.extend(pairs)
        else:
            raise PickleUnreadable("pairs for something that is no mapping")

    def put_items(self, target: Any, items: list[Any]) -> None:
        if isinstance(target, list):
            target.extend(items)
        elif isinstance(target, set):
            target.update(as_key(i) for i in items)
        elif isinstance(target, Call):
            target.items.extend(items)
        else:
            raise PickleUnreadable("items for something that is no list")
