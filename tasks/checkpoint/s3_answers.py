"""Reads how an S3 store answers, and its unfinished uploads. Changes nothing."""

import os
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from runbooks.checkpoint.evidence import Store, Upload
from runbooks.core.checkpoints import Tier
from runbooks.core.reading import Absent, Known, Source, Unknown, UnknownReason
from tasks.checkpoint.s3_metadata import read_metadata
from tasks.checkpoint.s3_store import Object, S3Tier, code_of
from tasks.installation import lasting


def read_store(s3: S3Tier, at: datetime, sample: Object | None, error: Exception | None) -> Known[Store] | Unknown:
    """How the store answered to a listing (`error`: what it raised) and to a ranged read of `sample`."""
    source = Source(command=f"aws s3api list-objects-v2 --bucket {s3.tier.bucket}", host="engine", taken_at=at)
    code, status, message = code_of(error) if error else ("ok", 200, "")
    answer = error.response if isinstance(error, ClientError) else {}
    headers: dict[str, str] = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    store = Store(
        reached=status > 0,
        bucket=s3.tier.bucket,
        prefix=s3.tier.prefix,
        list_code=code,
        list_status=status,
        get_code=_try_read(s3, sample),
        credentials=s3.credentials.method if s3.credentials else "",
        looked_in=looked_in(s3.tier),
        instance_role=read_metadata() if code == "NoCredentials" else None,
        skew_s=_skew(headers.get("date", ""), at),
        region_says=str(headers.get("x-amz-bucket-region", "")),
        message=message,
    )
    return Known[Store](value=store, source=source)


def _skew(date: str, at: datetime) -> float | None:
    try:
        return (parsedate_to_datetime(date) - at).total_seconds() if date else None
    except (ValueError, TypeError):
        return None


def _try_read(s3: S3Tier, sample: Object | None) -> str:
    if sample is None or sample.cold or not sample.size:
        return ""
    try:
        s3.read(sample.key, sample.etag, 0, 1)
    except OSError as e:
        return str(e.strerror)
    return "ok"


def head_code(s3: S3Tier, key: str) -> str:
    """What HEAD of one key answers: ok, or the code."""
    try:
        s3.client.head_object(Bucket=s3.tier.bucket, Key=key)
    except (ClientError, BotoCoreError) as e:
        code, status, _ = code_of(e)
        return str(status) if code in ("403", "404") else code
    return "ok"


def looked_in(tier: Tier) -> tuple[str, ...]:
    """Where the engine looks for credentials, and what is there, by name only."""
    names = (
        "AWS_ACCESS_KEY_ID",
        "AWS_PROFILE",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    )
    found = [f"variable {n}: {'set' if os.environ.get(n) else 'not set'}" for n in names]
    path = lasting(os.environ.get("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials"))
    found.append(f"file {path}: {'there' if path.is_file() else 'not there'}")
    if tier.profile:
        found.append(f"profile {tier.profile} of the fleet file")
    return tuple(found)


def read_uploads(s3: S3Tier, now: datetime) -> Known[tuple[Upload, ...]] | Absent | Unknown:
    """Unfinished multipart uploads below the prefix, with the age of their newest part."""
    source = Source(command=f"aws s3api list-multipart-uploads --bucket {s3.tier.bucket}", host="engine", taken_at=now)
    try:
        pages = s3.client.get_paginator("list_multipart_uploads").paginate(Bucket=s3.tier.bucket, Prefix=s3.prefix)
        found = tuple(_upload(s3, u, now) for page in pages for u in page.get("Uploads", ()))
    except (ClientError, BotoCoreError) as e:
        code, status, message = code_of(e)
        why = UnknownReason.DENIED if status in (401, 403) else UnknownReason.UNREACHABLE if status == 0 else UnknownReason.FAILED
        return Unknown(reason=why, detail=f"{code}: {message}", source=source)
    return Known[tuple[Upload, ...]](value=found, source=source) if found else Absent(proof="none", source=source)


def count_parts(s3: S3Tier, key: str, upload_id: str) -> int:
    """How many parts that upload has now. Raises ClientError, BotoCoreError."""
    return len(_parts(s3, key, upload_id))


def _parts(s3: S3Tier, key: str, upload_id: str) -> list[dict[str, Any]]:
    pages = s3.client.get_paginator("list_parts").paginate(Bucket=s3.tier.bucket, Key=key, UploadId=upload_id)
    return [p for page in pages for p in page.get("Parts", ())]


def _upload(s3: S3Tier, raw: dict[str, Any], now: datetime) -> Upload:
    parts = _parts(s3, raw["Key"], raw["UploadId"])
    newest = max((p["LastModified"] for p in parts), default=None)
    return Upload(
        key=raw["Key"],
        upload_id=raw["UploadId"],
        begun_s_ago=(now - raw["Initiated"]).total_seconds(),
        newest_part_s_ago=(now - newest).total_seconds() if newest else None,
        parts=len(parts),
        bytes=sum(p["Size"] for p in parts),
    )
