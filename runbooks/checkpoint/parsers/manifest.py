"""Manifests that name files with size and hash: JSON, or lines as sha256sum writes them. Python 3.8, standard
library only."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from runbooks.checkpoint.parsers.types import Bad, StructureCheck

LENGTHS = {32: "md5", 40: "sha1", 64: "sha256", 128: "sha512", 96: "sha384"}
LINE = re.compile(r"^([0-9a-fA-F]{32,128}) [ *](.+)$")
NAMES = ("manifest.json", "MANIFEST.json", "SHA256SUMS", "sha256sums.txt", "checksums.sha256", "md5sums.txt")


class ManifestEntry(NamedTuple):
    """What a file must be."""

    size: int | None
    algorithm: str
    digest: str  # "" where the manifest has none


def parse_manifest(text: str) -> dict[str, ManifestEntry]:
    """Relative name -> entry. Raises Bad("metadata-damaged") if it cannot be read."""
    stripped = text.lstrip()
    found = _json(stripped) if stripped.startswith(("{", "[")) else _lines(text)
    if not found:
        raise Bad("metadata-damaged", "the manifest names no file")
    bad = [n for n in found if n.startswith("/") or ".." in n.split("/")]
    if bad:
        raise Bad("metadata-damaged", f"the manifest names a file outside of its folder: {bad[0]}")
    return found


def _lines(text: str) -> dict[str, ManifestEntry]:
    found = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = LINE.match(line.rstrip())
        if match is None or len(match[1]) not in LENGTHS:
            raise Bad("metadata-damaged", f"line {number} of the manifest is not `<hash>  <name>`")
        name = match[2][2:] if match[2].startswith("./") else match[2]
        found[name] = ManifestEntry(None, LENGTHS[len(match[1])], match[1].lower())
    return found


def _json(text: str) -> dict[str, ManifestEntry]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as e:
        raise Bad("metadata-damaged", f"the manifest is not JSON: {str(e)[:80]}") from e
    files = data.get("files", data) if isinstance(data, dict) else data
    if isinstance(files, list):
        files = {str(f.get("name") or f.get("path")): f for f in files if isinstance(f, dict)}
    if not isinstance(files, dict):
        raise Bad("metadata-damaged", "the manifest names no files")
    return {str(n): e for n, e in ((n, _entry(v)) for n, v in files.items()) if e is not None}


def _entry(value: Any) -> ManifestEntry | None:
    if isinstance(value, str) and re.fullmatch(r"[0-9a-fA-F]+", value) and len(value) in LENGTHS:
        return ManifestEntry(None, LENGTHS[len(value)], value.lower())
    if not isinstance(value, dict):
        return None
    size = value.get("size", value.get("bytes"))
    for name in ("sha256", "sha512", "sha1", "md5", "hash", "digest"):
        digest = value.get(name)
        if isinstance(digest, str) and len(digest) in LENGTHS:
            return ManifestEntry(size if isinstance(size, int) else None, LENGTHS[len(digest)], digest.lower())
    return ManifestEntry(size, "", "") if isinstance(size, int) else None


def check_sizes(check: StructureCheck, entries: Mapping[str, ManifestEntry], sizes: Mapping[str, int]) -> None:
    """Presence and size of every file of the manifest."""
    for name, entry in sorted(entries.items()):
        if name not in sizes:
            check.fault("manifest-missing-file", f"{name} is in the manifest and not there", name)
        elif entry.size is not None and entry.size != sizes[name]:
            check.fault("manifest-size", f"{name} has {sizes[name]} bytes, the manifest says {entry.size}", name)
