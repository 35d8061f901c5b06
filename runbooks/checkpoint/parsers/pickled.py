"""Reads a pickle as data: no import, no call, no attribute access. Globals become names, calls become records."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from runbooks.checkpoint.parsers.machine import (
    LONGEST,
    MARK,
    Beyond,
    Call,
    Global,
    Persistent,
    PickleMachine,
    PickleUnreadable,
    as_key,
)

_U16, _U32, _U64, _I32, _F64 = (struct.Struct(f) for f in ("<H", "<I", "<Q", "<i", ">d"))
Op = Callable[[PickleMachine], None]


def _push(value: Callable[[PickleMachine], Any]) -> Op:
    return lambda m: m.stack.append(value(m))


def _setitem(m: PickleMachine) -> None:
    value, key = m.stack.pop(), m.stack.pop()
    m.put_pairs(m.stack[-1], [key, value])


def _many(put: str) -> Op:
    def run(m: PickleMachine) -> None:
        items = m.until_mark()
        getattr(m, put)(m.stack[-1], items)

    return run


def _append(m: PickleMachine) -> None:
    item = m.stack.pop()
    m.put_items(m.stack[-1], [item])


def _tuple_of(n: int) -> Op:
    def run(m: PickleMachine) -> None:
        if len(m.stack) < n:
            raise PickleUnreadable("stack too short")
        items = tuple(m.stack[-n:])
        m.stack[-n:] = [items]

    return run


def _dict(m: PickleMachine) -> None:
    made: dict[Any, Any] = {}
    m.put_pairs(made, m.until_mark())
    m.stack.append(made)


def _global(m: PickleMachine) -> None:
    m.add_global(m.line().decode(), m.line().decode())


def _stack_global(m: PickleMachine) -> None:
    name, module = m.stack.pop(), m.stack.pop()
    m.add_global(module, name)


def _call(m: PickleMachine) -> None:
    args, func = m.stack.pop(), m.stack.pop()
    m.stack.append(Call(func, args))


def _newobj_ex(m: PickleMachine) -> None:
    kwargs, args, cls = m.stack.pop(), m.stack.pop(), m.stack.pop()
    m.stack.append(Call(cls, (args, kwargs)))


def _obj(m: PickleMachine) -> None:
    items = m.until_mark()
    m.stack.append(Call(items[0], tuple(items[1:])))


def _inst(m: PickleMachine) -> None:
    _global(m)
    cls = m.stack.pop()
    m.stack.append(Call(cls, tuple(m.until_mark())))


def _build(m: PickleMachine) -> None:
    state = m.stack.pop()
    target = m.stack[-1]
    if isinstance(target, Call):
        target.state = state


def _ext(size: int) -> Op:
    return lambda m: m.add_global("copyreg extension", str(int.from_bytes(m.take(size), "little")))


def _int(m: PickleMachine) -> Any:
    text = m.line()
    return {b"00": False, b"01": True}[text] if text in (b"00", b"01") else int(text)


def _quoted(m: PickleMachine) -> str:
    return m.line().strip()[1:-1].decode("latin-1")


def _put(index: Callable[[PickleMachine], int]) -> Op:
    def run(m: PickleMachine) -> None:
        m.memo[index(m)] = m.stack[-1]

    return run


def _pop(m: PickleMachine) -> None:
    m.stack.pop()


def _sized(unpack: struct.Struct) -> Callable[[PickleMachine], bytes]:
    return lambda m: m.take(unpack.unpack(m.take(unpack.size))[0])


_B4, _B8 = _sized(_U32), _sized(_U64)
_B1: Callable[[PickleMachine], bytes] = lambda m: m.take(m.take(1)[0])  # noqa: E731
_get: Callable[[Callable[[PickleMachine], int]], Op] = lambda index: _push(lambda m: m.memo[index(m)])  # noqa: E731
_u8: Callable[[PickleMachine], int] = lambda m: m.take(1)[0]  # noqa: E731
_u32: Callable[[PickleMachine], int] = lambda m: int(_U32.unpack(m.take(4))[0])  # noqa: E731


def _text(read: Callable[[PickleMachine], bytes]) -> Op:
    return _push(lambda m: read(m).decode("utf-8", "surrogatepass"))


def _proto(m: PickleMachine) -> None:
    m.protocol = m.take(1)[0]
    if m.protocol > 5:
        raise Beyond(f"pickle protocol {m.protocol}")


# ruff: noqa: ARG005
OPCODES: dict[int, Op] = {
    ord(k): v
    for k, v in {
        "\x80": _proto, "\x95": lambda m: m.take(8) and None, "(": _push(lambda m: MARK), "0": _pop,
        "1": lambda m: m.until_mark() and None, "2": _push(lambda m: m.stack[-1]), "N": _push(lambda m: None),
        "\x88": _push(lambda m: True), "\x89": _push(lambda m: False), "I": _push(_int),
        "J": _push(lambda m: _I32.unpack(m.take(4))[0]), "K": _push(_u8),
        "M": _push(lambda m: _U16.unpack(m.take(2))[0]), "L": _push(lambda m: int(m.line().rstrip(b"L"))),
        "\x8a": _push(lambda m: int.from_bytes(_B1(m), "little", signed=True)),
        "\x8b": _push(lambda m: int.from_bytes(_B4(m), "little", signed=True)),
        "F": _push(lambda m: float(m.line())), "G": _push(lambda m: _F64.unpack(m.take(8))[0]),
        "S": _push(_quoted), "T": _push(lambda m: _B4(m).decode("latin-1")),
        "U": _push(lambda m: _B1(m).decode("latin-1")),
        "V": _push(lambda m: m.line().decode("raw-unicode-escape")), "X": _text(_B4), "\x8c": _text(_B1),
        "\x8d": _text(_B8), "B": _push(_B4), "C": _push(_B1), "\x8e": _push(_B8),
        "\x96": _push(lambda m: bytearray(_B8(m))), "]": _push(lambda m: []), "a": _append,
        "e": _many("put_items"), "l": _push(lambda m: m.until_mark()), ")": _push(lambda m: ()),
        "t": _push(lambda m: tuple(m.until_mark())), "\x85": _tuple_of(1), "\x86": _tuple_of(2),
        "\x87": _tuple_of(3), "}": _push(lambda m: {}), "d": _dict, "s": _setitem, "u": _many("put_pairs"),
        "\x8f": _push(lambda m: set()), "\x90": _many("put_items"),
        "\x91": _push(lambda m: frozenset(as_key(i) for i in m.until_mark())),
        "g": _get(lambda m: int(m.line())), "h": _get(_u8), "j": _get(_u32), "p": _put(lambda m: int(m.line())),
        "q": _put(_u8), "r": _put(_u32), "\x94": _put(lambda m: len(m.memo)), "c": _global,
        "\x93": _stack_global, "R": _call, "\x81": _call, "\x92": _newobj_ex, "o": _obj, "i": _inst, "b": _build,
        "P": _push(lambda m: Persistent(m.line().decode())), "Q": _push(lambda m: Persistent(m.stack.pop())),
        "\x82": _ext(1), "\x83": _ext(2), "\x84": _ext(4),
    }.items()
}  # fmt: skip


def load(data: bytes, at: int = 0) -> tuple[Any, int, set[Global]]:
    """The object at `at`, the offset behind it, every global named. Raises Unreadable."""
    if len(data) - at > LONGEST:
        raise Beyond(f"{len(data) - at} bytes are more than {LONGEST}")
    machine = PickleMachine(data, at)
    return machine.run(OPCODES), machine.at, machine.globals


def as_dict(value: Any) -> dict[Any, Any] | None:
    """A mapping (dict, or a call of OrderedDict and the like) as a dict; None for anything else."""
    if isinstance(value, dict):
        return value
    if isinstance(value, Call) and value.name.split(".")[-1] in ("OrderedDict", "defaultdict", "Counter"):
        return {as_key(k): v for k, v in value.pairs}
    return None
