"""Guards and names for changes to checkpoints on a node: renames that never replace, identities, who has a name open."""

from __future__ import annotations

import ctypes
import errno
import os

from tasks.probes.ckpt_copy import Refusal
from tasks.probes.ckpt_files import identity, members
from tasks.probes.ckpt_fs import mount
from tasks.probes.ckpt_holders import holders

NOREPLACE, EXCHANGE, AT_FDCWD = 1, 2, -100


def rename2(old: str, new: str, flags: int) -> None:
    """renameat2: atomic, and never replaces (NOREPLACE) or swaps (EXCHANGE). Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "renameat2"):
        raise OSError(errno.ENOSYS, "renameat2 is not there")
    if libc.renameat2(AT_FDCWD, os.fsencode(old), AT_FDCWD, os.fsencode(new), flags):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), new)


def same(root: str, name: str, expect: str) -> str:
    """Full path of a checkpoint that still is what was judged. Raises Refusal."""
    path = os.path.join(root, name)
    if os.path.isabs(name) or ".." in name.split("/"):
        raise Refusal("%s lies outside of the tier" % name)
    try:
        found = identity(members(path))
    except FileNotFoundError:
        raise Refusal("%s is not there any more" % path) from None
    if found != expect:
        raise Refusal("%s changed since it was judged" % path)
    return path


def not_open(root: str, names: list[str], readers: bool = True) -> None:
    """No process has one of the names open (or writes one), as far as every process can be seen. Raises Refusal."""
    seen = holders(root, mount(root)["fs_type"])
    if not seen["all"]:
        raise Refusal("not every process could be looked at: who uses it can't be told")
    tops = {n.split("/")[0] for n in names}
    for h in seen["list"]:
        if (readers or h["writing"]) and (not names or h["path"].split("/")[0] in tops):
            raise Refusal("pid %d has %s open" % (h["pid"], h["path"]))
