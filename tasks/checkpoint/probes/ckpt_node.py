"""Reads the checkpoints of one tier on the node: candidates and their structure, space, holders, pointer. Changes
nothing.
JSON argument: {do: scan|content|members, root, pattern, spec, ...}. Runs behind the checkers of
runbooks/checkpoint/parsers."""

from __future__ import annotations

import errno
import json
import os
import re
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from runbooks.checkpoint.parsers.content import check_content
from runbooks.checkpoint.parsers.sets import CheckpointSpec, check_set
from runbooks.checkpoint.parsers.types import StructureCheck
from tasks.checkpoint.probes.ckpt_files import beside, identity, members, open_set
from tasks.checkpoint.probes.ckpt_fs import best_crc32, space
from tasks.checkpoint.probes.ckpt_holders import holders
from tasks.checkpoint.probes.ckpt_names import list_names, pointer

SCALARS = 20
MOST_GROUPS = 16
TOLD_NAMES = 20_000  # names of an incomplete set that are told, so that other hosts' parts can be joined
HALF = ("metadata-missing", "shard-missing", "part-missing")
OF_TRAINING = re.compile(r"^(\w+\.)?(\w*(optim|sched|scaler)\w*|\w*_?rng\w*|ema(_\w+)?|\w+_ema)\.", re.IGNORECASE)  # not the model's


def describe(root: str, name: str, step: int, spec: CheckpointSpec, structure: bool) -> dict[str, Any]:
    """One candidate."""
    path = os.path.join(root, name)
    out: dict[str, Any] = {"name": name, "step": step}
    try:
        found, blobs = open_set(path)
        newest = max((s.st_mtime for s in found.values()), default=os.lstat(path).st_mtime)
        folder = os.path.isdir(path)
        out.update(folder=folder, size=sum(s.st_size for s in found.values()), files=len(found), mtime_s=newest)
        out["identity"] = identity(found)
        if structure:
            if not folder:
                beside(path, blobs)
            check = check_set(blobs, spec._replace(step=step))
            out.update(as_json(check), **parts_of(check, {n: b.size for n, b in blobs.items()}))
            _times(out, found)
            if identity(members(path)) != out["identity"]:  # parts of two saves may have been read as one
                out.update(limits=[["unreadable", "it changed while it was read", name]], faults=[], suspects=[])
    except OSError as e:
        out["limits"] = [["unreadable", "%s: %s" % (errno.errorcode.get(e.errno or 0, "?"), e.strerror), name]]
    return out


def parts_of(check: StructureCheck, sizes: dict[str, int]) -> dict[str, Any]:
    """What an incomplete set has and needs: another host may have the rest."""
    if not any(f.kind in HALF for f in check.faults):
        return {}
    return {"has": dict(sorted(sizes.items())[:TOLD_NAMES]), "needs": dict(sorted(check.needs.items())[:TOLD_NAMES])}


def _times(out: dict[str, Any], found: dict[str, os.stat_result]) -> None:
    """A shard that is newer than the commit marker was written after the save."""
    marker = found.get(".metadata")
    late = sorted(n for n, s in found.items() if marker and n.endswith(".distcp") and s.st_mtime > marker.st_mtime + 5)
    if late:
        words = "%d shards are newer than the commit marker, e.g. %s" % (len(late), late[0])
        out["suspects"] = [*out.get("suspects", []), ["mixed-saves", words, late[0]]]


def as_json(check: StructureCheck) -> dict[str, Any]:
    """A check as plain data, small."""
    names = list(check.tensors)
    model = [n for n in names if not OF_TRAINING.search(n)]
    prefix = next((p for p in ("module.", "_orig_mod.") if sum(_has(n, p) for n in model) * 2 > len(model)), "")
    scalars = {k: v for k, v in check.scalars.items() if isinstance(v, (int, float, str, bool))}
    return {
        "format": check.format, "faults": [list(f) for f in check.faults],
        "suspects": [list(f) for f in check.suspects], "limits": [list(f) for f in check.limits],
        "loader_limits": check.loader_limits[:5], "groups": [list(g) for g in check.groups[:MOST_GROUPS]],
        "notes": check.notes[:10], "checksummed": check.checksummed, "keys": check.keys[:50], "tensors": len(names),
        "scalars": dict(sorted(scalars.items())[:SCALARS]), "prefix": prefix,
        "refused_globals": check.refused_globals[:20],
        "unsafe_globals": check.unsafe_globals[:20], "read_bytes": check.read_bytes,
        "fingerprint": check.fingerprint, "digest": check.digest,
    }  # fmt: skip


def _has(name: str, prefix: str) -> bool:
    return name.startswith(prefix) or ("." + prefix) in name


def spec_from(raw: dict[str, Any]) -> CheckpointSpec:
    """The expectations, as they arrive in JSON."""
    return CheckpointSpec(**{k: tuple(v) if isinstance(v, list) else v for k, v in raw.items()})  # type: ignore[arg-type]


def scan(ask: dict[str, Any]) -> dict[str, Any]:
    """The whole look at one tier."""
    root, spec = ask["root"], spec_from(ask["spec"])
    out: dict[str, Any] = {"space": space(root, ask.get("try_write", False))}
    try:
        names, out["leftovers"] = list_names(root, ask["pattern"])
    except OSError as e:
        out["space"]["error"] = errno.errorcode.get(e.errno or 0, "?")
        return out
    newest = ask["newest"]
    out["candidates"] = [describe(root, n, s, spec, i < newest) for i, (s, n) in enumerate(names)]
    out["holders"] = holders(root, out["space"].get("fs_type", ""))
    out["pointer"] = pointer(root, ask["latest"]) if ask.get("latest") else None
    return out


def content(ask: dict[str, Any]) -> dict[str, Any]:
    """Proves the content of one candidate; says so if it changed meanwhile."""
    path = os.path.join(ask["root"], ask["name"])
    spec = spec_from(ask["spec"])
    before, blobs = open_set(path)
    if not os.path.isdir(path):
        beside(path, blobs)
    begun = time.monotonic()
    with ThreadPoolExecutor(ask.get("threads", 4)) as pool:
        check = check_content(blobs, spec, best_crc32(), pool.map)
    after = identity(members(path))
    seconds = time.monotonic() - begun
    return {**as_json(check), "identity": after, "changed": after != identity(before), "seconds": seconds}


def main(ask: dict[str, Any]) -> dict[str, Any]:
    """Does what `do` says."""
    if ask["do"] == "members":
        path = os.path.join(ask["root"], ask["name"])
        return {"folder": os.path.isdir(path), "files": {n: s.st_size for n, s in members(path).items()}}
    return scan(ask) if ask["do"] == "scan" else content(ask)


if __name__ == "__main__":
    json.dump(main(json.loads(sys.argv[1])), sys.stdout)
