"""Ways in which a checkpoint breaks, each a function from whole files to broken ones; None where it does not apply."""

# ruff: noqa: ARG005
from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable

from tests.support.ckpt_files import Files

Damage = Callable[[Files, str, Files], Files | None]  # (files, format, files of another step)
LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"a" * 64 + b"\nsize 583649007\n"
HTML = b"<!DOCTYPE html><html><head><title>Sign in</title></head><body>403</body></html>"
XML = b'<?xml version="1.0" encoding="UTF-8"?><Error><Code>NoSuchKey</Code><Message>no</Message></Error>'


def biggest(files: Files) -> str:
    """The largest file: the weights, or one shard of them."""
    return max((n for n in files if not n.endswith(".json")), key=lambda n: len(files[n]))


def _on(change: Callable[[bytes], bytes]) -> Damage:
    return lambda files, form, other: files | {biggest(files): change(files[biggest(files)])}


def _zero(data: bytes, at: int, n: int) -> bytes:
    return data[:at] + bytes(n) + data[at + n :]


def _flip(data: bytes, at: int, bit: int = 3) -> bytes:
    return data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]


def content_at(data: bytes, form: str) -> int:
    """An offset inside the tensor data of the biggest file."""
    if form.startswith("safetensors"):
        return 8 + int.from_bytes(data[:8], "little") + 100
    if form == "torch-legacy":
        return len(data) - 3000
    with zipfile.ZipFile(io.BytesIO(data)) as z:
        member = max(z.infolist(), key=lambda i: i.file_size)
        shift = 0 if form != "dcp" else z.start_dir and 0
        return member.header_offset + 200 + shift


def _inside(change: Callable[[bytes, int], bytes]) -> Damage:
    def run(files: Files, form: str, other: Files) -> Files | None:
        name = biggest(files)
        return files | {name: change(files[name], content_at(files[name], form))}

    return run


def _rezip(edit: Callable[[dict[str, bytes]], dict[str, bytes]]) -> Damage:
    """Takes the torch ZIP apart and writes it again with right checksums and 64-byte alignment left out."""

    def run(files: Files, form: str, other: Files) -> Files | None:
        if form not in ("torch-zip", "sharded"):
            return None
        name = biggest(files)
        with zipfile.ZipFile(io.BytesIO(files[name])) as z:
            members = edit({i.filename: z.read(i) for i in z.infolist()})
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as z:
            for member, data in members.items():
                z.writestr(member, data)
        return files | {name: out.getvalue()}

    return run


def _set(end: str, value: bytes | None) -> Callable[[dict[str, bytes]], dict[str, bytes]]:
    def edit(members: dict[str, bytes]) -> dict[str, bytes]:
        hit = next(m for m in members if m.endswith(end))
        rest = {m: d for m, d in members.items() if m != hit}
        return rest if value is None else members | {hit: value}

    return edit


def _flat(members: dict[str, bytes]) -> dict[str, bytes]:
    return {m.split("/", 1)[1]: d for m, d in members.items()}


def _short_storage(members: dict[str, bytes]) -> dict[str, bytes]:
    hit = max((m for m in members if "/data/" in m), key=lambda m: len(members[m]))
    return members | {hit: members[hit][:-4]}


def _flip_pickle(files: Files, form: str, other: Files) -> Files | None:
    name = ".metadata" if form == "dcp" else biggest(files)
    data = files[name]
    at = {"safetensors": 20, "safetensors-sharded": 20, "torch-legacy": 120}.get(form, 300)
    return files | {name: _flip(data, at, 7)}


def _drop(files: Files, form: str, other: Files) -> Files | None:
    return None if len(files) == 1 else {n: d for n, d in files.items() if n != biggest(files)}


def _swap(files: Files, form: str, other: Files) -> Files | None:
    """One file of another step under this step's name."""
    return files | {biggest(files): other[biggest(files)]} if len(other[biggest(files)]) else None


def _tmp_name(files: Files, form: str, other: Files) -> Files | None:
    name = biggest(files)
    if form == "dcp":
        return {(n + ".tmp" if n == ".metadata" else n): d for n, d in files.items()}
    return {(n + ".tmp" if n == name else n): d for n, d in files.items()}


def _metadata(value: Callable[[bytes], bytes] | None) -> Damage:
    def run(files: Files, form: str, other: Files) -> Files | None:
        key = {"dcp": ".metadata", "safetensors-sharded": "model.safetensors.index.json"}.get(form)
        if key is None:
            return None
        return {n: d for n, d in files.items() if n != key} if value is None else files | {key: value(files[key])}

    return run


def _header_edit(edit: Callable[[dict[str, dict[str, object]]], None]) -> Damage:
    def run(files: Files, form: str, other: Files) -> Files | None:
        if not form.startswith("safetensors"):
            return None
        name = biggest(files)
        data = files[name]
        length = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + length])
        edit(header)
        raw = json.dumps(header, separators=(",", ":")).encode()
        raw += b" " * (-len(raw) % 8)
        return files | {name: len(raw).to_bytes(8, "little") + raw + data[8 + length :]}

    return run


def _shape(header: dict[str, dict[str, object]]) -> None:
    next(v for k, v in header.items() if k != "__metadata__")["shape"] = [3, 3]


def _dtype(header: dict[str, dict[str, object]]) -> None:
    next(v for k, v in header.items() if k != "__metadata__")["dtype"] = "I8"


def _overlap(header: dict[str, dict[str, object]]) -> None:
    first, second, *_ = (v for k, v in header.items() if k != "__metadata__")
    second["data_offsets"], second["shape"], second["dtype"] = (
        first["data_offsets"],
        first["shape"],
        first["dtype"],
    )


DAMAGE: dict[str, Damage] = {
    "truncated in the middle": _on(lambda d: d[: len(d) // 2]),
    "one byte short": _on(lambda d: d[:-1]),
    "truncated in the header": _on(lambda d: d[:40]),
    "zero bytes": _on(lambda d: b""),
    "one byte": _on(lambda d: d[:1]),
    "all zeros": _on(lambda d: bytes(len(d))),
    "zero tail (preallocated, disk full)": _on(lambda d: _zero(d, len(d) // 2, len(d) - len(d) // 2)),
    "zero head": _on(lambda d: _zero(d, 0, 512)),
    "trailing garbage": _on(lambda d: d + b"\x5a" * 777),
    "trailing zeros": _on(lambda d: d + bytes(4096)),
    "trailing copy of itself": _on(lambda d: d + d),
    "bytes prepended": _on(lambda d: b"HTTP/1.1 200 OK\r\n\r\n" + d),
    "first bytes missing": _on(lambda d: d[16:]),
    "a hole cut out": _on(lambda d: d[: len(d) // 3] + d[len(d) // 3 + 512 :]),
    "LFS pointer": _on(lambda d: LFS),
    "web page": _on(lambda d: HTML),
    "store's error answer": _on(lambda d: XML),
    "JSON error": _on(
        lambda d: b'{"message": "token expired", "status": 401, "documentation_url": "https://example.org/"}'
    ),
    "gzip of it": _on(lambda d: __import__("gzip").compress(d)),
    "random bytes": _on(lambda d: bytes((i * 7919 + 13) % 251 for i in range(4096))),
    "bit flip in tensor data": _inside(lambda d, at: _flip(d, at)),
    "4 KiB zero hole in tensor data": _inside(lambda d, at: _zero(d, at, 4096)),
    "bit flip in the object description": _flip_pickle,
    "two blocks exchanged": _inside(lambda d, at: d[:at] + d[at + 512 : at + 1024] + d[at : at + 512] + d[at + 1024 :]),
    "byteorder changed": _rezip(_set("/byteorder", b"big")),
    "byteorder absent": _rezip(_set("/byteorder", None)),
    "version absent": _rezip(_set("/version", None)),
    "junk version": _rezip(_set("/version", b"x\n")),
    "storage missing": _rezip(_set("/data/0", None)),
    "description missing": _rezip(_set("/data.pkl", None)),
    "flat ZIP": _rezip(_flat),
    "storage too short": _rezip(_short_storage),
    "one record replaced, checksums right": _rezip(_set("/version", b"4\n")),
    "wrong shape": _header_edit(_shape),
    "wrong dtype": _header_edit(_dtype),
    "overlapping tensors": _header_edit(_overlap),
    "shard missing": _drop,
    "shard of another step": _swap,
    "temporary name": _tmp_name,
    "commit marker missing": _metadata(None),
    "commit marker empty": _metadata(lambda d: b""),
    "commit marker truncated": _metadata(lambda d: d[: len(d) * 2 // 3]),
    "commit marker zeroed": _metadata(lambda d: bytes(len(d))),
}
