"""Gathers everything that the SSH judgment looks at, of one node's log-in. Reads only, within a budget of attempts."""

import getpass
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import paramiko

from runbooks.core.fleet import Node
from runbooks.core.reading import Absent, Known, Source, Unknown
from runbooks.parsers.ssh_key import KeyShape, fingerprint
from runbooks.ssh.evidence import Evidence, GivenKey, Wire
from tasks.context import Context
from tasks.diagnostic import diagnostic
from tasks.ssh.alike import read_alike
from tasks.ssh.attempts import Memory, memory_of
from tasks.ssh.far_side import log_before, other_way, read_far_side
from tasks.ssh.key import (
    configured_public_text,
    read_agent,
    read_client_config,
    read_configured_public,
    read_given_key,
)
from tasks.ssh.login import recall
from tasks.ssh.wire import at_start, walk
from tasks.transport.base import TransportError
from tasks.transport.keys import default_key, load_key
from tasks.transport.ssh import SshHost


def gather_ssh_auth_failure(context: Context) -> Evidence:
    """One node: the key as given, the wire, and the far side where another way in exists."""
    return _local(context) if context.node.local else gather_log_in(context, context.node)


def gather_log_in(context: Context, node: Node) -> Evidence:
    """The log-in to any node, also one that stands in no fleet file (a pod)."""
    at, memory = context.now(), memory_of(context)
    given, public = read_given_key(context, node), read_configured_public(node)
    since = log_before(context, node)
    shape = public.value if isinstance(public, Known) else None
    wire = _wire(context, node, memory, shape)
    mark = given.value.fingerprint if isinstance(given, Known) else ""
    return Evidence(
        node=node.name,
        taken_at=at,
        user=node.user or getpass.getuser(),
        host=str(node.host),
        port=node.port,
        hands_off=node.hands_off,
        key=given,
        configured_public=public,
        public_line=" ".join(configured_public_text(node)[0].split()[:2]) if isinstance(public, Known) else "",
        agent=read_agent(context),
        client=read_client_config(context, node),
        wire=wire,
        far=read_far_side(context, node, wire.value if isinstance(wire, Known) else None, since, memory),
        alike=read_alike(context, mark),
    )


def _local(context: Context) -> Evidence:
    here = Absent(proof=f"{context.node.name} is this machine: no SSH is needed")
    return Evidence(
        node=context.node.name, taken_at=context.now(), user=getpass.getuser(), host="", port=0,
        key=Known(value=GivenKey(source="none is needed")), wire=here, far=here,
    )  # fmt: skip


@diagnostic("SSH log-in stage by stage · {node.name}")
def _wire(context: Context, node: Node, memory: Memory, public: KeyShape | None) -> Known[Wire] | Unknown:
    command = f"ssh -v -p {node.port} {node.user or getpass.getuser()}@{node.host} true"
    source = Source(command=command, host="local", taken_at=context.now())
    others = {n.name: n.host_key for n in context.fleet.nodes if n.host_key}
    try:
        keep, keys = _keeper(context, node), keys_to_offer(node, public)
        _recall(context, node, memory, keys)
        return Known(value=walk(node, memory, keys, others, keep), source=source)
    except TransportError as e:
        return Unknown(reason=e.reason, detail=e.detail, source=source)


def _recall(context: Context, node: Node, memory: Memory, keys: tuple[Any, ...]) -> None:
    """A refusal that a connection of this run has heard already is the answer: servers punish who asks again.

    Where a second way in shows sshd's own words, only in a sweep, which asks where its log ends before it looks at the node."""
    host = context.open_host(node)
    if memory.mended or not isinstance(host, SshHost):
        return
    if node.jump and host.jump_refused:
        memory.jump_to(node.jump, node.connect_timeout_s).recall(host.jump_refused)
    if host.refused and (context.shared is not None or other_way(context, node) is None):
        recall(at_start(node), memory, keys, host.refused)


def _keeper(context: Context, node: Node) -> Callable[[paramiko.Transport], bool]:
    """Hands the connection that is logged in to the run's host, so that later commands need no second log-in."""

    def keep(transport: paramiko.Transport) -> bool:
        host = context.open_host(node)
        return isinstance(host, SshHost) and host.adopt(transport)

    return keep


def keys_to_offer(node: Node, public: KeyShape | None) -> tuple[Any, ...]:
    """The keys to offer: the configured one; of an agent, only the one that matches the configured public half."""
    with suppress(TransportError, paramiko.SSHException, OSError):
        source = node.key or default_key()
        if not source.agent:
            key = load_key(source)
            return (key,) if key is not None else ()
        if os.environ.get("SSH_AUTH_SOCK"):
            keys = paramiko.Agent().get_keys()
            mine = [k for k in keys if public and fingerprint(k.asbytes()) == public.fingerprint]
            return tuple(mine or keys)
    return ()
