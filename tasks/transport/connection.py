"""Keeps one SSH connection for a run: opened at first use, shared by threads, refused ones not tried again."""

import threading
import time
from collections.abc import Callable
from typing import Any

import paramiko
from fabric import Connection

from runbooks.core.fleet import Jump, Node
from runbooks.core.reading import UnknownReason
from tasks.transport.base import KeyRefusedError, TransportError
from tasks.transport.connect import LoggedIn, address_of, open_connection

_PROBE_AGAIN_S = 30.0  # an address that did not answer is not asked again sooner
_PROBES = 5  # connections tried per run, at most


class SshConnection:
    """One connection, opened at first use and kept. A refused one is never tried again in the run."""

    def __init__(self, node: Node | Jump, timeout_s: float, tunnel: Callable[[], Any] | None = None) -> None:
        self._node, self._timeout_s, self._tunnel = node, timeout_s, tunnel
        self._lock = threading.Lock()
        self._connection: Connection | LoggedIn | None = None
        self._error: TransportError | None = None
        self._failed_at, self._tries, self.closed = 0.0, 0, False
        self.notes: tuple[str, ...] = ()

    def transport(self) -> paramiko.Transport:
        """The live transport. Raises TransportError."""
        with self._lock:
            if self.closed:
                raise TransportError(UnknownReason.UNREACHABLE, "this host was closed")
            live = self._live()
            if live is not None:
                return live
            self._refuse_again()
            return self._open()

    def adopt(self, transport: paramiko.Transport) -> bool:
        """Take over a verified and authenticated connection to this very node. False: closed, or it has a live one."""
        with self._lock:
            if self.closed or self._live() is not None:
                return False
            if self._connection is not None:
                self._connection.close()
            self._connection, self._error = LoggedIn(transport), None
            return True

    @property
    def refused(self) -> KeyRefusedError | None:
        """How the server refused the key, if it did: the key is not offered again in the run."""
        return self._error if isinstance(self._error, KeyRefusedError) else None

    def recall(self, refused: KeyRefusedError) -> None:
        """The same run has heard this refusal on another connection to this very server: it is not asked again."""
        with self._lock:
            if self._live() is None:
                self._error = refused

    @property
    def opened(self) -> bool:
        """Whether it ever stood."""
        return self._connection is not None

    @property
    def alive(self) -> bool:
        """True while the connection stands."""
        return self._live() is not None

    def _live(self) -> paramiko.Transport | None:
        transport: paramiko.Transport | None = self._connection.transport if self._connection else None
        return transport if transport is not None and transport.is_active() else None

    def _refuse_again(self) -> None:
        if self._error is None:
            return
        final = self._error.reason is not UnknownReason.UNREACHABLE or self._tries >= _PROBES
        if final or time.monotonic() - self._failed_at < _PROBE_AGAIN_S:
            raise self._error.with_traceback(None)
        self._error = None

    def _open(self) -> paramiko.Transport:
        if self._tries >= _PROBES:
            raise TransportError(UnknownReason.UNREACHABLE, f"{address_of(self._node)}: the connection was lost {_PROBES} times")
        self._tries += 1
        if self._connection is not None:
            self.notes = (*self.notes, "the connection was lost and opened again")
            self._connection.close()
        try:
            self._connection = open_connection(self._node, self._timeout_s, self._tunnel)
        except TransportError as e:
            self._error, self._failed_at = e, time.monotonic()
            raise
        transport: paramiko.Transport = self._connection.transport
        return transport

    def tunnel_to(self, host: str, port: int) -> paramiko.Channel:
        """A channel of this jump host to host:port. Raises TransportError."""
        try:
            transport = self.transport()
            return transport.open_channel("direct-tcpip", (host, port), ("127.0.0.1", 0), timeout=self._timeout_s)
        except paramiko.SSHException as e:
            detail = f"jump host {address_of(self._node)} cannot reach {host}:{port}: {e}"
            raise TransportError(UnknownReason.UNREACHABLE, detail) from None
        except TransportError as e:
            raise TransportError(e.reason, f"jump host: {e.detail}") from e

    def close(self) -> None:
        """End the connection."""
        with self._lock:
            self.closed = True
            if self._connection is not None:
                self._connection.close()
