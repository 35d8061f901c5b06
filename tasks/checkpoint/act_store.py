"""Changes an S3 tier: upload without replacing, conditional pointer, abort of old uploads, restore from an archive."""

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from runbooks.checkpoint.parsers.content import check_content
from runbooks.checkpoint.parsers.sets import check_set
from runbooks.core.args.checkpoints import AbortUpload, CopyCheckpoint, RepointLatest, RestoreArchived
from runbooks.core.checkpoints import Checkpoints, Tier
from runbooks.core.reading import Known, UnknownReason
from runbooks.core.refusal import RefusalCode
from tasks.checkpoint.act_upload import URL_S, Note, Run, check_there, send_one
from tasks.checkpoint.node import spec_of
from tasks.checkpoint.probes.ckpt_fs import best_crc32
from tasks.checkpoint.s3 import READERS, blobs_of, group
from tasks.checkpoint.s3_answers import count_parts, read_uploads
from tasks.checkpoint.s3_store import Object, S3Tier, code_of, set_identity
from tasks.context import ActionRefused, ActionResult, Context
from tasks.remote.unseen import UNSEEN
from tasks.transport.base import TransportError


def identities(config: Checkpoints, tier: Tier) -> dict[str, str]:
    """Name -> identity of every checkpoint of the tier now. Raises ActionRefused if it can't be listed."""
    s3 = S3Tier(tier)
    try:
        sets, _ = group(s3.objects(), s3.prefix, config.naming_on(tier))
    except (ClientError, BotoCoreError) as e:
        raise ActionRefused(RefusalCode.CANNOT_CHECK, f"{s3.where} could not be listed again: {code_of(e)[0]}") from e
    return {name: set_identity(found) for (_, name), found in sets.items()}


def _found(s3: S3Tier, config: Checkpoints, name: str, identity: str) -> dict[str, Object]:
    """The objects of one judged checkpoint. Raises ActionRefused."""
    sets, _ = group(s3.objects(), s3.prefix, config.naming_on(s3.tier))
    found = next((objects for (_, n), objects in sets.items() if n == name), {})
    if not found or set_identity(found) != identity:
        raise ActionRefused(RefusalCode.TARGET_CHANGED, f"{s3.where}{name} changed since it was judged")
    return found


def download_ask(config: Checkpoints, tier: Tier, a: CopyCheckpoint) -> dict[str, Any]:
    """What the node needs to fetch it: presigned reads of the very versions that were judged."""
    s3 = S3Tier(tier)
    found = _found(s3, config, a.name, a.identity)
    files = {
        name: {
            "url": s3.client.generate_presigned_url("get_object", {"Bucket": tier.bucket, "Key": o.key},
            ExpiresIn=URL_S),
            "size": o.size, "etag": o.etag,
        }
        for name, o in found.items()
    }  # fmt: skip
    return {"files": files, "folder": not (len(found) == 1 and next(iter(found)) == a.name.rpartition("/")[2])}


def upload(
    context: Context, config: Checkpoints, tier: Tier, a: CopyCheckpoint, ask: dict[str, Any], run: Run
) -> ActionResult:
    """From the node to the store; every object is created only if its key is free; the commit marker comes last.
    What an earlier try of the same source brought there is compared and not sent again."""
    from tasks.checkpoint.node import ask_node

    s3 = S3Tier(tier)
    host = context.open_host(context.fleet.node(a.node))
    listing = ask_node(host, {"do": "members", "root": ask["from"], "name": a.name}, 60)
    folder, sizes = listing["folder"], listing["files"]
    note = Note(s3, a.name, a.identity, folder)
    there = _lying(s3, config, tier, a.name, note)
    begun = note.read()
    if there and not begun:
        raise ActionRefused(RefusalCode.WOULD_OVERWRITE, f"{s3.where}{a.name} is there, and nothing is ever replaced")
    if folder and not begun:  # a folder of a store gets its names one by one: this says that it is not complete
        note.write()
    for name in sorted(sizes, key=lambda n: (n.endswith((".metadata", ".json")), n)):
        if name in there:
            check_there(note, there[name], name, sizes[name], run)
        else:
            key = s3.prefix + (f"{a.name}/{name}" if folder else a.name)
            send_one(s3, note, key, name, sizes[name], run)
    _verify(tier, config, s3, a, note)
    if folder or note.uploads:
        note.drop()
    copy = f"{s3.where.rstrip('/')}/{a.name}"
    return ActionResult(said=(f"{a.name} lies at {copy}, read back and checked",), facts={"copy": copy})


def _lying(s3: S3Tier, config: Checkpoints, tier: Tier, name: str, note: Note) -> dict[str, Object]:
    """The objects of that checkpoint now, but our note."""
    sets, _ = group(s3.objects(), s3.prefix, config.naming_on(tier))
    found = next((found for (_, n), found in sets.items() if n == name), {})
    return {n: o for n, o in found.items() if n != note.name}


def _verify(tier: Tier, config: Checkpoints, s3: S3Tier, a: CopyCheckpoint, note: Note) -> None:
    """What lies there now, read from the first to the last byte. Raises TransportError."""
    files = blobs_of(s3, _lying(s3, config, tier, a.name, note))
    spec = spec_of(config)._replace(step=a.step)
    size = sum(b.size for b in files.values())
    with ThreadPoolExecutor(READERS) as pool:
        found = (check_set(files, spec), check_content(files, spec, best_crc32(), pool.map))
        faults = [f for check in found for f in (*check.faults, *check.limits)]
    if not files or faults or size != a.size:
        why = f"{faults[0].kind} {faults[0].detail}" if faults else f"{size} bytes"
        raise TransportError(UnknownReason.FAILED, f"what lies in the store is not whole: {why}")


def repoint(config: Checkpoints, tier: Tier, a: RepointLatest) -> ActionResult:
    """A conditional write of the pointer: the store compares the ETag."""
    s3 = S3Tier(tier)
    _found(s3, config, a.name, a.identity)
    key = s3.prefix + a.pointer
    try:
        s3.client.put_object(Bucket=tier.bucket, Key=key, Body=a.text.encode(), IfMatch=f'"{a.expect}"')
    except ClientError as e:
        code, status, _ = code_of(e)
        if status in (409, 412):
            raise ActionRefused(RefusalCode.TARGET_CHANGED, f"{key} changed since it was judged ({code})") from e
        raise
    return ActionResult(said=(f"s3://{tier.bucket}/{key} names {a.text}",))


def abort(tier: Tier, a: AbortUpload, now: datetime) -> ActionResult:
    """One upload below the prefix, looked at again right before."""
    s3 = S3Tier(tier)
    if not a.key.startswith(s3.prefix):
        raise ActionRefused(RefusalCode.NOT_OURS, f"{a.key} does not lie below {s3.prefix}")
    reading = read_uploads(s3, now)
    found = [u for u in (reading.value if isinstance(reading, Known) else ()) if u.upload_id == a.upload_id]
    if not found:
        raise ActionRefused(RefusalCode.TARGET_CHANGED, f"the upload of {a.key} is not there any more")
    newest = found[0].newest_part_s_ago if found[0].newest_part_s_ago is not None else found[0].begun_s_ago
    if found[0].parts != a.parts or newest < a.older_than_s:
        raise ActionRefused(
            RefusalCode.TARGET_CHANGED, f"the upload of {a.key} got a part meanwhile ({found[0].parts}, {newest:.0f} s ago)"
        )
    try:
        if count_parts(s3, a.key, a.upload_id) != a.parts:  # the others were read meanwhile, which takes its time
            raise ActionRefused(RefusalCode.TARGET_CHANGED, f"the upload of {a.key} got a part in this very moment")
        s3.client.abort_multipart_upload(Bucket=tier.bucket, Key=a.key, UploadId=a.upload_id)
    except ClientError as e:
        if code_of(e)[0] != "NoSuchUpload":
            raise
        raise ActionRefused(RefusalCode.TARGET_CHANGED, f"the upload of {a.key} ended in this very moment; nothing was aborted") from e
    return ActionResult(said=(f"aborted the upload of {a.key} ({found[0].parts} parts, {found[0].bytes} bytes)", UNSEEN))


def restore(config: Checkpoints, tier: Tier, a: RestoreArchived) -> ActionResult:
    """A restore request for each archived object of one checkpoint."""
    s3 = S3Tier(tier)
    said = []
    for o in _found(s3, config, a.name, a.identity).values():
        if not o.cold:
            continue
        request = {"Days": a.days, "GlacierJobParameters": {"Tier": a.retrieval}}
        try:
            s3.client.restore_object(Bucket=tier.bucket, Key=o.key, RestoreRequest=request)
            said.append(f"restore of {o.key} requested for {a.days} days")
        except (ClientError, BotoCoreError) as e:
            code, _, message = code_of(e)
            if code != "RestoreAlreadyInProgress":
                raise TransportError(UnknownReason.FAILED, f"{o.key}: {code} {message}") from e
            said.append(f"restore of {o.key} was going on already")
    if not said:
        raise ActionRefused(RefusalCode.TARGET_CHANGED, f"nothing of {a.name} lies in an archive class any more")
    return ActionResult(said=tuple(said))
