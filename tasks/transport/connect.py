"""Opens and verifies one SSH connection by Fabric: host key by host and port, one key, no user configuration."""

import getpass
import logging
import os
import socket
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import paramiko
from fabric import Config, Connection
from paramiko.config import SSHConfig

from runbooks.core.fleet import Jump, Node
from runbooks.core.reading import UnknownReason
from runbooks.parsers.ssh_key import fingerprint
from tasks.installation import lasting
from tasks.transport.base import KeyRefusedError, TransportError
from tasks.transport.keys import default_key, describe_key, load_key
from tasks.transport.known_hosts import (
    Fact,
    KnownHost,
    entries_for,
    judge_host_key,
    key_types,
    name_of,
    parse_known_hosts,
    parse_pinned,
)

KEEPALIVE_S = 10  # a firewall forgets an idle connection after minutes
_USER_TIMEOUT_MS = 20_000  # unacknowledged data older than this ends the connection


class HostKeyError(TransportError):
    """The server's host key was not accepted. `fact` says why."""

    def __init__(self, fact: Fact, detail: str) -> None:
        super().__init__(UnknownReason.DENIED, detail)
        self.fact = fact


class _HostKeyRefused(paramiko.SSHException):
    """Carries the verdict through paramiko's connect."""

    def __init__(self, fact: Fact, detail: str) -> None:
        super().__init__(detail)
        self.fact, self.detail = fact, detail


class _Verify(paramiko.MissingHostKeyPolicy):
    """Accepts a host key only if the entries say so; nothing is ever added."""

    def __init__(self, entries: tuple[KnownHost, ...], host: str, port: int, where: str) -> None:
        self._entries, self._host, self._port, self._where = entries, host, port, where

    def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> None:
        """Called for every server, as the client's own store is kept empty."""
        del client, hostname
        kind, text = key.get_name(), key.get_base64()
        verdict = judge_host_key(self._entries, self._host, self._port, kind, text, self._where)
        if verdict.fact is not Fact.TRUSTED:
            raise _HostKeyRefused(verdict.fact, verdict.detail)


class _SecondFactor(paramiko.AuthenticationException):
    """The key was right, and is not enough."""


class _Transport(paramiko.Transport):
    """Paramiko's transport that never asks a person at the terminal."""

    def auth_interactive_dumb(self, *args: Any, **kwargs: Any) -> list[str]:
        """A second factor cannot be given here."""
        del args, kwargs
        raise _SecondFactor("the server wants a second factor besides the key")


@cache
def _config() -> Config:
    """Fabric's settings without any file of the user or the system. Paramiko's own log is silenced with it."""
    logging.getLogger("paramiko").setLevel(logging.CRITICAL)  # every failure is told by TransportError
    return Config(lazy=True, ssh_config=SSHConfig())


@cache
def _entries_of(path: str, _stamp: tuple[int, int]) -> tuple[KnownHost, ...]:
    return parse_known_hosts(Path(path).read_text(encoding="utf-8", errors="replace"))


def trusted_keys(node: Node | Jump) -> tuple[tuple[KnownHost, ...], str]:
    """The host keys to judge by, and where they stand."""
    if node.host_key:
        try:
            return parse_pinned(node.host_key, str(node.host), node.port), "the fleet file's host_key"
        except ValueError as e:
            raise TransportError(UnknownReason.DENIED, str(e)) from None
    path = lasting(node.known_hosts or "~/.ssh/known_hosts")
    try:
        stat = path.stat()
        return _entries_of(str(path), (stat.st_mtime_ns, stat.st_size)), str(path)
    except FileNotFoundError:
        return (), f"{path} (which does not exist)"
    except OSError as e:
        raise TransportError(UnknownReason.DENIED, f"known_hosts {path}: {e.strerror}") from None


def address_of(node: Node | Jump) -> str:
    """user@host:port, for messages and as a key."""
    return f"{node.user or getpass.getuser()}@{node.host}:{node.port}"


def open_connection(node: Node | Jump, timeout_s: float, tunnel: Callable[[], Any] | None = None) -> Connection:
    """A verified and authenticated connection. Raises TransportError (HostKeyError for host keys)."""
    entries, where = trusted_keys(node)
    source = node.key or default_key()
    pkey = load_key(source)
    sock = tunnel() if tunnel else _dial(str(node.host), node.port, timeout_s)
    connection = _prepare(node, entries, where, timeout_s)
    connection.connect_kwargs.update(
        sock=sock,
        pkey=pkey,
        allow_agent=source.agent,
        look_for_keys=False,
        transport_factory=_factory(key_types(entries_for(entries, str(node.host), node.port))),
    )
    try:
        connection.open()
    except Exception as e:
        told = _explain(e, node, describe_key(source), timeout_s)
        refused = _refused(e, told, pkey, connection.client.get_transport())
        connection.close()
        sock.close()
        raise refused or told from None
    connection.transport.set_keepalive(KEEPALIVE_S)
    return connection


def _refused(
    error: Exception, told: TransportError, pkey: paramiko.PKey | None, transport: paramiko.Transport | None
) -> KeyRefusedError | None:
    """The refusal of exactly that key, or of each of the agent's; None for any other end, a connection that broke off too."""
    text, stands = str(error), transport is not None and transport.is_active()
    if type(error) is not paramiko.AuthenticationException or not stands or "timeout" in text.lower():
        return None
    return KeyRefusedError(told.detail, fingerprint(pkey.asbytes()) if pkey else "", text)


class LoggedIn:
    """A connection that somebody else verified and authenticated, in the place of one of our own."""

    def __init__(self, transport: paramiko.Transport) -> None:
        self.transport = transport
        transport.set_keepalive(KEEPALIVE_S)
        if isinstance(transport.sock, socket.socket):
            transport.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _USER_TIMEOUT_MS)

    def close(self) -> None:
        """End it."""
        self.transport.close()


def _prepare(node: Node | Jump, entries: tuple[KnownHost, ...], where: str, timeout_s: float) -> Connection:
    timeouts = {"timeout": 2 * timeout_s, "banner_timeout": timeout_s, "auth_timeout": timeout_s}
    connection = Connection(
        str(node.host),
        user=node.user or getpass.getuser(),
        port=node.port,
        config=_config(),
        connect_kwargs={**timeouts, "channel_timeout": timeout_s},
    )
    connection.client.set_missing_host_key_policy(_Verify(entries, str(node.host), node.port, where))
    return connection


def _factory(kinds: tuple[str, ...]) -> Callable[..., paramiko.Transport]:
    """Makes transports that ask for a host key of a known kind first."""

    def make(sock: Any, **kwargs: Any) -> paramiko.Transport:
        transport = _Transport(sock, **kwargs)
        options = transport.get_security_options()
        wanted = [k for kind in kinds for k in (("rsa-sha2-512", "rsa-sha2-256") if kind == "ssh-rsa" else (kind,))]
        first = [k for k in wanted if k in options.key_types]
        options.key_types = [*first, *(k for k in options.key_types if k not in first)]
        return transport

    return make


def _dial(host: str, port: int, timeout_s: float) -> socket.socket:
    try:
        sock = socket.create_connection((host, port), timeout=timeout_s)
    except socket.gaierror as e:
        raise TransportError(UnknownReason.UNREACHABLE, f"the name {host} cannot be resolved: {e.strerror}") from None
    except TimeoutError:
        raise TransportError(UnknownReason.UNREACHABLE, f"{host}:{port} does not answer within {timeout_s:g} s") from None
    except OSError as e:
        detail = os.strerror(e.errno).lower() if e.errno else str(e)
        raise TransportError(UnknownReason.UNREACHABLE, f"{host}:{port}: {detail}") from None
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _USER_TIMEOUT_MS)
    return sock


def _explain(error: Exception, node: Node | Jump, key: str, timeout_s: float) -> TransportError:
    """What went wrong in words, sorted by what the operator must do."""
    where, text = address_of(node), str(error) or type(error).__name__
    if isinstance(error, TransportError):
        return error
    if isinstance(error, _HostKeyRefused):
        return HostKeyError(error.fact, error.detail)
    if isinstance(error, paramiko.BadAuthenticationType):
        allowed = ", ".join(error.allowed_types)
        return TransportError(UnknownReason.DENIED, f"{where} does not take keys (it allows {allowed})")
    if isinstance(error, paramiko.AuthenticationException) or "No authentication methods" in text:
        return TransportError(UnknownReason.DENIED, f"{where} refused {key}: {text.rstrip('.').lower()}")
    if "banner" in text:
        detail = (
            f"{where} took the connection but sent no SSH banner within {timeout_s:g} s: hung, overloaded or no sshd"
        )
        return TransportError(UnknownReason.UNREACHABLE, detail)
    if "No existing session" in text:
        return TransportError(UnknownReason.UNREACHABLE, f"{where}: the SSH handshake took more than {2 * timeout_s:g} s")
    if isinstance(error, paramiko.ssh_exception.IncompatiblePeer):
        return TransportError(UnknownReason.FAILED, f"{where} offers no algorithm that both sides know: {text}")
    return TransportError(UnknownReason.UNREACHABLE, f"{where}: the SSH handshake failed: {text}")


__all__ = ["HostKeyError", "LoggedIn", "address_of", "name_of", "open_connection", "trusted_keys"]
