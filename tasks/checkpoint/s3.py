"""Reads the checkpoints of an S3 tier: structure by ranged reads (a few MB of any size), content as a stream."""

import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from runbooks.checkpoint.evidence import Candidate, Leftover, Pointer, TierFacts
from runbooks.checkpoint.parsers.content import check_content
from runbooks.checkpoint.parsers.sets import ASIDE, OURS, TEMPORARY, CheckpointSpec, check_set
from runbooks.checkpoint.parsers.types import Blob
from runbooks.core.checkpoints import Checkpoints, Tier, step_pattern
from runbooks.core.reading import Absent, Known, Reading, Source, Unknown, UnknownReason
from tasks.checkpoint.probes.ckpt_fs import best_crc32
from tasks.checkpoint.probes.ckpt_node import as_json, parts_of
from tasks.checkpoint.s3_answers import head_code, read_store, read_uploads
from tasks.checkpoint.s3_store import Object, S3Tier, code_of, restore_state, set_identity
from tasks.context import Context
from tasks.diagnostic import diagnostic

READERS = 8  # ranges in flight: 4 MiB each
Sets = dict[tuple[int, str], dict[str, Object]]


@diagnostic("checkpoint tier {tier.name}")
def read_s3_tier(context: Context, config: Checkpoints, tier: Tier, spec: CheckpointSpec, newest: int) -> TierFacts:
    """One look at the tier from the engine's machine, with the engine's credentials."""
    look: dict[str, Any] = {
        "tier": tier.name,
        "kind": tier.kind,
        "node": "",
        "where": f"s3://{tier.bucket}/{tier.prefix}",
        "space": Absent(proof="an object store has no file system"),
        "holders": Absent(proof="no process holds an object open"),
    }
    try:
        s3 = S3Tier(tier, tries=2)
    except BotoCoreError as e:
        return TierFacts(**look, candidates=Unknown(reason=UnknownReason.FAILED, detail=str(e)))
    try:
        objects, error = list(s3.objects()), None
    except Exception as e:  # the client also raises what is neither of its own kinds
        objects, error = [], e
    sample = next((o for o in objects if o.size and not o.cold), None)
    store = read_store(s3, context.now(), sample, error)
    if isinstance(error, ClientError) and isinstance(store, Known):
        code = head_code(s3, s3.prefix + (tier.latest or "latest"))
        store = Known(value=store.value.model_copy(update={"head_code": code}), source=store.source)
    look.update(store=store, uploads=read_uploads(s3, context.now()) if not error else Unknown(reason=UnknownReason.NOT_ASKED))
    source = Source(command=f"aws s3 ls --recursive {s3.where}", host="engine", taken_at=context.now())
    if error:
        code, status, message = code_of(error)
        why = UnknownReason.DENIED if status in (401, 403) else UnknownReason.UNREACHABLE if status == 0 else UnknownReason.FAILED
        return TierFacts(**look, candidates=Unknown(reason=why, detail=f"{code}: {message}", source=source))
    sets, left = group(objects, s3.prefix, config.naming_on(tier))
    found = describe_all(s3, sets, spec, newest)
    look.update(candidates=Known[tuple[Candidate, ...]](value=found, source=source), leftovers=tuple(left[:50]))
    return TierFacts(**look, pointer=_pointer(s3, objects, source))


def group(objects: Iterable[Object], prefix: str, naming: str) -> tuple[Sets, list[Leftover]]:
    """(step, name) -> relative name -> object; and temporary names."""
    pattern = re.compile(step_pattern(naming))
    sets: Sets = {}
    left: list[Leftover] = []
    for o in objects:
        below = o.key[len(prefix) :]
        words = below.split("/")
        ours = OURS.fullmatch(below)
        if ours and pattern.fullmatch(ours["was"]):  # the note of an upload of one big file
            left.append(Leftover(name=below, size=o.size, mtime_s=o.mtime_s, doing="copy", was=ours["was"]))
            continue
        for n in range(1, len(words) + 1):
            name = "/".join(words[:n])
            match = pattern.fullmatch(name)
            if match and not TEMPORARY.search(name) and not ASIDE.search(name):
                inside = "/".join(words[n:]) or words[-1]
                sets.setdefault((int(match["step"]), name), {})[inside] = o
                break
        else:
            if TEMPORARY.search(below):
                left.append(Leftover(name=below, size=o.size, mtime_s=o.mtime_s))
    return sets, left


def describe_all(s3: S3Tier, sets: Sets, spec: CheckpointSpec, newest: int) -> tuple[Candidate, ...]:
    """Candidates, newest first; the first `newest` of them with structure."""
    keys = sorted(sets, reverse=True)
    specs = [spec if i < newest else None for i in range(len(keys))]
    with ThreadPoolExecutor(8) as pool:
        return tuple(pool.map(lambda key, wanted: _describe(s3, key, sets[key], wanted), keys, specs))


def blobs_of(s3: S3Tier, found: dict[str, Object]) -> dict[str, Blob]:
    """The objects of one checkpoint as blobs."""
    return {n: s3.blob(n, o) for n, o in found.items()}


def _describe(s3: S3Tier, key: tuple[int, str], found: dict[str, Object], spec: CheckpointSpec | None) -> Candidate:
    step, name = key
    single = len(found) == 1 and next(iter(found)) == name.rpartition("/")[2]
    base: dict[str, Any] = {
        "name": name, "step": step, "folder": not single, "size": sum(o.size for o in found.values()),
        "files": len(found),
        "mtime_s": max(o.mtime_s for o in found.values()), "identity": set_identity(found),
    }  # fmt: skip
    cold = next((o for o in found.values() if o.cold), None)
    try:
        if cold is not None:
            base["archived"], base["restoring"] = restore_state(s3, cold.key)
        if spec is None or base.get("archived"):
            return Candidate(**base)
        blobs = blobs_of(s3, found)
        check = check_set(blobs, spec._replace(step=step))
        return candidate(base, as_json(check) | parts_of(check, {n: b.size for n, b in blobs.items()}))
    except (OSError, ClientError, BotoCoreError) as e:
        words = str(e.strerror) if isinstance(e, OSError) else code_of(e)[0]
        return candidate(base, {"limits": [["unreadable", words, name]]})


def candidate(base: dict[str, Any], check: dict[str, Any]) -> Candidate:
    """A candidate from plain data, as the node's script and the S3 reader give it."""
    data = {**base, **check}
    data["groups"] = tuple({"name": n, "params": p, "settings": k} for n, p, k in data.get("groups", ()))
    for field in ("faults", "suspects", "limits"):
        data[field] = tuple({"kind": k, "detail": d, "file": f} for k, d, f in data.get(field, ()))
    return Candidate(**data)


def prove_s3(tier: Tier, config: Checkpoints, spec: CheckpointSpec, wanted: Candidate) -> Candidate:
    """Reads the whole content of one candidate and compares checksums."""
    s3 = S3Tier(tier)
    sets, _ = group(s3.objects(), s3.prefix, config.naming_on(tier))
    found = sets.get((wanted.step, wanted.name), {})
    if set_identity(found) != wanted.identity:
        return wanted
    with ThreadPoolExecutor(READERS) as pool:
        check = check_content(blobs_of(s3, found), spec, best_crc32(), pool.map)
    missed = [f for f in check.limits if f.kind == "unreadable"]
    if missed:  # an outage, or another version meanwhile: that proves nothing against it
        return wanted.model_copy(update={"notes": (*wanted.notes, f"content could not be read: {missed[0].detail}")})
    return with_content(wanted, as_json(check))


def with_content(wanted: Candidate, check: dict[str, Any]) -> Candidate:
    """The candidate with the result of its content check."""
    faults = tuple({"kind": k, "detail": d, "file": f} for k, d, f in check["faults"])
    suspects = tuple({"kind": k, "detail": d, "file": f} for k, d, f in check["suspects"])
    limits = tuple({"kind": k, "detail": d, "file": f} for k, d, f in check["limits"])
    state = "damaged" if faults else "not-read" if limits else "proven" if check["checksummed"] else "unprovable"
    notes = tuple(dict.fromkeys([*wanted.notes, *check["notes"]]))
    merged = wanted.model_dump() | {
        "faults": (*wanted.model_dump()["faults"], *faults),
        "suspects": (*wanted.model_dump()["suspects"], *suspects),
        "limits": (*wanted.model_dump()["limits"], *limits),
        "digest": check["digest"],
        "content": state,
        "notes": notes,
    }
    return Candidate(**merged)


def _pointer(s3: S3Tier, objects: list[Object], source: Source) -> Reading[Pointer]:
    key = s3.prefix + s3.tier.latest
    found = next((o for o in objects if o.key == key and s3.tier.latest), None)
    if found is None:
        return Absent(proof=f"no object {key}", source=source)
    try:
        text = s3.read(key, found.etag, 0, min(found.size, 1000)).decode("utf-8", "replace").strip()
    except OSError as e:
        return Unknown(reason=UnknownReason.FAILED, detail=str(e.strerror), source=source)
    return Known[Pointer](value=Pointer(text=text, identity=found.etag, mtime_s=found.mtime_s), source=source)
