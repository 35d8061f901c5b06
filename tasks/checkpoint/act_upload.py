"""Sends one checkpoint from a node to a store so that a killed upload goes on: parts that are there are compared with
the node's bytes and not sent again. A note beside the checkpoint remembers the upload ids of its own keys."""

import contextlib
import hashlib
import json
import re
from collections.abc import Callable
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from runbooks.core.reading import UnknownReason
from runbooks.core.refusal import RefusalCode
from tasks.checkpoint.s3_store import Object, S3Tier, code_of
from tasks.context import ActionRefused
from tasks.transport.base import TransportError

PART = 64 << 20
MOST_PARTS = 9_000
SMALLEST_PART = 5 << 20  # S3's own limit
URL_S = 6 * 3600  # the longest copy; S3 allows seven days
MD5 = re.compile(r"[0-9a-f]{32}(-\d+)?")  # what an ETag is where the store does not encrypt with a key of its own
TAKEN = (409, 412)
Run = Callable[[dict[str, Any], float], dict[str, Any]]


class Note:
    """The object `….incoming-<identity>.tmp`: this copy is not complete, and these uploads of its keys are going on."""

    def __init__(self, s3: S3Tier, name: str, identity: str, folder: bool) -> None:
        self._s3, self._identity, self._folder = s3, identity, folder
        self.name = f".incoming-{identity[:8]}.tmp"
        self.key = f"{s3.prefix}{name}/{self.name}" if folder else f"{s3.prefix}{name}{self.name}"
        self.uploads: dict[str, Any] = {}

    def read(self) -> bool:
        """True if an earlier try of the same source left one. Raises TransportError."""
        try:
            answer = self._s3.client.get_object(Bucket=self._s3.tier.bucket, Key=self.key)
            found = json.loads(answer["Body"].read(1 << 20))
        except ValueError:
            return False
        except (ClientError, BotoCoreError) as e:
            if code_of(e)[1] in (403, 404):  # a store that may not be listed says 403 for a key that is not there
                return False
            raise TransportError(UnknownReason.FAILED, f"{self.key} could not be read: {code_of(e)[0]}") from e
        if not isinstance(found, dict) or found.get("identity") != self._identity:
            return False
        self.uploads = dict(found.get("uploads") or {})
        return True

    def write(self) -> None:
        """Puts it there, or what is new into it."""
        text = json.dumps({"identity": self._identity, "uploads": self.uploads})
        self._s3.client.put_object(Bucket=self._s3.tier.bucket, Key=self.key, Body=text.encode())

    def drop(self) -> None:
        """Takes it away: the copy is complete."""
        self._s3.client.delete_object(Bucket=self._s3.tier.bucket, Key=self.key)

    def forget(self, key: str) -> None:
        """The upload of that key can't go on. Beside a folder the note stays: it says that the folder is not complete."""
        self.uploads.pop(key, None)
        if self._folder:
            self.write()
        else:
            self.drop()


def send_one(s3: S3Tier, note: Note, key: str, name: str, size: int, run: Run) -> None:
    """One file to one key, in one piece or in parts; created only if the key is free. Raises ActionRefused, TransportError."""
    if size > PART:
        _send_parts(s3, note, key, name, size, run)
        return
    params = {"Bucket": s3.tier.bucket, "Key": key, "IfNoneMatch": "*"}
    url = s3.client.generate_presigned_url("put_object", params, ExpiresIn=URL_S)
    part = {"file": name, "offset": 0, "length": size, "url": url, "headers": {"If-None-Match": "*"}}
    run({"do": "upload", "parts": [part]}, 120 + size / 1e6)


def check_there(note: Note, found: Object, name: str, size: int, run: Run) -> None:
    """What an earlier try left under a final key holds the node's very bytes, by its ETag. Raises ActionRefused."""
    if found.size != size:
        raise ActionRefused(RefusalCode.WOULD_OVERWRITE,
            f"{found.key} has {found.size} bytes, the source {size}: somebody else put it there")
    if not MD5.fullmatch(found.etag):
        return  # no sum of the bytes; the whole is read back below
    step = size if "-" not in found.etag else _step_of(note.uploads.get(found.key), size) or _usual(size)
    spans = [{"file": name, "offset": at, "length": n} for at, n in _spans(size, step)]
    sums = run({"do": "upload", "parts": spans}, 300 + size / 5e7)["etags"]
    if found.etag != (_joined(sums) if "-" in found.etag else sums[0]):
        raise ActionRefused(RefusalCode.WOULD_OVERWRITE, f"{found.key} holds other bytes than the source: somebody else put it there")


def _usual(size: int) -> int:
    """Bytes of a part of a file of that size."""
    return max(PART, -(-size // MOST_PARTS))


def _joined(sums: list[str]) -> str:
    """The ETag of an object that was sent in parts of these sums."""
    return f"{hashlib.md5(b''.join(map(bytes.fromhex, sums)), usedforsecurity=False).hexdigest()}-{len(sums)}"


def _spans(size: int, step: int) -> list[tuple[int, int]]:
    return [(at, min(step, size - at)) for at in range(0, size, max(1, step))] or [(0, 0)]


def _step_of(upload: Any, size: int) -> int:
    """Bytes of a part as the note says; 0 if it says nothing that can be."""
    step = upload.get("step") if isinstance(upload, dict) else None
    return step if isinstance(step, int) and step >= SMALLEST_PART and size / step <= MOST_PARTS + 1 else 0


def _send_parts(s3: S3Tier, note: Note, key: str, name: str, size: int, run: Run) -> None:
    upload_id, step, have = _go_on(s3, note, key, size) or _begin(s3, note, key, size)
    parts = []
    for number, (at, length) in enumerate(_spans(size, step), 1):
        params = {"Bucket": s3.tier.bucket, "Key": key, "UploadId": upload_id, "PartNumber": number}
        part = {"file": name, "offset": at, "length": length, "have": have.get((number, length), "")}
        parts.append(part | {"url": s3.client.generate_presigned_url("upload_part", params, ExpiresIn=URL_S)})
    try:
        etags = run({"do": "upload", "parts": parts}, 300 + size / 5e6)["etags"]
        _complete(s3, key, upload_id, etags)
    except ActionRefused:  # the source changed, or the key is taken: these parts are of no use any more
        with contextlib.suppress(ClientError, BotoCoreError):  # else it is found as an old upload
            s3.client.abort_multipart_upload(Bucket=s3.tier.bucket, Key=key, UploadId=upload_id)
        note.forget(key)
        raise
    except TransportError as e:
        words = f"{e.detail}; the parts that arrived stay: the next try sends only the others"
        raise TransportError(e.reason, words, e.command) from e


def _go_on(s3: S3Tier, note: Note, key: str, size: int) -> tuple[str, int, dict[tuple[int, int], str]] | None:
    """(upload id, bytes of a part, (number, length) -> ETag) of an earlier try that the store still knows."""
    step = _step_of(note.uploads.get(key), size)
    if not step:
        return None
    upload_id = str(note.uploads[key].get("upload"))
    pages = s3.client.get_paginator("list_parts").paginate(Bucket=s3.tier.bucket, Key=key, UploadId=upload_id)
    try:
        found = [p for page in pages for p in page.get("Parts", ())]
    except (ClientError, BotoCoreError) as e:
        if code_of(e)[1] == 404:
            return None
        raise TransportError(UnknownReason.FAILED, f"the parts of {key} could not be listed: {code_of(e)[0]}") from e
    return upload_id, step, {(p["PartNumber"], p["Size"]): p["ETag"].strip('"') for p in found}


def _begin(s3: S3Tier, note: Note, key: str, size: int) -> tuple[str, int, dict[tuple[int, int], str]]:
    step = _usual(size)
    upload_id = s3.client.create_multipart_upload(Bucket=s3.tier.bucket, Key=key)["UploadId"]
    note.uploads[key] = {"upload": upload_id, "step": step}
    note.write()
    return upload_id, step, {}


def _complete(s3: S3Tier, key: str, upload_id: str, etags: list[str]) -> None:
    parts = [{"PartNumber": n, "ETag": f'"{e}"'} for n, e in enumerate(etags, 1)]
    try:
        s3.client.complete_multipart_upload(
            Bucket=s3.tier.bucket, Key=key, UploadId=upload_id, MultipartUpload={"Parts": parts}, IfNoneMatch="*"
        )
    except (ClientError, BotoCoreError) as e:
        code, status, message = code_of(e)
        if _is_there(s3, key, etags):  # it was completed, and the answer got lost
            return
        if status in TAKEN:
            raise ActionRefused(RefusalCode.WOULD_OVERWRITE, f"{key} is there, and nothing is ever replaced ({code})") from e
        raise TransportError(UnknownReason.FAILED, f"{key} could not be completed: {code} {message}") from e


def _is_there(s3: S3Tier, key: str, etags: list[str]) -> bool:
    if not all(MD5.fullmatch(e) for e in etags):
        return False
    try:
        head = s3.client.head_object(Bucket=s3.tier.bucket, Key=key)
    except (ClientError, BotoCoreError):
        return False
    return bool(head["ETag"].strip('"') == _joined(etags))
