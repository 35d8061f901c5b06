"""A probe as it is sent to a node, run here: its names, which a test may read and replace."""

import sys
from typing import Any

from tasks.remote.program import OURS, program


class Sent(dict[str, Any]):
    """Every name of the probe's program. A name that is replaced is replaced wherever the program uses it."""

    def __init__(self, probe: str) -> None:
        main: dict[str, Any] = {"__name__": "probe"}
        here = _ours()
        try:
            exec(compile(program(probe), probe, "exec"), main)  # noqa: S102 - our own probe
            self._tables = [*(vars(module) for module in _ours().values()), main]
        finally:
            _ours()
            sys.modules.update(here)
        super().__init__({name: what for table in self._tables for name, what in table.items()})

    def __setitem__(self, name: str, what: Any) -> None:
        for table in self._tables:
            if table.get(name) is self[name]:
                table[name] = what
        super().__setitem__(name, what)


def _ours() -> dict[str, Any]:
    """Our modules, taken out of those that are loaded."""
    names = [name for name in sys.modules if f"{name}.".startswith(OURS)]
    return {name: sys.modules.pop(name) for name in names}
