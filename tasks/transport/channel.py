"""Talks with a command over a paramiko channel: stdin in, both streams out, until it ended or time ran out."""

import select
import time
from contextlib import suppress

import paramiko

from tasks.transport.capture import Capture

AFTER_EXIT_S = 0.5  # how long output is awaited when the command has ended but a child of it holds the pipe


def converse(channel: paramiko.Channel, out: Capture, err: Capture, stdin: str | None, until: float) -> int | None:
    """Feed and read until the command ended. Its exit status; -1 if the session was cut; None if time ran out."""
    poll = select.poll()
    poll.register(channel.fileno(), select.POLLIN)
    todo = memoryview((stdin or "").encode())
    ended_at = 0.0
    channel.settimeout(0.0)
    if not todo:
        channel.shutdown_write()
    while time.monotonic() < until or ended_at:
        todo = _send(channel, todo)
        moved = _receive(channel, out, err)
        if channel.exit_status_ready() and not moved:
            ended_at = ended_at or time.monotonic()
            if channel.eof_received or channel.closed or time.monotonic() - ended_at > AFTER_EXIT_S:
                return channel.recv_exit_status()
        if not moved and channel.eof_received:  # the descriptor stays readable from now on
            channel.status_event.wait(0.005 if todo else 0.25)
        elif not moved:
            poll.poll(5 if todo else 50 if ended_at else 250)
    return None


def _send(channel: paramiko.Channel, todo: memoryview) -> memoryview:
    """Write what the window takes of stdin; close it after the last byte."""
    if not todo:
        return todo
    try:
        while todo and channel.send_ready():
            todo = todo[channel.send(bytes(todo[:32768])) :]
    except (TimeoutError, OSError, EOFError, paramiko.SSHException):
        return todo if channel.active else memoryview(b"")
    if not todo:
        with suppress(OSError, EOFError, paramiko.SSHException):
            channel.shutdown_write()
    return todo


def _receive(channel: paramiko.Channel, out: Capture, err: Capture) -> bool:
    """Take what has come on both streams. True if something came."""
    moved = False
    while channel.recv_ready():
        out.feed(channel.recv(65536))
        moved = True
        if not channel.recv_stderr_ready():
            break
    if channel.recv_stderr_ready():
        err.feed(channel.recv_stderr(65536))
        moved = True
    return moved
