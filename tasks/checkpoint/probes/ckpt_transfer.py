"""Moves checkpoints between a node and an object store by presigned URLs, which arrive on stdin and are never shown."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import re
import sys
import urllib.parse
from collections.abc import Callable, Iterator
from typing import Any

from runbooks.checkpoint.parsers.types import Blob
from tasks.checkpoint.probes.ckpt_copy import copy_set, journal_name, make_way
from tasks.checkpoint.probes.ckpt_files import open_set
from tasks.checkpoint.probes.ckpt_journal import Journal
from tasks.checkpoint.probes.ckpt_node import spec_from
from tasks.remote.probes.refused import Refused, refusal

TRIES = 4
PIECE = 1 << 20
TIMEOUT_S = 60  # of one answer of the store; a piece is then tried again
MD5 = re.compile("[0-9a-f]{32}")  # SSE-C and KMS give other ETags


def _connect(url: str) -> tuple[http.client.HTTPConnection, str]:
    parts = urllib.parse.urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    return kind(parts.netloc, timeout=TIMEOUT_S), parts.path + ("?" + parts.query if parts.query else "")


def url_blob(name: str, url: str, size: int, etag: str) -> Blob:
    """An object behind a presigned GET, in ranges of that very version."""

    def read(offset: int, length: int) -> bytes:
        for left in range(TRIES - 1, -1, -1):
            try:
                return _get(url, offset, min(length, size - offset), etag)
            except (OSError, http.client.HTTPException) as e:
                if left == 0 or isinstance(e, FileNotFoundError):
                    raise OSError(5, "%s" % type(e).__name__, name) from None
        return b""

    return Blob(name, size, read)


def _get(url: str, offset: int, length: int, etag: str) -> bytes:
    if length <= 0:
        return b""
    connection, path = _connect(url)
    try:
        headers = {"Range": "bytes=%d-%d" % (offset, offset + length - 1)}
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        if answer.status not in (200, 206) or (etag and (answer.getheader("ETag") or "").strip('"') != etag):
            raise FileNotFoundError(2, "status %d, or another version" % answer.status)
        data = answer.read()
    finally:
        connection.close()
    return data if answer.status == 206 else data[offset : offset + length]


def download(ask: dict[str, Any], publish: Callable[..., list[str]]) -> list[str]:
    """An object store's checkpoint to the node: temporary name, compared, checked, published without replacing."""
    source = {n: url_blob(n, f["url"], f["size"], f["etag"]) for n, f in ask["files"].items()}
    target = os.path.join(ask["root"], ask["name"])
    if os.path.lexists(target):
        raise Refused("would-overwrite", "%s is there, and nothing is ever replaced" % target)
    make_way(ask["root"], ask["name"])
    versions = json.dumps([ask["identity"], sorted((n, f["etag"], f["size"]) for n, f in ask["files"].items())])
    journal = Journal(journal_name(target, ask["identity"]), versions)
    temporary = copy_set(source, ask["root"], ask["name"], ask["folder"], ask["identity"], journal)
    journal.drop()
    spec = spec_from(ask["spec"])
    return publish(temporary, target, ask["folder"], spec, ask["name"])


def upload(ask: dict[str, Any], same: Callable[[str, str, str], str]) -> dict[str, Any]:
    """Parts of one checkpoint to presigned PUT URLs; answers their ETags. The engine completes the uploads.
    A part whose sum the store `have`s already is not sent; one without a URL is only summed up."""
    try:
        path = same(ask["from"], ask["name"], ask["identity"])
        blobs = open_set(path, ask["from"])[1]
        etags = [_part(blobs[p["file"]], p) for p in ask["parts"]]
        same(ask["from"], ask["name"], ask["identity"])
    except Refused as e:
        return refusal(e)
    except (OSError, http.client.HTTPException) as e:
        return {"failed": "%s: %s" % (type(e).__name__, getattr(e, "strerror", ""))}
    return {"said": [], "etags": etags}


def _pieces(blob: Blob, part: dict[str, Any]) -> Iterator[bytes]:
    at, end = part["offset"], part["offset"] + part["length"]
    while at < end:
        data = blob.read(at, min(PIECE, end - at))
        if not data:
            raise FileNotFoundError(2, "the source ended early")
        yield data
        at += len(data)


def _sum() -> Any:
    return hashlib.new("md5", usedforsecurity=False) if sys.version_info >= (3, 9) else hashlib.md5()  # noqa: S324


def _part(blob: Blob, part: dict[str, Any]) -> str:
    """The ETag of one part, which is the MD5 of its bytes unless the store encrypts."""
    if part.get("have") or not part.get("url"):
        total = _sum()
        for data in _pieces(blob, part):
            total.update(data)
        if not part.get("url") or total.hexdigest() == part["have"]:
            return str(total.hexdigest())
    return _put_tries(blob, part)


def _put_tries(blob: Blob, part: dict[str, Any]) -> str:
    for left in range(TRIES - 1, -1, -1):
        try:
            return _put(blob, part)
        except (OSError, http.client.HTTPException) as e:
            if left == 0 or isinstance(e, (FileExistsError, FileNotFoundError)):
                raise
    return ""


def _put(blob: Blob, part: dict[str, Any]) -> str:
    connection, path = _connect(part["url"])
    try:
        connection.putrequest("PUT", path)
        connection.putheader("Content-Length", str(part["length"]))
        for name, value in part.get("headers", {}).items():
            connection.putheader(name, value)
        connection.endheaders()
        total = _sum()
        for data in _pieces(blob, part):
            connection.send(data)
            total.update(data)
        answer = connection.getresponse()
        answer.read()
    finally:
        connection.close()
    if answer.status == 412:
        raise FileExistsError(17, "the object is there already")
    if answer.status // 100 != 2:
        raise OSError(5, "the store answered %d" % answer.status)
    etag = (answer.getheader("ETag") or "").strip('"')
    opaque = "kms" in (answer.getheader("x-amz-server-side-encryption") or "") or not MD5.fullmatch(etag)
    if not opaque and etag != total.hexdigest():
        raise OSError(5, "the store holds other bytes than were sent")
    return etag
