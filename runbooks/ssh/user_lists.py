"""Whether AllowUsers, DenyUsers, AllowGroups and DenyGroups, as sshd -T prints them, leave a user out. Pure."""

from fnmatch import fnmatchcase

from runbooks.core.base import Frozen
from runbooks.ssh.evidence import FarSide

_HARD = frozenset("@![")  # a host beside the name, a negation, or what fnmatch reads and sshd does not


class LeftOut(Frozen):
    """A list that leaves the user out, or may."""

    words: str
    sure: bool


def left_out(user: str, far: FarSide) -> LeftOut | None:
    """In sshd's own order: DenyUsers, AllowUsers, DenyGroups, AllowGroups. Without its groups nothing is said for sure of these."""
    looked = (
        ("DenyUsers", (user,), True),
        ("AllowUsers", (user,), False),
        ("DenyGroups", far.groups, True),
        ("AllowGroups", far.groups, False),
    )
    found = [out for name, names, deny in looked if (out := _by(name, names, far.settings.get(name.lower(), ""), deny))]
    return next((x for x in found if x.sure), found[0] if found else None)


def _by(name: str, names: tuple[str, ...] | None, value: str, deny: bool) -> LeftOut | None:
    patterns = value.split()
    if not patterns or value == "none":
        return None
    words = f"{name} is {value}"
    if name.endswith("Groups") and names is not None:
        words += f"; the user's groups: {', '.join(names) or 'none with a name'}"
    if names is None or _HARD & set(value):
        return LeftOut(words=words, sure=False)
    hit = any(fnmatchcase(n, p) for n in names for p in patterns)
    return LeftOut(words=words, sure=True) if hit is deny else None
