"""A PCI bridge's configuration space: whether its ACS sends peer-to-peer traffic through the root. Pure."""

from runbooks.core.base import Frozen

ACS, FIRST, WHOLE = 0x000D, 0x100, 0x1000  # capability id; where extended capabilities begin (none in an older device); all
REDIRECTS = {"ReqRedir": 1 << 2, "CmpltRedir": 1 << 3}  # in the control register, 6 bytes into the capability


class Acs(Frozen):
    """What one bridge says."""

    there: bool  # it has the capability
    redirects: tuple[str, ...] = ()  # switched on, as lspci names them


def parse_acs(config: bytes) -> Acs | None:
    """None: the extended part was not given (only root reads it), so nothing is known."""
    if len(config) < FIRST:
        return None
    if len(config) < WHOLE:
        return Acs(there=False)
    at, seen = FIRST, set[int]()
    while FIRST <= at <= WHOLE - 8 and at not in seen:
        seen.add(at)
        header = int.from_bytes(config[at : at + 4], "little")
        if header in (0, 0xFFFFFFFF):
            break
        if header & 0xFFFF == ACS:
            control = int.from_bytes(config[at + 6 : at + 8], "little")
            return Acs(there=True, redirects=tuple(n for n, bit in REDIRECTS.items() if control & bit))
        at = header >> 20
    return Acs(there=False)
