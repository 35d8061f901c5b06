"""Walks one connection stage by stage: name, TCP, banner, key exchange, host key, methods, key, session, command."""

import contextlib
import errno
import getpass
import os
import socket
import time
from collections.abc import Callable
from typing import Any

import paramiko

from runbooks.core.fleet import Node
from runbooks.ssh.evidence import Auth, HostKeyFact, Stage, Tcp, Wire
from runbooks.ssh.parsers.ssh_wire import Offer, parse_kexinit, split_banner
from tasks.ssh.attempts import CONNECTIONS, Memory
from tasks.ssh.host_key import judge_shown, wanted_types
from tasks.ssh.login import LogInTransport, log_in
from tasks.transport.base import TransportError

HELLO = b"SSH-2.0-gpu-runbooks\r\n"
Dial = Callable[[], Any]
Keep = Callable[[paramiko.Transport], bool]


def walk(
    node: Node, memory: Memory, keys: tuple[paramiko.PKey, ...], others: dict[str, str], keep: Keep | None = None
) -> Wire:
    """One walk. `keys` are offered in their order, each once a run; `others`: fleet node name -> its pinned host key.

    `keep` is offered the connection once it is logged in; where it takes it, nobody has to log in again."""
    wire = at_start(node)
    if node.jump:
        return _through_jump(node, wire, memory, keys, others)
    wire = _resolve(wire)
    if not wire.addresses:
        return wire
    return _walk_from(node, wire, memory, keys, others, lambda: _dial(wire, node.connect_timeout_s), keep)


def at_start(node: Node) -> Wire:
    """Where it would go; nothing is asked yet."""
    return Wire(
        host=str(node.host), port=node.port, user=node.user or getpass.getuser(), stage=Stage.NAME,
        jump=str(node.jump.host) if node.jump else "",
    )  # fmt: skip


def _through_jump(
    node: Node, wire: Wire, memory: Memory, keys: tuple[paramiko.PKey, ...], others: dict[str, str]
) -> Wire:
    assert node.jump  # noqa: S101
    jump = memory.jump_to(node.jump, node.connect_timeout_s)
    return _walk_from(node, wire, memory, keys, others, lambda: jump.tunnel_to(str(node.host), node.port))


def _walk_from(
    node: Node, wire: Wire, memory: Memory, keys: tuple[paramiko.PKey, ...], others: dict[str, str], dial: Dial,
    keep: Keep | None = None,
) -> Wire:  # fmt: skip
    place = wire.jump or f"{node.host}:{node.port}"
    if not memory.may_connect(place):
        return wire.model_copy(
            update={"stage": Stage.TCP, "tcp_says": f"not asked: {CONNECTIONS} connections were made"}
        )
    wire = _greet(wire, dial, node.connect_timeout_s).model_copy(update={"connections": memory.connections[place]})
    if wire.stage is not Stage.HOST_KEY or not memory.may_connect(place):
        return wire
    wire = wire.model_copy(update={"connections": memory.connections[place]})
    try:
        sock = dial()
    except (OSError, TransportError) as e:
        return wire.model_copy(
            update={"stage": Stage.TCP, "tcp": Tcp.FAILED, "tcp_says": f"the second connection failed: {e}"}
        )
    return _exchange(node, wire, memory, keys, others, sock, keep)


def _resolve(wire: Wire) -> Wire:
    try:
        found = socket.getaddrinfo(wire.host, wire.port, type=socket.SOCK_STREAM)
    except socket.gaierror as e:
        return wire.model_copy(update={"tcp_says": f"the name cannot be resolved: {e.strerror}"})
    except UnicodeError as e:
        return wire.model_copy(update={"tcp_says": f"not a host name: {e}"})
    return wire.model_copy(update={"addresses": tuple(dict.fromkeys(str(f[4][0]) for f in found))})


def _dial(wire: Wire, timeout_s: float) -> socket.socket:
    return socket.create_connection((wire.host, wire.port), timeout=timeout_s)


def _tcp_fault(error: OSError | TransportError) -> tuple[Tcp, str]:
    if isinstance(error, TransportError):
        return Tcp.FAILED, error.detail
    if isinstance(error, TimeoutError):
        return Tcp.TIMED_OUT, "no answer to the connection"
    if error.errno == errno.ECONNREFUSED:
        return Tcp.REFUSED, "connection refused"
    if error.errno in (errno.EHOSTUNREACH, errno.ENETUNREACH):
        return Tcp.NO_ROUTE, os.strerror(error.errno).lower()
    return Tcp.FAILED, str(error)


def _greet(wire: Wire, dial: Dial, timeout_s: float) -> Wire:
    """First connection: TCP, banner, and the algorithms that the server offers. Nothing is tried on it."""
    try:
        sock = dial()
    except (OSError, TransportError) as e:
        tcp, says = _tcp_fault(e)
        return wire.model_copy(update={"stage": Stage.TCP, "tcp": tcp, "tcp_says": says})
    with contextlib.closing(sock):
        with contextlib.suppress(OSError, AttributeError, IndexError):
            wire = wire.model_copy(update={"address": str(sock.getpeername()[0]), "own_address": str(sock.getsockname()[0])})
        wire = wire.model_copy(update={"tcp": Tcp.OPEN, "stage": Stage.BANNER})
        banner, before, rest, ended = _hear_banner(sock, timeout_s)
        wire = wire.model_copy(update={"banner": banner, "before_banner": before})
        if not banner:
            return wire.model_copy(update={"banner_says": _no_banner(before, ended, timeout_s)})
        offer, says = _hear_offer(sock, rest, timeout_s)
    if offer is None:
        return wire.model_copy(update={"stage": Stage.KEX, "kex_says": says})
    missing = meet(offer)
    stage = Stage.KEX if missing else Stage.HOST_KEY
    return wire.model_copy(update={"offer": offer, "missing": missing, "stage": stage})


def _hear_banner(sock: Any, timeout_s: float) -> tuple[str, tuple[str, ...], bytes, bool]:
    """(banner, lines before, the rest, whether the other side closed)."""
    data, until = b"", time.monotonic() + timeout_s
    while time.monotonic() < until and len(data) < 16384:
        sock.settimeout(max(0.05, until - time.monotonic()))
        try:
            got = sock.recv(4096)
        except TimeoutError:
            break
        except OSError:
            return *split_banner(data), True
        if not got:
            return *split_banner(data), True
        data += got
        if split_banner(data)[0]:
            break
    return *split_banner(data), False


def _no_banner(before: tuple[str, ...], ended: bool, timeout_s: float) -> str:
    said = f" after {before[0]!r}" if before else ""
    if ended:
        return f"closed during banner{said}"
    return f"not an SSH server: it says {before[0]!r}" if before else f"silent: no banner within {timeout_s:g} s"


def _hear_offer(sock: Any, data: bytes, timeout_s: float) -> tuple[Offer | None, str]:
    until = time.monotonic() + timeout_s
    try:
        sock.sendall(HELLO)
        while time.monotonic() < until:
            offer = parse_kexinit(data)
            if offer:
                return offer, ""
            sock.settimeout(max(0.05, until - time.monotonic()))
            got = sock.recv(8192)
            if not got:
                return None, "the server closed the connection before the key exchange"
            data += got
    except TimeoutError:
        return None, f"no key exchange within {timeout_s:g} s"
    except (OSError, ValueError) as e:
        return None, str(e)
    return None, f"no key exchange within {timeout_s:g} s"


def meet(offer: Offer) -> tuple[str, ...]:
    """Groups of algorithms in which both sides have nothing in common."""
    t: Any = paramiko.Transport
    ours = {
        "kex": tuple(t._preferred_kex), "host_keys": tuple(t._preferred_keys),
        "ciphers": tuple(t._preferred_ciphers), "macs": tuple(t._preferred_macs),
    }  # fmt: skip
    out = []
    for name, mine in ours.items():
        theirs = getattr(offer, name)
        if not set(mine) & set(theirs):
            out.append(f"{name}: the server has only {', '.join(theirs)}")
    return tuple(out)


def _exchange(
    node: Node, wire: Wire, memory: Memory, keys: tuple[paramiko.PKey, ...], others: dict[str, str], sock: Any,
    keep: Keep | None,
) -> Wire:  # fmt: skip
    """Second connection: host key, then the one log-in if the host key is trusted."""
    transport, kept = LogInTransport(sock), False
    transport.banner_timeout = transport.auth_timeout = node.connect_timeout_s
    options = transport.get_security_options()
    first = [k for k in wanted_types(node) if k in options.key_types]
    options.key_types = [*first, *(k for k in options.key_types if k not in first)]
    try:
        transport.start_client(timeout=2 * node.connect_timeout_s)
        shown = transport.get_remote_server_key()
        host_key = judge_shown(node, shown, others, memory)
        made = memory.connections[wire.jump or f"{node.host}:{node.port}"]
        wire = wire.model_copy(update={"host_key": host_key, "connections": made})
        if host_key.fact is not HostKeyFact.TRUSTED:
            return wire
        wire = log_in(node, wire.model_copy(update={"stage": Stage.METHODS}), memory, keys, transport)
        if keep is not None and wire.stage is Stage.DONE and not wire.remembered:
            kept = keep(transport)
        return wire
    except (paramiko.SSHException, OSError, EOFError) as e:
        if wire.host_key is None:
            return wire.model_copy(update={"stage": Stage.KEX, "kex_says": str(e) or type(e).__name__})
        return wire.model_copy(update={"auth": Auth.BROKEN, "auth_says": str(e) or type(e).__name__})
    finally:
        if not kept:
            transport.close()
            sock.close()
