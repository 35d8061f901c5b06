"""Deletes old checkpoints on a node, or settles a deletion that broke off: finished, or the name given back."""

from __future__ import annotations

import os
import shutil
import stat
from typing import Any

from tasks.checkpoint.probes.ckpt_copy import sync_folder
from tasks.checkpoint.probes.ckpt_guard import Unfinished, move, not_open, same
from tasks.checkpoint.probes.ckpt_names import pointer_text
from tasks.remote.probes.aside import Misplaced, give_back, rename_free, unguessable
from tasks.remote.probes.refused import Refused


def prune(ask: dict[str, Any]) -> list[str]:
    """Deletes the listed old checkpoints, each only while it is unchanged and closed under the name that it got for this,
    and only while every one that must stay is unchanged."""
    root, keep = ask["root"], ask["keep"]
    if not keep:
        raise Refused("target-changed", "no proven checkpoint is named that stays")
    names = [d["name"] for d in ask["delete"]]
    if set(names) & {k["name"] for k in keep}:
        raise Refused("target-changed", "one name is to stay and to go")
    _stay(ask, names)
    for d in ask["delete"]:
        same(root, d["name"], d["identity"])
    not_open(root, names)
    said: list[str] = []
    for d in ask["delete"]:
        gone = _going(d["name"], d["identity"])
        try:
            move(root, d["name"], gone, d["identity"], lambda d=d: _stay(ask, [d["name"]]))  # type: ignore[misc]
        except (Refused, Misplaced, OSError) as e:
            if said:
                raise Unfinished("; ".join([*said, "then it stopped: %s" % e])) from None
            raise
        _remove_held(os.path.join(root, gone))
        said.append("deleted %s (%d bytes)" % (os.path.join(root, d["name"]), d["size"]))
    sync_folder(root)
    return said


def _stay(ask: dict[str, Any], going: list[str]) -> None:
    """Every one that must stay is what it was, and the pointer names none of those that go. Raises Refused."""
    for k in ask["keep"]:
        same(ask["root"], k["name"], k["identity"])
    _not_pointed(ask["root"], ask.get("pointer", ""), going)


def finish(ask: dict[str, Any]) -> list[str]:
    """Removes what a deletion that broke off left, unless it changed or somebody has it open."""
    gone = os.path.join(ask["root"], _left(ask))
    _remove_held(gone)
    sync_folder(os.path.dirname(gone))
    return ["deleted what was left of %s" % ask["was"]]


def put_back(ask: dict[str, Any]) -> list[str]:
    """Gives a checkpoint whose deletion broke off before it began its name back; nothing is replaced."""
    root, to = ask["root"], os.path.join(ask["root"], ask["was"])
    if os.path.lexists(to):
        raise Refused("would-overwrite", "%s is taken" % to)
    looked_at = os.path.join(root, _left(ask))
    try:
        rename_free(looked_at, to)
    except FileExistsError:
        give_back(looked_at, os.path.join(root, ask["name"]), "%s is taken" % to)
        raise Refused("would-overwrite", "%s is taken" % to) from None
    sync_folder(os.path.dirname(to))
    return ["%s has its name again" % to]


def _left(ask: dict[str, Any]) -> str:
    """What a deletion left, under a new name of the same kind: it is unchanged and closed there. Raises Refused."""
    if not ask["name"].startswith(ask["was"] + ".deleting-"):
        raise Refused("not-ours", "%s was not left by a deletion" % ask["name"])
    same(ask["root"], ask["name"], ask["identity"])
    not_open(ask["root"], [ask["name"]])
    name = _going(ask["was"], ask["name"][len(ask["was"] + ".deleting-") :])
    move(ask["root"], ask["name"], name, ask["identity"])
    return name


def _going(was: str, identity: str) -> str:
    """A name for what is deleted, that no loader picks and nobody can wait for."""
    return unguessable("%s.deleting-%s" % (was, identity[:8])) + ".tmp"


def _remove_held(gone: str) -> None:
    """Removes it, links below it never followed; that this process has it open meanwhile tells others that it goes on."""
    fd = os.open(gone, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            shutil.rmtree(gone)  # by descriptors: what is exchanged for a link meanwhile is not followed
        else:
            os.unlink(gone)
    finally:
        os.close(fd)


def _not_pointed(root: str, pointer: str, names: list[str]) -> None:
    path = os.path.join(root, pointer)
    if not pointer or not os.path.lexists(path):
        return
    try:
        text = os.readlink(path) if os.path.islink(path) else pointer_text(path)
    except IsADirectoryError:
        return
    named = text.strip().rstrip("/").rpartition("/")[2]
    if any(named == n.rpartition("/")[2] for n in names):
        raise Refused("in-use", "%s names %s" % (path, named))
