"""Puts right one file of this machine (key, known_hosts) or one path or key on a node, as it was judged."""

import os
import secrets
from pathlib import Path
from typing import Any

from runbooks.core.plan import Step
from runbooks.parsers.ssh_key import describe_key_text, public_shape, tidy
from tasks.context import ActResult, Context, Refused
from tasks.credentials import read_secret, write_secret
from tasks.diagnostics.ssh_far_side import other_way
from tasks.diagnostics.ssh_host_key import known_hosts_path, line_hash
from tasks.diagnostics.ssh_key import configured_public_text
from tasks.diagnostics.ssh_memory import memory_of
from tasks.installation import lasting
from tasks.remediation.changing_probe import change

BUDGET_S = 30.0


def normalise_key(step: Step, context: Context) -> ActResult:
    """Rewrite a damaged private key file of ours with LF line ends and one final newline; the original stays beside it.

    Refused when the file is not the one that was judged, or the result would not be the same key."""
    path, text = _judged_key(step, context)
    clean, done = _same_key(text, str(path))
    aside = _aside(path)
    os.link(path, aside)
    _replace(path, clean, 0o600)
    memory_of(context).changed()
    return ActResult(said=(f"{path}: {done}, mode 600", f"the file as it was: {aside}"))


def normalise_secret(step: Step, context: Context) -> ActResult:
    """Rewrite a damaged private key in its Prefect Secret block; the original stays in a block beside it.

    Refused when the block is not the node's, not as it was judged, or the result would not be the same key."""
    block, key = str(step.args["block"]), context.node.key
    if key is None or key.secret != block:
        raise Refused(f"Secret {block} is not the key of {context.node.name} in the fleet file")
    try:
        text = read_secret(block)
    except Exception as e:  # the client's errors have no common base
        raise Refused(f"Secret {block} cannot be read again: {type(e).__name__}") from None
    if context.redactor.hash(text) != step.args["identity"]:
        raise Refused(f"Secret {block} has changed since it was read")
    clean, done = _same_key(text, f"Secret {block}")
    aside = f"{block}-before-{secrets.token_hex(4)}"
    write_secret(aside, text)
    write_secret(block, clean)
    memory_of(context).changed()
    return ActResult(said=(f"Secret {block}: {done}", f"the text as it was: Secret {aside}"))


def _same_key(text: str, where: str) -> tuple[str, str]:
    """(the key's text put right, what that was in words). Raises Refused when it would be another key."""
    before, clean = describe_key_text(text), tidy(text)
    after = describe_key_text(clean)
    if not before.repairable or after.damage or not after.private or before.fingerprint != after.fingerprint:
        raise Refused(f"{where}: putting it right would not give the same key")
    return clean, f"{', '.join(before.damage)} put right, key {after.fingerprint or after.type} unchanged"


def restrict_key_mode(step: Step, context: Context) -> ActResult:
    """Give a private key file of ours mode 600. Refused when it is not the file that was judged."""
    path, _ = _judged_key(step, context)
    old = path.stat().st_mode & 0o7777
    path.chmod(0o600)
    memory_of(context).changed()
    return ActResult(said=(f"{path}: mode {old:04o} is now 0600",))


def _judged_key(step: Step, context: Context) -> tuple[Path, str]:
    """The key file and its text, if it still is what was judged."""
    path = Path(step.args["path"])
    node = context.node
    named = lasting(node.key.file) if node.key and node.key.file else None
    if named != path:
        raise Refused(f"{path} is not the key file of {node.name} in the fleet file")
    try:
        stat = path.lstat()
        text = path.read_bytes().decode("utf-8", "replace")
    except OSError as e:
        raise Refused(f"{path}: {e.strerror}") from e
    if path.is_symlink() or stat.st_uid != os.geteuid():
        raise Refused(f"{path} is a link, or not a file of the user who runs this")
    if f"{stat.st_ino}:{len(path.read_bytes())}:{context.redactor.hash(text)}" != step.args["identity"]:
        raise Refused(f"{path} has changed since it was read")
    if stat.st_mode & 0o7777 != step.args["mode"]:
        raise Refused(f"{path} has another mode than was read")
    return path, text


def _aside(path: Path) -> Path:
    return path.with_name(f"{path.name}.before-{secrets.token_hex(4)}")


def _replace(path: Path, text: str, mode: int) -> None:
    """The new text under the old name, whole or not at all."""
    scratch = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    fd = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    with os.fdopen(fd, "w", encoding="utf-8", newline="") as f:
        f.write(text)
        f.flush()
        os.fsync(f.fileno())
    scratch.replace(path)


def remove_known_host(step: Step, context: Context) -> ActResult:
    """Remove one line of known_hosts whose host shows another key, which the fleet file vouches for. A copy is kept.

    Refused when the line is not the one that was read, or the fleet file no longer pins that key."""
    path, number = Path(step.args["path"]), int(step.args["line"])
    node = context.node
    if known_hosts_path(node) != path:
        raise Refused(f"{path} is not the known_hosts file of {node.name}")
    pinned = public_shape(_key_part(node.host_key or ""))
    if pinned is None or pinned.fingerprint != step.args["vouched"]:
        raise Refused(f"the fleet file does not vouch for {step.args['vouched']}")
    text = path.read_text(encoding="utf-8", errors="surrogateescape")
    lines = text.splitlines(keepends=True)
    if number > len(lines) or line_hash(lines[number - 1].rstrip("\n")) != step.args["hash"]:
        raise Refused(f"{path} line {number} is not the line that was read")
    aside, mode = _aside(path), path.stat().st_mode & 0o777
    os.link(path, aside)
    _replace(path, "".join(lines[: number - 1] + lines[number:]), mode)
    memory_of(context).changed()
    return ActResult(said=(f"{path}: line {number} removed; the file as it was: {aside}",))


def _key_part(text: str) -> str:
    words = text.split()
    at = next((i for i, w in enumerate(words) if w.startswith(("ssh-", "ecdsa-", "sk-"))), 0)
    return " ".join(words[at:])


def repair_ssh_path(step: Step, context: Context) -> ActResult:
    """Give one path on the way to authorized_keys its owner and mode, through the node's other way in.

    Refused when it is not as it was read."""
    a = step.args
    got = _through(context, "ssh_fix_path", dict(a))
    return ActResult(said=(f"{a['path']}: owner {got['uid']}:{got['gid']}, mode {got['mode']:04o}",))


def add_public_key(step: Step, context: Context) -> ActResult:
    """Append the configured public key to one authorized_keys file, through the node's other way in.

    Refused when the file is not the one that was read, or the configured key is not the one that was judged."""
    a = step.args
    text, where = configured_public_text(context.node)
    shape = public_shape(text)
    if shape is None or shape.fingerprint != a["fingerprint"]:
        raise Refused(f"{where or 'the fleet file'} does not name the key {a['fingerprint']}")
    words = text.split()
    line = " ".join([words[0], words[1], "added-by-gpu-runbooks"])
    ask = {k: a[k] for k in ("path", "inode", "uid", "gid", "home")} | {
        "line": line,
        "blob": words[1],
        "keys": a["keys"],
    }
    got = _through(context, "ssh_add_key", ask)
    return ActResult(said=(f"{got['path']}: {shape.type} {shape.fingerprint} is let in ({got['bytes']} bytes now)",))


def _through(context: Context, probe: str, ask: dict[str, Any]) -> dict[str, Any]:
    host = other_way(context, context.node)
    if host is None:
        raise Refused(f"the fleet file names no second way into {context.node.name}")
    got = change(host, probe, ask, BUDGET_S)
    memory_of(context).changed()
    return got
