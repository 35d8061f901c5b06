"""ACS in a configuration space written by the PCI Express specification; and this machine's own, for real."""

from pathlib import Path

import pytest

from runbooks.launch.parsers.pci_acs import ACS, Acs, parse_acs
from tasks.launch.probes.pci_paths import pci_paths, raw

AER, SRC_VALID, REQUESTS, COMPLETIONS = 0x0001, 1, 1 << 2, 1 << 3


def space(*capabilities: tuple[int, int], control: int = 0, size: int = 4096) -> bytes:
    """A bridge with these extended capabilities (id, offset) in a chain from 0x100."""
    made = bytearray(size)
    for n, (ident, at) in enumerate(capabilities):
        following = capabilities[n + 1][1] if n + 1 < len(capabilities) else 0
        made[at : at + 4] = (ident | 1 << 16 | following << 20).to_bytes(4, "little")
        if ident == ACS:
            made[at + 4 : at + 8] = (0x1F | control << 16).to_bytes(4, "little")
    return bytes(made[:size])


CHAIN = ((AER, 0x100), (ACS, 0x148))
CASES: dict[str, tuple[bytes, Acs | None]] = {
    "off": (space(*CHAIN), Acs(there=True)),
    "only source validation": (space(*CHAIN, control=SRC_VALID), Acs(there=True)),
    "redirects": (space(*CHAIN, control=SRC_VALID | REQUESTS | COMPLETIONS), Acs(there=True, redirects=("ReqRedir", "CmpltRedir"))),
    "first in the chain": (space((ACS, 0x100), control=REQUESTS), Acs(there=True, redirects=("ReqRedir",))),
    "without it": (space((AER, 0x100)), Acs(there=False)),
    "no extended capability": (space(), Acs(there=False)),
    "a device that is gone": (b"\xff" * 4096, Acs(there=False)),
    "not root: 64 bytes": (space(*CHAIN, control=REQUESTS)[:64], None),
    "an older device, which has no more": (space()[:256], Acs(there=False)),
    "a chain that bites its tail": (space((AER, 0x100), (AER, 0x140), (AER, 0x100)), Acs(there=False)),
}


@pytest.mark.parametrize("case", CASES)
def test_acs(case: str) -> None:
    config, wanted = CASES[case]
    assert parse_acs(config) == wanted


def test_this_machine() -> None:
    found = pci_paths()
    assert set(found["bridges"]) or not found["gpus"] or found["virtual"]
    for device in Path("/sys/bus/pci/devices").glob("*/config"):
        config = bytes.fromhex(raw(str(device)))
        assert (parse_acs(config) is None) == (len(config) < 256)
