"""Which interface NCCL would use for its sockets, by its own rules (ncclFindInterfaces)."""

from runbooks.core.base import Frozen


class Interface(Frozen):
    """One network interface of a node."""

    name: str
    up: bool = True
    addresses: tuple[str, ...] = ()  # "192.0.2.5/24"
    loopback: bool = False


def matches(name: str, spec: str) -> bool:
    """Whether NCCL_SOCKET_IFNAME `spec` takes the interface. `^` excludes, `=` is exact, else a prefix."""
    negative = spec.startswith("^")
    rest = spec.removeprefix("^")
    exact = rest.startswith("=")
    names = [n.removeprefix("=") for n in rest.split(",") if n]
    hit = any(name == n if exact else name.startswith(n) for n in names)
    return hit is not negative


def cards(devices: tuple[str, ...], spec: str) -> tuple[str, ...]:
    """The RDMA devices that NCCL_IB_HCA `spec` takes: as for interfaces, and an entry may name a port (`mlx5_0:1`)."""
    plain = ",".join(entry.partition(":")[0] for entry in spec.split(","))
    return tuple(d for d in devices if matches(d, plain)) if spec else devices


def pick(interfaces: tuple[Interface, ...], spec: str = "") -> tuple[Interface, ...]:
    """Interfaces that NCCL would use, best first; () when it finds none ("no socket interface found")."""
    usable = tuple(i for i in interfaces if i.up and i.addresses)
    if spec:
        return tuple(i for i in usable if matches(i.name, spec))
    for rule in ("ib", "^docker,lo", "docker", "lo"):
        found = tuple(i for i in usable if matches(i.name, rule))
        if found:
            return found
    return ()
