"""Guards for changes to checkpoints on a node: identities, who has a name open, and both looked at under a new name."""

from __future__ import annotations

import os
from collections.abc import Callable

from tasks.checkpoint.probes.ckpt_files import identity, members
from tasks.checkpoint.probes.ckpt_fs import mount
from tasks.checkpoint.probes.ckpt_holders import holders
from tasks.remote.probes.aside import take
from tasks.remote.probes.refused import Refused


class Unfinished(Exception):
    """Something was changed and then it stopped; the text says what."""


def same(root: str, name: str, expect: str) -> str:
    """Full path of a checkpoint that still is what was judged. Raises Refused."""
    path = os.path.join(root, name)
    if os.path.isabs(name) or ".." in name.split("/"):
        raise Refused("not-ours", "%s lies outside of the tier" % name)
    try:
        found = identity(members(path))
    except FileNotFoundError:
        raise Refused("target-changed", "%s is not there any more" % path) from None
    if found != expect:
        raise Refused("target-changed", "%s changed since it was judged" % path)
    return path


def not_open(root: str, names: list[str], readers: bool = True) -> None:
    """No process has one of the names open (or writes one), as far as every process can be seen. Raises Refused."""
    seen = holders(root, mount(root)["fs_type"])
    if not seen["all"]:
        raise Refused("cannot-check", "not every process could be checked, so its users are unknown")
    tops = {n.split("/")[0] for n in names}
    for h in seen["list"]:
        if (readers or h["writing"]) and (not names or h["path"].split("/")[0] in tops):
            raise Refused("in-use", "pid %d has %s open" % (h["pid"], h["path"]))


def move(root: str, name: str, to: str, expect: str, more: Callable[[], None] = lambda: None) -> None:
    """Gives a judged checkpoint another, free name; there, where no writer finds it, it is looked at: it is the judged one,
    nobody has it open, and `more()` does not object. Else it gets its name back. Raises Refused, Misplaced, OSError."""
    old, new = os.path.join(root, name), os.path.join(root, to)

    def look() -> None:
        not_open(root, [to])  # first: who wrote before this and closed is seen by the identity
        found = members(new)
        if not os.path.isdir(new):
            found = {os.path.basename(name): found[os.path.basename(to)]}
        if identity(found) != expect:
            raise Refused("target-changed", "%s changed since it was judged" % old)
        more()

    try:
        take(old, new, look)
    except FileExistsError:
        raise Refused("would-overwrite", "%s is taken" % new) from None
    except FileNotFoundError:
        raise Refused("target-changed", "%s is not there any more" % old) from None
