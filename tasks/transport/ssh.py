"""A node reached by SSH: one connection for the run, at most 8 channels, commands that end on the node."""

import secrets
import shlex
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from copy import copy

import paramiko

from runbooks.core.fleet import Node
from runbooks.core.reading import UnknownReason
from tasks.transport.base import CommandResult, KeyRefusedError, TransportError
from tasks.transport.capture import Capture, LeftRunning
from tasks.transport.channel import converse
from tasks.transport.connect import HostKeyError, address_of
from tasks.transport.connection import SshConnection
from tasks.transport.mute import Mute, NoWordError
from tasks.transport.remote import END_S, MarkerLine, ran_out, wrap, wrap_stop

CHANNELS = 8
LONGEST = (128 << 10) - 1  # bytes: the whole line is one argument of the account's shell
_GRACE_S = 3.0  # beyond the node's own limit, before the client acts


class SshHost:
    """A node of the fleet over SSH."""

    def __init__(self, node: Node, jump: SshConnection | None = None) -> None:
        self._node, self._name, self._own_jump = node, node.name, None
        if node.jump and jump is None:
            jump = self._own_jump = SshConnection(node.jump, node.connect_timeout_s)
        via = jump
        tunnel = (lambda: via.tunnel_to(str(node.host), node.port)) if via else None
        self._connection, self._jump = SshConnection(node, node.connect_timeout_s, tunnel), jump
        self._slots = threading.BoundedSemaphore(CHANNELS)
        self._left, self._mute = LeftRunning(), Mute()
        self._marker = f"gpu-runbooks-{secrets.token_hex(6)}:"
        self._open_now, self._has_timeout = 0, False
        self._opening, self._count = threading.Lock(), threading.Lock()

    @property
    def name(self) -> str:
        """Name in the fleet file."""
        return self._name

    @property
    def notes(self) -> tuple[str, ...]:
        """Jump host and reconnections."""
        by = self._node.jump if self._connection.opened else None
        jump = (f"reached through jump host {address_of(by)}",) if by else ()
        return (*jump, *self._connection.notes)

    @property
    def refused(self) -> KeyRefusedError | None:
        """How the node refused the key in this run."""
        return self._connection.refused

    @property
    def jump_refused(self) -> KeyRefusedError | None:
        """How its jump host did."""
        return self._jump.refused if self._jump else None

    def adopt(self, transport: paramiko.Transport) -> bool:
        """Use a connection that is logged in already. False: this host is closed, or has one that commands may run on."""
        return self._connection.adopt(transport)

    def connect(self) -> None:
        """Opens the connection, or keeps for the first command why it cannot be opened."""
        with suppress(TransportError):
            self._connection.transport()

    def named(self, name: str) -> "SshHost":
        """This host under another name of the fleet file; connection and limits are shared."""
        other = copy(self)
        other._name = name
        return other

    def close(self) -> None:
        """End the connection; later calls raise."""
        self._connection.close()
        if self._own_jump:
            self._own_jump.close()

    def run(
        self, argv: Sequence[str], *, stdin: str | None = None, timeout_s: float = 20.0, limit_bytes: int = 1 << 20
    ) -> CommandResult:
        """Run `argv` on the node. Raises TransportError: unreachable, denied, timed-out, tool-missing, failed."""
        if not argv or any("\0" in a for a in argv):
            raise ValueError("an empty command, or one with NUL in it")
        command = shlex.join(argv)
        self._left.refuse(argv, stdin)
        with self._slots:
            try:
                self._mute.refuse()
                return self._run(argv, command, stdin, timeout_s, limit_bytes)
            except TransportError as e:
                if isinstance(e, NoWordError):
                    self._mute.note(e)
                if "left running" in e.detail:
                    self._left.note(argv, stdin, e.detail)
                if isinstance(e, HostKeyError):
                    raise
                raise TransportError(e.reason, e.detail, command) from e

    def _run(self, argv: Sequence[str], command: str, stdin: str | None, timeout_s: float, limit: int) -> CommandResult:
        out, err = (Capture(limit, self._marker.encode()) for _ in range(2))
        began = time.monotonic()
        channel = self._channel()
        try:
            self._exec(channel, wrap(argv, self._marker, timeout_s, self._has_timeout))
            began = time.monotonic()
            code = converse(channel, out, err, stdin, began + timeout_s + END_S + _GRACE_S)
        finally:
            self._release(channel)
        seconds = time.monotonic() - began
        said = MarkerLine(out.said if out.said is not None else err.said)
        self._judge(code, said, out, err, argv[0], seconds, timeout_s)
        self._has_timeout = self._has_timeout or said.has_timeout
        cut = out.truncated or err.truncated
        return CommandResult(command=command, exit=code or 0, out=out.text, err=err.text, seconds=seconds, truncated=cut)

    def _channel(self) -> paramiko.Channel:
        """A new session channel; where the server allows fewer at once, wait for one of our own to end."""
        transport, until = self._connection.transport(), time.monotonic() + 30
        while True:
            try:
                with self._opening:  # paramiko mixes up the refusals of two opens at once
                    channel = transport.open_session(timeout=self._node.connect_timeout_s)
                    with self._count:
                        self._open_now += 1
                return channel
            except paramiko.ChannelException as e:
                if self._open_now == 0 or time.monotonic() > until:
                    raise TransportError(UnknownReason.DENIED, f"the server opens no session channel ({e.text})") from None
                time.sleep(0.05)
            except (paramiko.SSHException, EOFError, OSError) as e:
                kind = NoWordError if transport.is_active() else TransportError
                raise kind(UnknownReason.UNREACHABLE, f"the connection was lost ({e or type(e).__name__})") from None

    def _release(self, channel: paramiko.Channel) -> None:
        with self._count:
            self._open_now -= 1
        with suppress(Exception):
            channel.close()

    def _exec(self, channel: paramiko.Channel, line: str) -> None:
        """Start the command; paramiko waits for ever for the server's word, so a timer closes the channel."""
        timer = threading.Timer(self._node.connect_timeout_s + 5, channel.close)
        timer.daemon = True
        timer.start()
        try:
            if len(line.encode()) > LONGEST:
                raise TransportError(UnknownReason.FAILED, f"a command line of {len(line) >> 10} KiB: a node takes 128")
            channel.exec_command(line)
        except (paramiko.SSHException, EOFError, OSError) as e:
            kind = NoWordError if timer.finished.is_set() else TransportError
            raise kind(UnknownReason.UNREACHABLE, f"the session ended before the command began ({e})") from None
        finally:
            timer.cancel()

    def _judge(
        self, code: int | None, said: MarkerLine, out: Capture, err: Capture, tool: str, seconds: float, timeout_s: float
    ) -> None:
        """Raise TransportError for every end that is no answer."""
        if code is None:
            self._stop(said, timeout_s)
        if code == -1:
            self._lost(said, timeout_s, seconds)
        if not said.state:
            words = (err.noise.strip() or out.noise.strip() or f"exit {code}, no output").splitlines()[0][:200]
            raise TransportError(UnknownReason.FAILED, f"the account's shell did not run the command: {words}")
        if said.state == "denied" or (code == 126 and "timeout: failed to run" in err.text):
            raise TransportError(UnknownReason.DENIED, f"{tool} on the node may not be executed")
        if said.state == "missing" or (code == 127 and "timeout: failed to run" in err.text):
            raise TransportError(UnknownReason.TOOL_MISSING, f"{tool} is not installed on the node")
        if ran_out(code or 0, seconds, timeout_s):
            raise TransportError(UnknownReason.TIMED_OUT, f"no answer within {timeout_s:g} s; it was ended on the node")

    def _stop(self, said: MarkerLine, timeout_s: float) -> None:
        """The node did not end it in time: end it through a second channel, or say that it runs on. Always raises."""
        base = f"no answer within {timeout_s:g} s"
        if not said.pid:
            raise NoWordError(UnknownReason.TIMED_OUT, f"{base}, not even its pid: perhaps left running, pid unknown")
        answer = self._ask_to_stop(said.pid)
        if answer == "gone":
            raise TransportError(UnknownReason.TIMED_OUT, f"{base}; it was ended on the node")
        why = f"state {answer.removeprefix('left ')}" if answer.startswith("left") else "the link gives no answer"
        raise TransportError(UnknownReason.TIMED_OUT, f"{base} and it could not be ended: left running, pid {said.pid} ({why})")

    def _ask_to_stop(self, pid: int) -> str:
        heard = Capture(4096)
        if not self._connection.alive:
            return ""
        try:
            channel = self._connection.transport().open_session(timeout=5)
            channel.exec_command(wrap_stop(pid))
            converse(channel, heard, Capture(4096), None, time.monotonic() + 5)
            channel.close()
        except (TransportError, paramiko.SSHException, EOFError, OSError):
            return ""
        lines = heard.text.strip().splitlines()
        return lines[-1] if lines else ""

    def _lost(self, said: MarkerLine, timeout_s: float, seconds: float) -> None:
        """The session ended without an exit status. Always raises."""
        if said.pid and self._ask_to_stop(said.pid) == "gone":
            if seconds >= timeout_s:  # `timeout` ends its own group by KILL, itself included
                raise TransportError(UnknownReason.TIMED_OUT, f"no answer within {timeout_s:g} s; it was ended on the node")
            raise TransportError(UnknownReason.FAILED, "its session was killed on the node by a signal; nothing of it is left")
        pid = f"pid {said.pid}" if said.pid else "pid unknown"
        limit = f"; the node ends it {timeout_s:g} s after its start" if said.has_timeout else ""
        raise TransportError(
            UnknownReason.UNREACHABLE, f"the connection was cut after {seconds:.1f} s: left running, {pid}{limit}"
        )
