"""Arguments of the actions on keys, known hosts and the path to authorized_keys. `aside` is where the original is kept."""

from runbooks.core.args.base import Args, Whole


class RestrictKeyMode(Args):
    """A key file as it was judged."""

    path: str
    identity: str
    mode: Whole | None


class NormaliseKey(RestrictKeyMode):
    """A key file as it was judged, and where its copy is kept."""

    aside: str


class NormaliseSecret(Args):
    """A key in a Secret block as it was judged."""

    block: str
    identity: str
    aside: str


class RemoveKnownHost(Args):
    """A line of known_hosts, and the fingerprint that the fleet file vouches for."""

    path: str
    line: Whole
    hash: str
    vouched: str
    aside: str


class RepairSshPath(Args):
    """A path as it was read, and its new owner and mode."""

    path: str
    device: Whole
    inode: Whole
    uid: Whole
    gid: Whole
    mode: Whole
    to_uid: Whole
    to_gid: Whole
    to_mode: Whole


class AddPublicKey(Args):
    """A file as it was read (inode 0: it did not exist), its owner, and the fingerprint of the key to add."""

    path: str
    inode: Whole
    keys: tuple[str, ...]
    uid: Whole
    gid: Whole
    home: str
    fingerprint: str
