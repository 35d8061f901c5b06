"""Reads the own side of a log-in: the key as given, its public half, the agent, `ssh -G`. No key material leaves here."""

import base64
import os
import re
import shlex
from pathlib import Path

import paramiko

from runbooks.core.fleet import KeySource, Node
from runbooks.core.reading import Absent, Known, Source, Unknown, UnknownReason
from runbooks.parsers.ssh_key import KeyFormat, KeyShape, describe_key_text, fingerprint, public_shape
from runbooks.parsers.ssh_text import parse_settings
from runbooks.ssh.evidence import AgentKey, Certificate, GivenKey
from tasks.context import Context
from tasks.credentials import credential, read_secret
from tasks.diagnostic import diagnostic
from tasks.installation import lasting
from tasks.remote.command import read
from tasks.transport.base import TransportError
from tasks.transport.keys import default_key, describe_key, load_key
from tasks.transport.local import LocalHost

SHOWN = (
    "hostname",
    "user",
    "port",
    "identityfile",
    "identitiesonly",
    "proxyjump",
    "proxycommand",
    "stricthostkeychecking",
)


@diagnostic("private key for {node.name}")
def read_given_key(context: Context, node: Node) -> Known[GivenKey] | Unknown:
    """The node's key source: present, readable, mode, shape, and who can read it."""
    try:
        source = node.key or default_key()
    except TransportError as e:
        key = GivenKey(source="the usual key files", present=False, why_not=e.detail)
        return Known(value=key, source=_source(context, "ls ~/.ssh"))
    what = describe_key(source)
    if source.file:
        return Known(
            value=_file(context, source, what), source=_source(context, f"ssh-keygen -l -f {shlex.quote(source.file)}")
        )
    if source.agent:
        there = bool(os.environ.get("SSH_AUTH_SOCK"))
        key = GivenKey(source=what, present=there, why_not="" if there else "SSH_AUTH_SOCK is not set")
        return Known(value=key, source=_source(context, "ssh-add -l"))
    return Known(value=_text_key(context, source, what), source=_source(context, f"# {what}"))


def _source(context: Context, command: str) -> Source:
    return Source(command=command, host="local", taken_at=context.now())


def _file(context: Context, source: KeySource, what: str) -> GivenKey:
    path = lasting(str(source.file))
    try:
        stat = path.stat()
    except OSError as e:
        return GivenKey(source=what, place=str(path), present=False, readable=False, why_not=str(e.strerror))
    given = GivenKey(source=what, place=str(path), mode=stat.st_mode & 0o7777, ours=stat.st_uid == os.geteuid())
    try:
        data = path.read_bytes()[: 1 << 20]
    except OSError as e:
        return given.model_copy(update={"readable": False, "why_not": str(e.strerror)})
    text = data.decode("utf-8", "replace")
    identity = f"{stat.st_ino}:{len(data)}:{context.redactor.hash(text)}"
    asked = _openssh(path) if "PRIVATE KEY" in text else (None, "", "", "")
    given = given.model_copy(update={"identity": identity, "openssh_reads": asked[0], "openssh_says": asked[1]})
    given = _described(given, text, source)
    if asked[2] and not given.fingerprint:
        given = given.model_copy(update={"fingerprint": asked[2], "type": asked[3]})
    return given.model_copy(update={"certificate": _certificate(path)})


def _text_key(context: Context, source: KeySource, what: str) -> GivenKey:
    """A key in a variable or a Prefect Secret."""
    if source.env:
        text = credential(source.env)
        if not text.strip():
            state = "is empty" if source.env in os.environ else "is not set"
            return GivenKey(source=what, present=False, why_not=f"environment variable {source.env} {state}")
    else:
        try:
            text = read_secret(str(source.secret))
        except Exception as e:  # the client's errors have no common base
            no = f"Prefect Secret {source.secret} cannot be read: {type(e).__name__}"
            return GivenKey(source=what, present=False, why_not=no)
    given = GivenKey(source=what, identity=context.redactor.hash(text), secret=source.secret or "")
    return _described(given, text, source)


def _described(given: GivenKey, text: str, source: KeySource) -> GivenKey:
    shape = describe_key_text(text)
    mark, name, bits, says = shape.fingerprint if shape.private else "", shape.type, shape.bits, ""
    reads: bool | None = None
    if shape.private and not shape.encrypted:
        try:
            loaded = load_key(source)
            reads = True
            if loaded is not None:
                mark, name, bits = fingerprint(loaded.asbytes()), loaded.get_name(), loaded.get_bits()
        except TransportError as e:
            reads, says = False, e.detail
    elif shape.encrypted:
        reads, says = False, "it is encrypted and no passphrase is given"
    return given.model_copy(
        update={
            "shape": shape,
            "library_reads": reads,
            "library_says": says,
            "fingerprint": mark,
            "type": name,
            "bits": bits,
        }
    )


def _openssh(path: Path) -> tuple[bool | None, str, str, str]:
    """ssh-keygen's word on the file: reads it, what it says, fingerprint and type of the public half."""
    try:
        done = LocalHost().run(("ssh-keygen", "-y", "-P", "", "-f", str(path)), timeout_s=10)
    except TransportError:
        return None, "", "", ""
    shape = public_shape(done.out)
    if done.exit == 0 and shape is not None:
        return True, "", shape.fingerprint, shape.type
    lines = [line.strip("@ ") for line in done.err.splitlines() if line.strip("@ ")]
    return False, (lines[0] if lines else f"exit {done.exit}")[:200].replace(str(path), "KEY"), "", ""


def _certificate(path: Path) -> Certificate | None:
    beside = path.with_name(path.name + "-cert.pub")
    try:
        blob = base64.b64decode(beside.read_text().split()[1])
        return parse_certificate(blob)
    except (OSError, ValueError, IndexError):
        return None


def parse_certificate(blob: bytes) -> Certificate:
    """A user or host certificate's public fields. Raises ValueError."""
    m = paramiko.Message(blob)
    kind = m.get_text()
    m.get_string()  # nonce
    fields = {"ssh-ed25519": 1, "ssh-rsa": 2}.get(kind.partition("-cert-v01")[0], 2)
    parts = [m.get_string() for _ in range(fields)]
    serial, role = m.get_int64(), m.get_int()
    key_id = m.get_text()
    principals, names = m.get_string(), []
    inner = paramiko.Message(principals)
    while inner.get_remainder():
        names.append(inner.get_text())
    after, before = m.get_int64(), m.get_int64()
    plain = paramiko.Message()
    plain.add_string(kind.partition("-cert-v01")[0])
    for p in parts:
        plain.add_string(p)
    return Certificate(
        key_id=key_id, serial=serial, principals=tuple(names), valid_after=after, valid_before=min(before, 1 << 62),
        for_fingerprint=fingerprint(plain.asbytes()), user=role == 1,
    )  # fmt: skip


@diagnostic("public key registered for {node.name}")
def read_configured_public(node: Node) -> Known[KeyShape] | Absent | Unknown:
    """The public half that should be let in: the fleet file's, else KEY.pub beside the key file."""
    text, where = configured_public_text(node)
    if not where:
        return Absent(proof="the fleet file names no public key and none lies beside the private one")
    source = Source(command=f"ssh-keygen -l -f {shlex.quote(where)}", host="local")
    shape = public_shape(text)
    if shape is None or shape.format is KeyFormat.CERTIFICATE or not shape.fingerprint:
        return Unknown(reason=UnknownReason.UNPARSABLE, detail=f"{where} is no public key", source=source)
    return Known(value=shape, source=source)


def configured_public_text(node: Node) -> tuple[str, str]:
    """(text, where it stands) of the public half; two empty strings: none is named."""
    if node.public_key and re.match(r"(ssh|ecdsa|sk)-\S+ ", node.public_key):
        return node.public_key, "the fleet file's public_key"
    place = node.public_key or (f"{node.key.file}.pub" if node.key and node.key.file else "")
    if not place:
        return "", ""
    path = lasting(place)
    try:
        return path.read_text(encoding="utf-8", errors="replace"), str(path)
    except OSError:
        return "", str(path) if node.public_key else ""


@diagnostic("keys of the SSH agent")
def read_agent(context: Context) -> Known[tuple[AgentKey, ...]] | Absent | Unknown:
    """The keys that the agent would offer, in its order."""
    source = _source(context, "ssh-add -l")
    if not os.environ.get("SSH_AUTH_SOCK"):
        return Absent(proof="SSH_AUTH_SOCK is not set", source=source)
    try:
        keys = paramiko.Agent().get_keys()
    except (paramiko.SSHException, OSError) as e:
        return Unknown(reason=UnknownReason.UNREACHABLE, detail=str(e), source=source)
    found = tuple(AgentKey(type=k.get_name(), fingerprint=fingerprint(k.asbytes())) for k in keys)
    return Known(value=found, source=source)


@diagnostic("ssh client configuration for {node.name}")
def read_client_config(context: Context, node: Node) -> Known[dict[str, str]] | Absent | Unknown:
    """What the user's own `ssh` would do for that host: `ssh -G`."""
    argv = ("ssh", "-G", "-p", str(node.port), *(("-l", node.user) if node.user else ()), str(node.host))

    def pick(text: str) -> dict[str, str]:
        return {k: v for k, v in parse_settings(text).items() if k in SHOWN}

    return read(
        LocalHost(),
        argv,
        pick,
        redactor=context.redactor,
        at=context.now(),
        absent_if_missing="no ssh is installed here",
    )
