"""One checkpoint as a set of files: which check each needs, and whether the parts belong together. Python 3.8,
stdlib only."""

from __future__ import annotations

import fnmatch
import hashlib
import json
import re
from collections.abc import Mapping
from typing import NamedTuple

from runbooks.checkpoint.parsers.agree import agree, named_by_others, written_by
from runbooks.checkpoint.parsers.dcp import check_dcp, is_dcp
from runbooks.checkpoint.parsers.formats import check_folder, folder_format
from runbooks.checkpoint.parsers.manifest import NAMES as MANIFESTS
from runbooks.checkpoint.parsers.manifest import check_sizes, parse_manifest
from runbooks.checkpoint.parsers.safetensors import parse_index
from runbooks.checkpoint.parsers.sniff import check_file
from runbooks.checkpoint.parsers.types import Bad, Blob, StructureCheck

WEIGHTS = (".pt", ".pth", ".bin", ".ckpt", ".safetensors")
TEMPORARY = re.compile(r"(\.tmp|\.part|\.partial|\.incomplete|\.saving|\.lock)$|(^|/)(tmp|\.tmp)[-_.]")
INCOMING = re.compile(r"(^|/)\.incoming-[0-9a-f]{8}\.tmp$")  # lies in a folder of a store while we copy to it
OURS = re.compile(
    r"(?P<was>.+?)\.(?P<doing>incoming|deleting|pointing)-(?P<id>[0-9a-f]{8})(-[0-9a-f]{8})?(\.sums)?\.tmp", re.DOTALL
)
ASIDE = re.compile(r"\.bad-[0-9a-f]{8}$")  # set aside by this program: no candidate any more
INDEX = ".index.json"
LARGEST_TEXT = 16 << 20
MANY = 20  # faults of one checkpoint that are kept


class CheckpointSpec(NamedTuple):
    """What this fleet's checkpoints must be."""

    step: int | None = None
    world_size: int | None = None
    parts: tuple[str, ...] = ()  # names or globs below the checkpoint's folder that must be there
    ranks: str = ""  # "rank_{rank}.pt": one file per rank
    required_keys: tuple[str, ...] = ()
    manifest: str = ""  # name; "": the usual names are tried
    digest: bool = False  # content check: hash what has no checksum
    finite: bool = False  # content check: look for NaN and infinity


def check_set(files: Mapping[str, Blob], spec: CheckpointSpec) -> StructureCheck:
    """Structure of one checkpoint, given as relative name -> blob."""
    out = StructureCheck(format="unknown")
    unfinished = sorted(n for n in files if TEMPORARY.search(n) and not n.endswith(".metadata.tmp"))
    done = {n: b for n, b in files.items() if n not in unfinished}
    checks = _check_each(done, spec, out)
    _merge(out, checks)
    form = folder_format(files)
    if form:
        check_folder(out, form, {n: b.size for n, b in files.items()})
    elif not checks and done:
        out.fault("unknown-format", f"none of its {len(done)} files is of a format that is known here, e.g. {min(done)}")
    named_by_others(out, done, checks)
    _complete(out, done, unfinished, spec, written_by(checks))
    agree(out, checks, spec.step)
    _manifest(out, done, spec)
    if spec.required_keys and checks and out.keys:
        missing = [k for k in spec.required_keys if k not in out.keys]
        if missing:
            out.fault("keys-missing", f"required keys are missing: {', '.join(missing)}")
    del out.faults[MANY:], out.limits[MANY:]
    return out


def _check_each(files: Mapping[str, Blob], spec: CheckpointSpec, out: StructureCheck) -> dict[str, StructureCheck]:
    checks: dict[str, StructureCheck] = {}
    folders: dict[str, dict[str, Blob]] = {}
    for name, blob in files.items():
        folder, _, base = name.rpartition("/")
        folders.setdefault(folder, {})[base] = blob
    for folder, inside in sorted(folders.items()):
        if is_dcp(inside):
            checks[folder + "/"] = check_dcp(inside)
            inside = {n: b for n, b in inside.items() if not n.endswith((".distcp", ".metadata", ".metadata.tmp"))}
        prefix = folder + "/" if folder else ""
        for base, blob in sorted(inside.items()):
            if base.endswith(WEIGHTS) or _wanted(prefix + base, spec) or len(files) == 1:
                checks[prefix + base] = _one(blob, base)
            elif base.endswith(INDEX):
                _index(out, blob, inside)
    return checks


def _wanted(name: str, spec: CheckpointSpec) -> bool:
    return any(fnmatch.fnmatchcase(name, p) for p in spec.parts) or bool(
        spec.ranks and rank_pattern(spec.ranks).fullmatch(name)
    )


def _one(blob: Blob, base: str) -> StructureCheck:
    if base.endswith((".json", ".txt", ".yaml")):
        check = StructureCheck(format="text")
        _json_ok(check, blob)
        return check
    return check_file(blob)


def _json_ok(check: StructureCheck, blob: Blob) -> None:
    if blob.size == 0:
        check.fault("empty", "0 bytes", blob.name)
    elif blob.name.endswith(".json") and blob.size <= LARGEST_TEXT:
        try:
            json.loads(blob.read(0, blob.size).decode())
        except (ValueError, RecursionError) as e:
            check.fault("truncated", f"not JSON: {str(e)[:80]}", blob.name)


def _index(out: StructureCheck, blob: Blob, inside: Mapping[str, Blob]) -> None:
    out.format = "safetensors-sharded" if blob.name.endswith(".safetensors" + INDEX) else "torch-sharded"
    try:
        if blob.size > LARGEST_TEXT:
            raise Bad("beyond-reader", f"its index has {blob.size} bytes, at most {LARGEST_TEXT} are read")
        weights, total = parse_index(blob.read(0, blob.size))
    except Bad as e:
        out.fault(e.kind, e.detail, blob.name)
        return
    folder = blob.name.rpartition("/")[0]
    for file in sorted(set(weights.values())):
        out.needs[f"{folder}/{file}" if folder else file] = -1
        if file not in inside:
            out.fault("shard-missing", f"{file} of its index is not there", file)
    out.scalars["index"] = weights
    out.scalars["index_total"] = total


def _merge(out: StructureCheck, checks: Mapping[str, StructureCheck]) -> None:
    formats = {c.format for c in checks.values() if c.format not in ("text", "unknown")}
    if out.format == "unknown" and formats:
        out.format = formats.pop() if len(formats) == 1 else "mixed"
    if len(checks) > 1 and out.format in ("torch-zip", "torch-legacy", "mixed"):
        out.format = "sharded"
    for name, c in checks.items():
        prefix = name if name.endswith("/") else ""
        out.faults.extend(f._replace(file=prefix + f.file if f.file and prefix else f.file or name) for f in c.faults)
        out.limits.extend(f._replace(file=prefix + f.file if f.file and prefix else f.file or name) for f in c.limits)
        out.needs.update({prefix.lstrip("/") + n: size for n, size in c.needs.items()})
        out.loader_limits.extend(f"{name}: {words}" if len(checks) > 1 else words for words in c.loader_limits)
        out.groups.extend(c.groups)
        out.suspects.extend(c.suspects)
        out.notes.extend(f"{name}: {n}" if len(checks) > 1 else n for n in c.notes)
        out.read_bytes += c.read_bytes
        out.refused_globals = sorted({*out.refused_globals, *c.refused_globals})
        out.unsafe_globals = sorted({*out.unsafe_globals, *c.unsafe_globals})
        out.keys = sorted({*out.keys, *c.keys})
        if len(out.tensors) < 100_000:
            out.tensors.update(c.tensors)
    judged = [c for c in checks.values() if c.format != "text"]
    out.checksummed = bool(judged) and all(c.checksummed for c in judged)
    out.fingerprint = _fold({n: c.fingerprint for n, c in checks.items() if c.format != "text"})
    _index_tensors(out, checks)
    if len(checks) == 1:
        out.scalars.update(next(iter(checks.values())).scalars)


def _fold(prints: Mapping[str, str]) -> str:
    """One fingerprint for a set; "" where a part has none. A single file's own name does not count."""
    if not prints or not all(prints.values()):
        return ""
    if len(prints) == 1:
        return next(iter(prints.values()))
    return hashlib.sha256("\n".join(f"{n} {p}" for n, p in sorted(prints.items())).encode()).hexdigest()[:32]


def _index_tensors(out: StructureCheck, checks: Mapping[str, StructureCheck]) -> None:
    weights: dict[str, str] = out.scalars.pop("index", {})
    out.scalars.pop("index_total", 0)
    by_file = {name.rpartition("/")[2]: c for name, c in checks.items()}
    for tensor, file in weights.items():
        c = by_file.get(file)
        if c is not None and c.whole and tensor not in c.tensors:
            out.fault("mixed-saves", f"its index places {tensor} in {file}, which does not have it", file)
            return


def rank_pattern(ranks: str) -> re.Pattern[str]:
    """`rank_{rank}.pt` as a pattern with a group `rank`."""
    return re.compile(re.escape(ranks).replace(r"\{rank\}", r"(?P<rank>\d+)", 1))


def _complete(out: StructureCheck, done: Mapping[str, Blob], unfinished: list[str], spec: CheckpointSpec, wrote: int) -> None:
    """`wrote`: ranks that the save itself names; with a file of each it is whole, whatever the job has now."""
    for part in spec.parts:
        if not any(fnmatch.fnmatchcase(n, part) for n in done):
            out.fault("part-missing", f"{part} is not there, as it is in every finished checkpoint", part)
    missing: list[int] = []
    if spec.ranks and spec.world_size:
        found = [int(m["rank"]) for m in map(rank_pattern(spec.ranks).fullmatch, done) if m]
        ranks = wrote if wrote and set(found) == set(range(wrote)) else spec.world_size
        if ranks != spec.world_size:
            out.scalars["world_size"] = ranks
        out.needs.update({spec.ranks.replace("{rank}", str(r)): -1 for r in range(ranks)})
        missing = sorted(set(range(ranks)) - set(found))
        if missing:
            shown = ", ".join(map(str, missing[:10]))
            out.fault("shard-missing", f"{len(missing)} of {ranks} ranks have no file: {shown}")
        more = sorted(r for r in found if r >= ranks)
        if more:
            out.fault("world-size", f"there is a file of rank {more[-1]}; {ranks} ranks are expected")
    coming = [n for n in unfinished if INCOMING.search(n)]
    if coming:
        out.fault("unfinished", f"a copy to it has not ended: {coming[0]}")
    elif not done or (unfinished and (missing or out.faults)):
        out.fault("unfinished", f"{len(unfinished)} files with a temporary name, e.g. {(unfinished or ['-'])[0]}")
    elif unfinished:
        out.notes.append(f"{len(unfinished)} files with a temporary name lie beside it, e.g. {unfinished[0]}")


def find_manifest(files: Mapping[str, Blob], spec: CheckpointSpec) -> Blob | None:
    """The manifest among the files, if there is one."""
    singles = [n for n in files if n.endswith((".sha256", ".md5"))]
    for name in [spec.manifest] if spec.manifest else [*MANIFESTS, *singles]:
        if name in files:
            return files[name]
    return None


def _manifest(out: StructureCheck, files: Mapping[str, Blob], spec: CheckpointSpec) -> None:
    blob = find_manifest(files, spec)
    if blob is None:
        return
    try:
        entries = parse_manifest(blob.read(0, min(blob.size, LARGEST_TEXT)).decode("utf-8", "replace"))
        check_sizes(out, entries, {n: b.size for n, b in files.items()})
        hashed = {n for n, e in entries.items() if e.digest}
        weights = {n for n in files if n.endswith((*WEIGHTS, ".distcp"))}
        out.scalars["manifest"] = blob.name
        out.checksummed = out.checksummed or (bool(hashed) and weights <= hashed)
    except Bad as e:
        out.notes.append(e.detail)
