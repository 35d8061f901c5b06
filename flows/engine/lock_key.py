"""What an owner physically is: two names of one machine share locks, history and budget; one name of two machines not."""

from pathlib import Path

from prefect.client.schemas.objects import FlowRun

from runbooks.core.base import Frozen
from runbooks.core.fleet import Fleet, Node
from tasks.context import Context
from tasks.remote import machine_identity
from tasks.remote.machine_identity import mark
from tasks.this_machine import boot_id
from tasks.transport.base import TransportError

ENGINE = "engine"  # owner of the files of the machine that acts


class LockKey(Frozen):
    """An owner, and by what it is known besides its name."""

    owner: str
    locks: tuple[str, ...] = ()  # at most one action at a time on whatever shares one of these
    same: tuple[str, ...] = ()  # what shares one of these is the same place; empty: not known
    doubt: str = ""  # why that is not known

    @property
    def marks(self) -> tuple[str, ...]:
        """What it is known by, also where it could not be read: what it shares these with is the same machine."""
        return tuple(dict.fromkeys((*self.same, *(m for m in self.locks if m.startswith("at-")))))

    @property
    def lock(self) -> str:
        """The name of its lock file on the machine: one for all its names."""
        return next(iter(self.same), self.owner)

    @property
    def tags(self) -> tuple[str, ...]:
        """Of the action runs on it."""
        return tuple(f"place:{m}" for m in dict.fromkeys((*self.locks, *self.same)))

    @property
    def same_tags(self) -> tuple[str, ...]:
        """Of the action runs that are its history."""
        return tuple(f"place:{m}" for m in self.same)

    def is_another(self, run: FlowRun, fleet: str) -> bool:
        """True if an action run on the same name was certainly about something else: another fleet's, and known to differ."""
        about = run.parameters.get("about", {})
        theirs = set(about.get("same", ()))
        return bool(theirs and self.same) and about.get("fleet") != fleet and not theirs & set(self.same)


def lock_key_of(owner: str, context: Context | None) -> LockKey:
    """Reads what `owner` is. An owner that is no machine is what its name says."""
    if context is None:
        return LockKey(owner=owner)
    if owner == "leader" and context.fleet.leader:
        url = (mark("url", context.fleet.leader.url),)
        return LockKey(owner=owner, locks=url, same=url)
    node = next((n for n in context.fleet.nodes if n.name == owner), None)
    if node is None and owner == ENGINE:
        node = Node(name=ENGINE, local=True)
    return _machine(node, context) if node else LockKey(owner=owner)


def _machine(node: Node, context: Context) -> LockKey:
    reached = mark("boot", boot_id()) if node.local else mark("at", address(node))
    try:
        found = machine_identity.read_machine(context.open_host(node))
    except TransportError as e:
        why = f"{node.name}: its machine identity could not be read ({e.reason.words}), so it is locked by name and address"
        return LockKey(owner=node.name, locks=(reached,), doubt=why)
    return LockKey(owner=node.name, locks=(found.boot, *(() if node.local else (reached,))), same=found.same)


def own_lock_key() -> str:
    """The mark of this machine, or of the container that we are in: what reading it would give as the first of `same`."""
    return machine_identity.place_mark(boot_id(), str(Path("/proc/self/ns/pid").readlink()))


def address(node: Node) -> str:
    """Where a node is reached: two nodes with one address are one machine."""
    if node.local:
        return "this machine"
    jump = f" by {node.jump.host}:{node.jump.port}" if node.jump else ""
    return f"{node.host}:{node.port}{jump}"


def namesakes(fleet: Fleet, names: set[str]) -> set[str]:
    """`names`, and the nodes that are reached where one of them is: other names of the same machines."""
    places = {address(n) for n in fleet.nodes if n.name in names}
    return names | {n.name for n in fleet.nodes if address(n) in places}
