"""Deletes old checkpoints on a node, or settles a deletion that broke off: finished, or the name given back."""

from __future__ import annotations

import os
from typing import Any

from tasks.probes.ckpt_copy import Refusal, sync_folder
from tasks.probes.ckpt_guard import NOREPLACE, not_open, rename2, same
from tasks.probes.ckpt_names import pointer_text


def prune(ask: dict[str, Any]) -> list[str]:
    """Deletes the listed old checkpoints, only while every one that must stay is unchanged and nothing listed is
    open."""
    root, keep = ask["root"], ask["keep"]
    if not keep:
        raise Refusal("no proven checkpoint is named that stays")
    for k in keep:
        same(root, k["name"], k["identity"])
    paths = [same(root, d["name"], d["identity"]) for d in ask["delete"]]
    if {d["name"] for d in ask["delete"]} & {k["name"] for k in keep}:
        raise Refusal("one name is to stay and to go")
    not_open(root, [d["name"] for d in ask["delete"]])
    _not_pointed(root, ask.get("pointer", ""), [d["name"] for d in ask["delete"]])
    said = []
    for path, d in zip(paths, ask["delete"]):  # noqa: B905 - no strict= before Python 3.10
        gone = "%s.deleting-%s.tmp" % (path, d["identity"][:8])
        rename2(path, gone, NOREPLACE)
        _remove_held(gone)
        said.append("deleted %s (%d bytes)" % (path, d["size"]))
    sync_folder(root)
    return said


def finish(ask: dict[str, Any]) -> list[str]:
    """Removes what a deletion that broke off left, unless it changed or somebody has it open."""
    gone = _left(ask)
    _remove_held(gone)
    sync_folder(os.path.dirname(gone))
    return ["deleted what was left of %s" % ask["was"]]


def put_back(ask: dict[str, Any]) -> list[str]:
    """Gives a checkpoint whose deletion broke off before it began its name back; nothing is replaced."""
    gone, to = _left(ask), os.path.join(ask["root"], ask["was"])
    try:
        rename2(gone, to, NOREPLACE)
    except FileExistsError:
        raise Refusal("%s is taken" % to) from None
    sync_folder(os.path.dirname(to))
    return ["%s has its name again" % to]


def _left(ask: dict[str, Any]) -> str:
    if not ask["name"].startswith(ask["was"] + ".deleting-"):
        raise Refusal("%s was not left by a deletion" % ask["name"])
    gone = same(ask["root"], ask["name"], ask["identity"])
    not_open(ask["root"], [ask["name"]])
    return gone


def _remove_held(gone: str) -> None:
    """Removes it; that this process has it open meanwhile tells others that the deletion goes on."""
    fd = os.open(gone, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _remove(gone)
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
        raise Refusal("%s names %s" % (path, named))


def _remove(path: str) -> None:
    if not os.path.isdir(path) or os.path.islink(path):
        os.unlink(path)
        return
    for folder, folders, files in os.walk(path, topdown=False):
        for name in files:
            os.unlink(os.path.join(folder, name))
        for name in folders:
            full = os.path.join(folder, name)
            (os.unlink if os.path.islink(full) else os.rmdir)(full)
    os.rmdir(path)
