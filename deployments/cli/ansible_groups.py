"""The hosts and groups of an Ansible inventory, and which of several values of a variable reaches a host."""

from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from typing import Any

ALL = "all"  # contains every group


class Groups:
    """Hosts and groups as they were read."""

    def __init__(self) -> None:
        self.own: dict[str, dict[str, Any]] = {}  # host -> its own variables
        self.shared: dict[str, dict[str, Any]] = {}  # group -> the variables of all its hosts
        self._groups: dict[str, set[str]] = {}  # host -> the groups that name it
        self._parents: dict[str, set[str]] = {}  # group -> the groups that contain it

    def add(self, group: str, host: str, variables: dict[str, Any]) -> None:
        """A host of that group; what is said of it later goes before what was said of it earlier."""
        self.own.setdefault(host, {}).update(variables)
        self._groups.setdefault(host, set()).add(group)

    def contain(self, group: str, child: str) -> None:
        """That group contains another."""
        self._parents.setdefault(child, set()).add(group)

    def hosts(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Each host with the variables that reach it. Raises ValueError for a group that contains itself."""
        levels = self._levels()
        return ((host, self._reaching(host, levels)) for host in self.own)

    def _reaching(self, host: str, levels: dict[str, int]) -> dict[str, Any]:
        """As Ansible merges them: `all`, then from the outer groups to the inner ones, by name where they are alike, then its own."""
        todo, above = list(self._groups[host]), {ALL}
        while todo:
            group = todo.pop()
            if group not in above:
                above.add(group)
                todo += self._parents.get(group, ())
        merged: dict[str, Any] = {}
        for group in sorted(above, key=lambda g: (levels.get(g, 1), g)):
            merged |= self.shared.get(group, {})
        return merged | self.own[host]

    def _levels(self) -> dict[str, int]:
        """How far below `all` each group is that another one contains; every other group is one below it."""
        levels = {ALL: 0}
        try:
            order = list(TopologicalSorter(self._parents).static_order())
        except CycleError as e:
            raise ValueError(f"the group {e.args[1][0]} contains itself") from e
        for group in order:
            levels.setdefault(group, 1 + max((levels[p] for p in self._parents.get(group, ())), default=0))
        return levels
