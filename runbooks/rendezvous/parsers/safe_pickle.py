"""Reads a pickle without ever unpickling: a small stack machine over pickletools that builds plain records.

Nothing is imported, called or looked up. A global outside the caller's list, an operation outside the table
below, or a stream that is too long ends the reading with `Unreadable`.
"""

import pickletools
from collections.abc import Callable
from typing import Any

MAX_BYTES = 1 << 20
MAX_OPS = 50_000
_MARK = object()


class Unreadable(Exception):
    """The bytes are not a pickle of the expected kind. The message names the first thing that was refused."""


class Record:
    """An object that a pickle describes: class name, arguments, state. It is never constructed."""

    def __init__(self, module: str, name: str, args: Any) -> None:
        self.module, self.name, self.args = module, name, args
        self.state: Any = None

    def __repr__(self) -> str:
        return f"<{self.module}.{self.name}>"


class _Machine:
    """Stack and memo of one reading."""

    def __init__(self, allowed: frozenset[tuple[str, str]]) -> None:
        self.allowed, self.stack, self.memo = allowed, [], {}  # type: tuple[Any, list[Any], dict[int, Any]]

    def pop(self) -> Any:
        value = self.stack.pop()
        if value is _MARK:
            raise Unreadable("a mark where a value belongs")
        return value

    def to_mark(self) -> list[Any]:
        out: list[Any] = []
        while (value := self.stack.pop()) is not _MARK:
            out.append(value)
        return out[::-1]

    def last(self, count: int) -> tuple[Any, ...]:
        return tuple(self.pop() for _ in range(count))[::-1]

    def top(self, kind: type) -> Any:
        if not isinstance(self.stack[-1], kind):
            raise Unreadable(f"expected {kind.__name__} on the stack")
        return self.stack[-1]

    def named(self, module: Any, name: Any) -> tuple[str, str]:
        if not (isinstance(module, str) and isinstance(name, str) and (module, name) in self.allowed):
            raise Unreadable(f"refused global {module!r}.{name!r}"[:200])
        return module, name


def _key(value: Any) -> Any:
    """Only flat values and records may be keys or members: hashing nested tuples could be made to recurse."""
    if isinstance(value, (str, int, Record)):
        return value
    raise Unreadable(f"{type(value).__name__} as a key")


def _build(m: _Machine, _arg: Any) -> None:
    state = m.pop()
    m.top(Record).state = state


def _construct(m: _Machine, _arg: Any) -> None:
    args, cls = m.pop(), m.pop()
    if not (isinstance(cls, tuple) and len(cls) == 2 and cls in m.allowed and isinstance(args, tuple)):
        raise Unreadable("a call of something that is not an expected class")
    m.stack.append(Record(*cls, args))


def _setitems(m: _Machine, _arg: Any) -> None:
    items = m.to_mark()
    m.top(dict).update({_key(k): v for k, v in zip(items[::2], items[1::2], strict=True)})


def _setitem(m: _Machine, _arg: Any) -> None:
    value, key = m.pop(), m.pop()
    m.top(dict)[_key(key)] = value


def _additems(m: _Machine, _arg: Any) -> None:
    items = m.to_mark()
    m.top(set).update(_key(i) for i in items)


def _appends(m: _Machine, _arg: Any) -> None:
    items = m.to_mark()
    m.top(list).extend(items)


def _append(m: _Machine, _arg: Any) -> None:
    value = m.pop()
    m.top(list).append(value)


def _stack_global(m: _Machine, _arg: Any) -> None:
    name, module = m.pop(), m.pop()
    m.stack.append(m.named(module, name))


def _global(m: _Machine, arg: Any) -> None:
    m.stack.append(m.named(*str(arg).split(" ", 1)))


def _push(value: Callable[[], Any]) -> Callable[[_Machine, Any], None]:
    return lambda m, _arg: m.stack.append(value())


def _tuple(count: int) -> Callable[[_Machine, Any], None]:
    return lambda m, _arg: m.stack.append(m.last(count))


def _literal(m: _Machine, arg: Any) -> None:
    m.stack.append(arg)


def _memoize(m: _Machine, _arg: Any) -> None:
    m.memo[len(m.memo)] = m.stack[-1]


def _put(m: _Machine, arg: Any) -> None:
    m.memo[arg] = m.stack[-1]


_LITERALS = "SHORT_BINUNICODE BINUNICODE BININT BININT1 BININT2 LONG1 BINFLOAT SHORT_BINBYTES BINBYTES"
_OPS: dict[str, Callable[[_Machine, Any], None]] = {
    "PROTO": lambda _m, _a: None,
    "FRAME": lambda _m, _a: None,
    "MARK": lambda m, _a: m.stack.append(_MARK),
    "MEMOIZE": _memoize,
    "BINPUT": _put,
    "LONG_BINPUT": _put,
    "BINGET": lambda m, a: m.stack.append(m.memo[a]),
    "LONG_BINGET": lambda m, a: m.stack.append(m.memo[a]),
    "NONE": _push(lambda: None),
    "NEWTRUE": _push(lambda: True),
    "NEWFALSE": _push(lambda: False),
    "EMPTY_DICT": _push(dict),
    "EMPTY_LIST": _push(list),
    "EMPTY_SET": _push(set),
    "EMPTY_TUPLE": _push(tuple),
    "TUPLE": lambda m, _a: m.stack.append(tuple(m.to_mark())),
    "TUPLE1": _tuple(1),
    "TUPLE2": _tuple(2),
    "TUPLE3": _tuple(3),
    "GLOBAL": _global,
    "STACK_GLOBAL": _stack_global,
    "REDUCE": _construct,
    "NEWOBJ": _construct,
    "BUILD": _build,
    "SETITEM": _setitem,
    "SETITEMS": _setitems,
    "ADDITEMS": _additems,
    "APPEND": _append,
    "APPENDS": _appends,
} | dict.fromkeys(_LITERALS.split(), _literal)


def read_pickle(raw: bytes, allowed: frozenset[tuple[str, str]]) -> Any:
    """What `raw` describes: plain values and `Record`s of `allowed` (module, class). Raises Unreadable."""
    if len(raw) > MAX_BYTES:
        raise Unreadable(f"{len(raw)} bytes, more than {MAX_BYTES}")
    try:
        return _run(_Machine(allowed), raw)
    except Unreadable:
        raise
    except (ValueError, IndexError, KeyError, TypeError, OverflowError, AttributeError, RecursionError) as e:
        raise Unreadable(f"not a whole pickle: {type(e).__name__}: {e}"[:200]) from e


def _run(machine: _Machine, raw: bytes) -> Any:
    for count, (op, arg, _pos) in enumerate(pickletools.genops(raw)):
        if count >= MAX_OPS:
            raise Unreadable(f"more than {MAX_OPS} operations")
        if op.name == "STOP":
            return machine.pop()
        step = _OPS.get(op.name)
        if step is None:
            raise Unreadable(f"refused operation {op.name}")
        step(machine, arg)
    raise Unreadable("the stream ends early")
