"""Reads an S3 tier: how the store answers, objects, ranges of objects, unfinished uploads. Changes nothing."""

import hashlib
import re
from collections import OrderedDict
from collections.abc import Iterator
from datetime import datetime
from threading import Lock
from time import sleep

import boto3
from botocore.config import Config
from botocore.exceptions import (
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    NoCredentialsError,
    PartialCredentialsError,
    ReadTimeoutError,
    TokenRetrievalError,
)

from runbooks.checkpoint.parsers.types import Blob
from runbooks.core.checkpoints import Tier

COLD = ("GLACIER", "DEEP_ARCHIVE")
BLOCK = 64 << 10
READ_TRIES = 4
MOST_BLOCKS = 512  # 32 MiB, whatever the number of objects
MOST_KEYS = 200_000


class Object:
    """One object of a listing, or of a HEAD."""

    __slots__ = ("etag", "key", "mtime_s", "size", "storage")

    def __init__(self, key: str, size: int, etag: str, mtime: datetime, storage: str) -> None:
        self.key, self.size, self.etag = key, size, etag.strip('"')
        self.mtime_s, self.storage = mtime.timestamp(), storage or "STANDARD"

    @property
    def cold(self) -> bool:
        """Lies in an archive class: cannot be read before it is restored."""
        return self.storage in COLD


class S3Tier:
    """A client for one tier, with short time-outs and few tries: a store that is slow is a finding."""

    def __init__(self, tier: Tier, connect_s: float = 5, read_s: float = 20, tries: int = 3) -> None:
        self.tier = tier
        session = boto3.session.Session(profile_name=tier.profile)
        config = Config(
            connect_timeout=connect_s,
            read_timeout=read_s,
            retries={"mode": "standard", "total_max_attempts": tries},
            max_pool_connections=16,
            signature_version="s3v4",
            s3={"addressing_style": "path"} if tier.endpoint else {},
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        )
        self.credentials = session.get_credentials()
        self.client = session.client(
            "s3", endpoint_url=tier.endpoint, region_name=tier.region or "us-east-1", config=config
        )
        self.reads = 0
        self._cache: OrderedDict[tuple[str, int], bytes] = OrderedDict()
        self._lock = Lock()

    @property
    def where(self) -> str:
        """`s3://bucket/prefix`."""
        return f"s3://{self.tier.bucket}/{self.tier.prefix}"

    @property
    def prefix(self) -> str:
        """The prefix with its final slash, or ""."""
        return self.tier.prefix.strip("/") + "/" if self.tier.prefix.strip("/") else ""

    def objects(self) -> Iterator[Object]:
        """Every object below the prefix. Raises ClientError, BotoCoreError."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.tier.bucket, Prefix=self.prefix)
        seen = 0
        for page in pages:
            for o in page.get("Contents", ()):
                seen += 1
                if seen > MOST_KEYS:
                    return
                yield Object(o["Key"], o["Size"], o["ETag"], o["LastModified"], o.get("StorageClass", ""))

    def read(self, key: str, etag: str, offset: int, length: int) -> bytes:
        """A range of that very version of the object. Raises OSError with the store's code."""
        if length <= 0:
            return b""
        spot = f"bytes={offset}-{offset + length - 1}"
        extra = {"IfMatch": f'"{etag}"'} if etag else {}
        for left in range(READ_TRIES - 1, -1, -1):
            try:
                got = self.client.get_object(Bucket=self.tier.bucket, Key=key, Range=spot, **extra)
                data = bytes(got["Body"].read())
                self.reads += len(data)
                return data
            except Exception as e:  # a connection that is cut in the middle is none of the client's own kinds
                code, status, _ = code_of(e)
                if left == 0 or 400 <= status < 500:
                    raise OSError(5, code, key) from e
                sleep(0.1 * 2 ** (READ_TRIES - left))
        return b""

    def blob(self, name: str, found: Object) -> Blob:
        """An object in ranges; small reads are joined into blocks."""

        def read(offset: int, length: int) -> bytes:
            length = max(0, min(length, found.size - offset))
            if length > BLOCK:
                return self.read(found.key, found.etag, offset, length)
            out = b""
            while len(out) < length:
                at = offset + len(out)
                piece = self._block(found, at // BLOCK)[at % BLOCK :][: length - len(out)]
                if not piece:
                    break
                out += piece
            return out

        return Blob(name, found.size, read)

    def _block(self, found: Object, number: int) -> bytes:
        """One block of an object; the last ones read, of all objects together, are kept."""
        key = (found.key, number)
        with self._lock:
            if key in self._cache:
                self._cache.move_to_end(key)
                return self._cache[key]
        size = min(BLOCK, found.size - number * BLOCK)
        data = self.read(found.key, found.etag, number * BLOCK, size)
        with self._lock:
            self._cache[key] = data
            while len(self._cache) > MOST_BLOCKS:
                self._cache.popitem(last=False)
        return data


def code_of(error: Exception) -> tuple[str, int, str]:
    """(code, HTTP status, message) of what a client raised; status 0 where there was no answer."""
    if isinstance(error, ClientError):
        found = error.response.get("Error", {})
        status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
        return str(found.get("Code", "?")), status, str(found.get("Message", ""))[:300]
    names: tuple[tuple[type[Exception], str], ...] = (
        (NoCredentialsError, "NoCredentials"), (PartialCredentialsError, "PartialCredentials"), (TokenRetrievalError,
        "TokenRetrieval"),
        (EndpointConnectionError, "ConnectionRefused"), (ConnectTimeoutError, "ConnectTimeout"), (ReadTimeoutError,
        "ReadTimeout"),
    )  # fmt: skip
    name = next((n for kind, n in names if isinstance(error, kind)), type(error).__name__)
    return name, 0, str(error)[:300]


def restore_state(s3: S3Tier, key: str) -> tuple[str, bool]:
    """(storage class, a restore is going on) of an object; ("", False) when it can be read now."""
    head = s3.client.head_object(Bucket=s3.tier.bucket, Key=key)
    storage, restore = head.get("StorageClass", ""), head.get("Restore", "")
    if storage not in COLD or re.search(r'ongoing-request="false"', restore):
        return "", False
    return storage, 'ongoing-request="true"' in restore


def set_identity(found: dict[str, Object]) -> str:
    """Changes when any object of the set is replaced, added or removed."""
    text = "\n".join(f"{n} {o.size} {o.etag}" for n, o in sorted(found.items()))
    return hashlib.sha256(text.encode()).hexdigest()[:32]
