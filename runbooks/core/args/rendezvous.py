"""Arguments of the actions on rendezvous and their etcd."""

from runbooks.core.args.base import Args, Whole

KeyIndex = tuple[str, Whole | None]  # a key and its modified index; None for a folder


class DeleteRunKeys(Args):
    """A run's keys in the order of their deletion. `guard` is the key that changes when an agent joins."""

    rendezvous: str
    endpoint: str
    backend: str
    run: str
    guard: KeyIndex | None
    keys: tuple[KeyIndex, ...]


class RestoreRunKeys(Args):
    """A saved file with its sha256, and its run."""

    rendezvous: str
    endpoint: str
    file: str
    digest: str
    run: str
    backend: str


class ProbeRendezvous(Args):
    """The id of the test run."""

    rendezvous: str
    run: str
    backend: str


class StartEtcd(Args):
    """The fleet file's start command, and the node where it runs."""

    rendezvous: str
    node: str
    command: tuple[str, ...]


class DefragmentEtcd(Args):
    """The etcd to defragment."""

    rendezvous: str
    endpoint: str
