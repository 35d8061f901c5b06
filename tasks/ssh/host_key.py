"""Judges the host key that a server showed, by known_hosts or the pinned key, and by `ssh` where a CA vouches."""

import hashlib
from pathlib import Path

import paramiko

from runbooks.core.fleet import Node
from runbooks.ssh.evidence import HostKey, HostKeyFact
from tasks.installation import lasting
from tasks.ssh.attempts import CONNECTIONS, Memory
from tasks.transport.base import TransportError
from tasks.transport.connect import trusted_keys
from tasks.transport.known_hosts import (
    Fact,
    KnownHost,
    entries_for,
    fingerprint,
    judge_host_key,
    key_types,
    parse_known_hosts,
)
from tasks.transport.local import LocalHost

FACTS = {
    Fact.TRUSTED: HostKeyFact.TRUSTED,
    Fact.UNKNOWN: HostKeyFact.UNKNOWN,
    Fact.CHANGED: HostKeyFact.CHANGED,
    Fact.REVOKED: HostKeyFact.REVOKED,
    Fact.CANNOT_VERIFY: HostKeyFact.CANNOT_VERIFY,
}


def known_hosts_path(node: Node) -> Path:
    """The file that `ssh` and we judge by."""
    return lasting(node.known_hosts or "~/.ssh/known_hosts")


def wanted_types(node: Node) -> tuple[str, ...]:
    """Host key types to ask for first: those that are known."""
    try:
        entries, _ = trusted_keys(node)
    except TransportError:
        return ()
    kinds = key_types(entries_for(entries, str(node.host), node.port))
    return tuple(k for kind in kinds for k in (("rsa-sha2-512", "rsa-sha2-256") if kind == "ssh-rsa" else (kind,)))


def judge_shown(node: Node, shown: paramiko.PKey, others: dict[str, str], memory: Memory) -> HostKey:
    """The verdict on the shown key. Where `ssh` has to be asked, once a run, that is a connection of the address's budget."""
    kind, text = shown.get_name(), shown.get_base64()
    try:
        entries, where = trusted_keys(node)
    except TransportError as e:
        return HostKey(fact=HostKeyFact.CANNOT_VERIFY, detail=e.detail, type=kind, fingerprint=fingerprint(text))
    verdict = judge_host_key(entries, str(node.host), node.port, kind, text, where)
    fact, detail = FACTS[verdict.fact], verdict.detail
    if fact is HostKeyFact.CANNOT_VERIFY:
        asked = f"{node.host}:{node.port} {fingerprint(text)}"
        if asked not in memory.by_ssh:
            memory.by_ssh[asked] = _within_budget(node, detail, memory)
        fact, detail = memory.by_ssh[asked]
    lines, listed = _file_entries(node)
    return HostKey(
        fact=fact,
        detail=detail,
        type=kind,
        fingerprint=fingerprint(text),
        public=f"{kind} {text}",
        pinned=bool(node.host_key),
        also_known_as=_also(node, listed, text, others),
        stale=_stale(node, listed, lines, kind, text),
    )


def _file_entries(node: Node) -> tuple[list[str], tuple[KnownHost, ...]]:
    try:
        text = known_hosts_path(node).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return [], ()
    return text.splitlines(), parse_known_hosts(text)


def _also(node: Node, entries: tuple[KnownHost, ...], key: str, others: dict[str, str]) -> tuple[str, ...]:
    """Other names under which this very key is known."""
    mine = {e.line for e in entries_for(entries, str(node.host), node.port)}
    names = [",".join(e.hosts)[:80] for e in entries if e.key == key and e.line not in mine and not e.marker]
    names += [f"node {name}" for name, pinned in others.items() if name != node.name and key in pinned]
    return tuple(dict.fromkeys(names))


def line_hash(line: str) -> str:
    """Identity of a known_hosts line."""
    return hashlib.sha256(line.encode()).hexdigest()[:16]


def _stale(node: Node, entries: tuple[KnownHost, ...], lines: list[str], kind: str, key: str) -> tuple[str, ...]:
    """Lines of known_hosts that name this host with another key of the same type."""
    mine = entries_for(entries, str(node.host), node.port)
    old = [e for e in mine if not e.marker and e.kind == kind and e.key != key]
    return tuple(f"{known_hosts_path(node)}:{e.line} {line_hash(lines[e.line - 1])}" for e in old)


def _within_budget(node: Node, detail: str, memory: Memory) -> tuple[HostKeyFact, str]:
    if node.jump:
        return HostKeyFact.CANNOT_VERIFY, f"{detail}; it is behind a jump host, where ssh was not asked"
    if not memory.may_connect(f"{node.host}:{node.port}"):
        return HostKeyFact.CANNOT_VERIFY, f"{detail}; ssh was not asked: {CONNECTIONS} connections were made"
    return _by_ssh(node, detail)


def _quoted(path: Path) -> str:
    """A path as ssh's options take it: blanks do not part it, `%` stands for itself."""
    return '"' + str(path).replace("%", "%%") + '"'


def _by_ssh(node: Node, detail: str) -> tuple[HostKeyFact, str]:
    """Asks the system's ssh, which knows host certificates. No key is offered."""
    options = {
        "BatchMode": "yes", "StrictHostKeyChecking": "yes", "UserKnownHostsFile": _quoted(known_hosts_path(node)),
        "GlobalKnownHostsFile": "/dev/null", "PreferredAuthentications": "none", "IdentityAgent": "none",
        "ConnectTimeout": str(max(1, int(node.connect_timeout_s))), "UpdateHostKeys": "no",
    }  # fmt: skip
    argv = ["ssh", "-F", "none", *(w for k, v in options.items() for w in ("-o", f"{k}={v}"))]
    try:
        done = LocalHost().run(
            [*argv, "-p", str(node.port), f"{node.user or 'root'}@{node.host}", "true"], timeout_s=20
        )
    except TransportError as e:
        return HostKeyFact.CANNOT_VERIFY, f"{detail}; ssh could not be asked: {e.detail}"
    said = done.err.strip()
    if "Permission denied" in said or done.exit == 0:
        return HostKeyFact.CERTIFIED, "ssh verified the host's certificate; this library cannot"
    last = said.splitlines()[-1][:200] if said else f"exit {done.exit}"
    if "verification failed" in said:
        return HostKeyFact.UNKNOWN, f"ssh refuses the host certificate: {' '.join(said.split())[-300:]}"
    return HostKeyFact.CANNOT_VERIFY, f"{detail}; ssh says: {last}"
