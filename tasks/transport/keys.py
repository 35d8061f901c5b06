"""Reads a node's private key from file, environment text or Prefect Secret. Its text never leaves this file."""

import io
import os
from pathlib import Path

import paramiko

from runbooks.core.fleet import KeySource
from runbooks.core.names import nearest
from runbooks.core.reading import UnknownReason
from tasks.credentials import credential, read_secret, secret_blocks, where
from tasks.installation import lasting
from tasks.transport.base import TransportError
from tasks.whole_file import nearest_beside

_DEFAULT_FILES = ("id_ed25519", "id_ecdsa", "id_rsa")
_CLASSES: tuple[type[paramiko.PKey], ...] = (paramiko.Ed25519Key, paramiko.ECDSAKey, paramiko.RSAKey)


def default_key() -> KeySource:
    """What is used where the fleet file names no key: the agent if there is one, else a usual file."""
    if os.environ.get("SSH_AUTH_SOCK"):
        return KeySource(agent=True)
    folder = lasting("~/.ssh")
    found = [folder / n for n in _DEFAULT_FILES if (folder / n).is_file()]
    if not found:
        tried = ", ".join(_DEFAULT_FILES)
        raise TransportError(UnknownReason.DENIED, f"no key: SSH_AUTH_SOCK is not set and {folder} has none of {tried}")
    return KeySource(file=str(found[0]))


def describe_key(source: KeySource) -> str:
    """The key source in words, without its content."""
    if source.agent:
        return "the agent's keys"
    if source.file:
        return f"key file {source.file}"
    return f"key in environment variable {source.env}" if source.env else f"key in Prefect Secret {source.secret}"


def load_key(source: KeySource) -> paramiko.PKey | None:
    """The private key; None for the agent. Raises TransportError (denied) with what is wrong with it."""
    what = describe_key(source)
    if source.agent:
        if not os.environ.get("SSH_AUTH_SOCK"):
            raise TransportError(UnknownReason.DENIED, "the key is with the agent, and SSH_AUTH_SOCK is not set")
        return None
    if source.file:
        return _from_file(lasting(source.file), what)
    return parse_key(_environment(source.env) if source.env else _prefect_secret(str(source.secret)), what)


def _from_file(path: Path, what: str) -> paramiko.PKey:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        raise TransportError(UnknownReason.DENIED, f"{what} does not exist{nearest_beside(path)}") from None
    except OSError as e:
        raise TransportError(UnknownReason.DENIED, f"{what}: {e.strerror}") from None
    key = parse_key(text, what)
    certificate = path.with_name(path.name + "-cert.pub")
    if certificate.is_file():
        key.load_certificate(str(certificate))
    return key


def _environment(name: str) -> str:
    text = credential(name)
    if not text.strip():
        raise TransportError(UnknownReason.DENIED, f"{where(name)}, which should hold the key, is empty")
    return text


def _prefect_secret(name: str) -> str:
    try:
        return read_secret(name)
    except Exception as e:  # the client's errors have no common base
        why = f"cannot be read: {type(e).__name__}{_near(name)}"
        raise TransportError(UnknownReason.DENIED, f"Prefect Secret {name} {why}") from None


def _near(name: str) -> str:
    """The block that may be meant; "" where that one is there, none is like it, or the server does not say."""
    try:
        blocks = secret_blocks()
    except Exception:  # as above
        return ""
    near = nearest(name, blocks) if name not in blocks else ""
    return f"; nearest: {near}" if near else ""


def tidy_key_text(text: str) -> str:
    """Key text as a file would hold it: literal backslash-n, CRLF, quotes and a missing last newline put right."""
    text = text.strip().strip("'\"").replace("\\r", "").replace("\\n", "\n").replace("\r\n", "\n").replace("\r", "\n")
    lines = [line.strip() for line in text.strip().split("\n")]
    if len(lines) == 1:
        lines = _unfold(lines[0])
    return "\n".join(lines) + "\n"


def _unfold(line: str) -> list[str]:
    """A key whose newlines were turned into blanks."""
    begin, end = line.find("-----", 11), line.rfind("-----END")
    if not line.startswith("-----BEGIN") or begin < 0 or end < begin:
        return [line]
    return [line[: begin + 5], *line[begin + 5 : end].split(), line[end:]]


def parse_key(text: str, what: str) -> paramiko.PKey:
    """A private key of any kind from its text. Raises TransportError that never quotes the text."""
    tidy = tidy_key_text(text)
    if "PRIVATE KEY-----" not in tidy:
        public = "; this is a public key" if tidy.startswith(("ssh-", "ecdsa-")) else ""
        raise TransportError(UnknownReason.DENIED, f"{what} is not a private key{public}")
    for kind in _CLASSES:
        try:
            return kind.from_private_key(io.StringIO(tidy))
        except paramiko.PasswordRequiredException:
            detail = f"{what} is encrypted and nobody can be asked for its passphrase; use the agent"
            raise TransportError(UnknownReason.DENIED, detail) from None
        except (paramiko.SSHException, ValueError, TypeError, IndexError):
            continue
    raise TransportError(UnknownReason.DENIED, f"{what}: paramiko {paramiko.__version__} reads it as no key of type ed25519, ecdsa or rsa")
