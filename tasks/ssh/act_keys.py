"""Puts right one file of this machine (key, known_hosts) or one path or key on a node, as it was judged."""

import os
import stat
from pathlib import Path
from typing import Any

from runbooks.core.args.ssh import (
    AddPublicKey,
    NormaliseKey,
    NormaliseSecret,
    RemoveKnownHost,
    RepairSshPath,
    RestrictKeyMode,
)
from runbooks.core.refusal import RefusalCode
from runbooks.parsers.ssh_key import describe_key_text, public_shape, tidy
from tasks.arguments import takes
from tasks.context import ActionRefused, ActionResult, Context
from tasks.credentials import read_secret, write_secret
from tasks.installation import lasting
from tasks.remote.changing import change
from tasks.remote.unseen import UNSEEN
from tasks.ssh.act_files import comment_out, content, exchange, opened, still_there
from tasks.ssh.attempts import memory_of
from tasks.ssh.far_side import other_way
from tasks.ssh.host_key import known_hosts_path, line_hash
from tasks.ssh.key import configured_public_text

BUDGET_S = 30.0  # one short file is written


@takes(NormaliseKey)
def normalise_key(args: NormaliseKey, context: Context) -> ActionResult:
    """Rewrite a damaged private key file of ours with LF line ends and one final newline; the original stays beside it.

    Refused when the file is not the one that was judged, also in the moment of the change, or it would be another key."""
    path = _own_key(args, context)
    with opened(path, os.O_RDONLY) as fd:
        text = _judged(fd, args, context)
    clean, done = _same_key(text, str(path))

    def came_out(out: Path) -> None:
        with opened(out, os.O_RDONLY) as fd:
            _judged(fd, args, context)

    aside = exchange(path, clean, came_out, Path(args.aside))
    memory_of(context).changed()
    return ActionResult(said=(f"{path}: {done}, mode 600", f"the file as it was: {aside}"), facts={"aside": str(aside)})


@takes(NormaliseSecret)
def normalise_secret(args: NormaliseSecret, context: Context) -> ActionResult:
    """Rewrite a damaged private key in its Prefect Secret block; the original stays in a block beside it.

    Refused when the block is not the node's, not as it was judged, or the result would not be the same key."""
    block, key = args.block, context.node.key
    if key is None or key.secret != block:
        raise ActionRefused(RefusalCode.CONFIG, f"Secret {block} is not the key of {context.node.name} in the fleet file")
    try:
        text = read_secret(block)
    except Exception as e:  # the client's errors have no common base
        raise ActionRefused(RefusalCode.CANNOT_CHECK, f"Secret {block} cannot be read again: {type(e).__name__}") from None
    if context.redactor.hash(text) != args.identity:
        raise ActionRefused(RefusalCode.TARGET_CHANGED, f"Secret {block} has changed since it was read")
    clean, done = _same_key(text, f"Secret {block}")
    aside = args.aside
    write_secret(aside, text)
    if read_secret(block) != text:
        raise ActionRefused(
            RefusalCode.TARGET_CHANGED,
                f"Secret {block} was changed in this very moment; it stays (a copy of what was read: Secret {aside})"
        )
    write_secret(block, clean)
    memory_of(context).changed()
    return ActionResult(said=(f"Secret {block}: {done}", f"the text as it was: Secret {aside}", UNSEEN))


def _same_key(text: str, where: str) -> tuple[str, str]:
    """(the key's text put right, what that was in words). Raises ActionRefused when it would be another key."""
    before, clean = describe_key_text(text), tidy(text)
    after = describe_key_text(clean)
    if not before.repairable or after.damage or not after.private or before.fingerprint != after.fingerprint:
        raise ActionRefused(RefusalCode.NOT_SUPPORTED, f"{where}: the repair would not give the same key")
    return clean, f"{', '.join(before.damage)} repaired, key {after.fingerprint or after.type} unchanged"


@takes(RestrictKeyMode)
def restrict_key_mode(args: RestrictKeyMode, context: Context) -> ActionResult:
    """Give a private key file of ours mode 600. Refused when it is not the file that was judged."""
    path = _own_key(args, context)
    with opened(path, os.O_RDONLY) as fd:
        _judged(fd, args, context)
        old = os.fstat(fd).st_mode & 0o7777
        os.fchmod(fd, 0o600)
        still_there(path, fd)
    memory_of(context).changed()
    return ActionResult(said=(f"{path}: mode {old:04o} is now 0600",))


def _own_key(args: RestrictKeyMode, context: Context) -> Path:
    """The key file, if it is the node's. Raises ActionRefused."""
    path, key = Path(args.path), context.node.key
    if key is None or not key.file or lasting(key.file) != path:
        raise ActionRefused(RefusalCode.CONFIG, f"{path} is not the key file of {context.node.name} in the fleet file")
    return path


def _judged(fd: int, args: RestrictKeyMode, context: Context) -> str:
    """The text of the opened key file, if it still is what was judged. Raises ActionRefused."""
    path, seen, data = args.path, os.fstat(fd), content(fd)
    text = data.decode("utf-8", "replace")
    if not stat.S_ISREG(seen.st_mode) or seen.st_uid != os.geteuid():
        raise ActionRefused(RefusalCode.NOT_OURS, f"{path} is not a file of the user who runs this")
    if f"{seen.st_ino}:{len(data)}:{context.redactor.hash(text)}" != args.identity:
        raise ActionRefused(RefusalCode.TARGET_CHANGED, f"{path} has changed since it was read")
    if seen.st_mode & 0o7777 != args.mode:
        raise ActionRefused(RefusalCode.TARGET_CHANGED, f"{path} has another mode than was read")
    return text


@takes(RemoveKnownHost)
def remove_known_host(args: RemoveKnownHost, context: Context) -> ActionResult:
    """Make one line of known_hosts a comment whose host shows another key, which the fleet file vouches for. A copy is kept.

    Refused when the line is not the one that was read, or the fleet file no longer pins that key."""
    path, number = Path(args.path), args.line
    node = context.node
    if known_hosts_path(node) != path:
        raise ActionRefused(RefusalCode.NOT_OURS, f"{path} is not the known_hosts file of {node.name}")
    pinned = public_shape(_key_part(node.host_key or ""))
    if pinned is None or pinned.fingerprint != args.vouched:
        raise ActionRefused(RefusalCode.CONFIG, f"the fleet file does not vouch for {args.vouched}")
    aside = comment_out(path, number, lambda line: line_hash(line) == args.hash, Path(args.aside))
    memory_of(context).changed()
    return ActionResult(said=(f"{path}: line {number} is a comment now; the file as it was: {aside}",), facts={"aside": str(aside)})


def _key_part(text: str) -> str:
    words = text.split()
    at = next((i for i, w in enumerate(words) if w.startswith(("ssh-", "ecdsa-", "sk-"))), 0)
    return " ".join(words[at:])


@takes(RepairSshPath)
def repair_ssh_path(args: RepairSshPath, context: Context) -> ActionResult:
    """Give one path on the way to authorized_keys its owner and mode, through the node's other way in.

    Refused when it is not as it was read."""
    got = _through(context, "ssh_fix_path", args.plain())
    return ActionResult(said=(f"{args.path}: owner {got['uid']}:{got['gid']}, mode {got['mode']:04o}",))


@takes(AddPublicKey)
def add_public_key(args: AddPublicKey, context: Context) -> ActionResult:
    """Append the configured public key to one authorized_keys file, through the node's other way in.

    Refused when the file is not the one that was read, or the configured key is not the one that was judged."""
    text, where = configured_public_text(context.node)
    shape = public_shape(text)
    if shape is None or shape.fingerprint != args.fingerprint:
        raise ActionRefused(RefusalCode.CONFIG, f"{where or 'the fleet file'} does not name the key {args.fingerprint}")
    words = text.split()
    line = " ".join([words[0], words[1], "added-by-gpu-runbooks"])
    ask = args.plain("path", "inode", "uid", "gid", "home", "keys") | {"line": line, "blob": words[1]}
    got = _through(context, "ssh_add_key", ask)
    return ActionResult(said=(f"{got['path']}: {shape.type} {shape.fingerprint} is let in ({got['bytes']} bytes now)",))


def _through(context: Context, probe: str, ask: dict[str, Any]) -> dict[str, Any]:
    host = other_way(context, context.node)
    if host is None:
        raise ActionRefused(RefusalCode.CONFIG, f"the fleet file names no second way into {context.node.name}")
    got = change(context, host, probe, ask, BUDGET_S)
    memory_of(context).changed()
    return got
