"""Reads addresses in endpoints and environments, and says whether one means the machine itself."""

import ipaddress
import re

_LOOPBACK = ("127.", "localhost", "::1", "[::1]", "ip6-localhost")


def is_loopback(host: str) -> bool:
    """Whether an address means the machine itself."""
    return host.lower().startswith(_LOOPBACK)


def is_address(host: str) -> bool:
    """Whether it is an IP address, not a name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def host_in(address: str) -> str:
    """The host of `host:port`, an IPv6 address without its brackets; "" where there is no port."""
    return address.rpartition(":")[0].strip("[]")


def address_of(endpoint: str, default_port: int = 2379) -> str:
    """host:port of an endpoint."""
    rest = re.sub(r"^https?://", "", endpoint).rstrip("/")
    return rest if re.search(r":\d+$", rest) else f"{rest}:{default_port}"


def host_port(host: str, port: int | str) -> str:
    """`host:port`, an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
