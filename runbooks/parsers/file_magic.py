"""What a file is by its first bytes, where a format has such. Python 3.8, standard library only."""

from __future__ import annotations

PACKED = {
    b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"\x04\x22\x4d\x18": "lz4",
    b"PK\x03\x04": "zip",
}  # fmt: skip
MAGIC = {
    b"\x93NUMPY": "NumPy", b"PAR1": "Parquet", b"ARROW1": "Arrow", b"Obj\x01": "Avro", b"ORC": "ORC",
    b"7z\xbc\xaf\x27\x1c": "7z", b"GGML": "GGML", b"lmgg": "GGML", b"tjgg": "GGML", b"SQLite format 3\0": "SQLite",
    b"\x89HDF\r\n\x1a\n": "HDF5", b"\x7fELF": "ELF (a program)", b"%PDF": "PDF",
    **{b"\x80" + bytes([protocol]): "Python pickle" for protocol in (2, 3, 4, 5)}, b"MMIDIDX\0\0": "token index",
    b"TNTIDX\0\0": "token index",
}  # fmt: skip
BY_ENDING = {
    "gzip": (".gz", ".gzip", ".bgz"), "zstd": (".zst", ".zstd"), "bzip2": (".bz2",), "xz": (".xz",), "lz4": (".lz4",),
}  # of one stream, as loaders unpack it by its name; a zip archive is none
TAR = 257  # where a tar archive names itself


def packed_with(head: bytes) -> str:
    """The compression of a file, "" where there is none that is known."""
    return next((name for magic, name in PACKED.items() if head.startswith(magic)), "")


def unpacked_name(path: str) -> str:
    """The name without the ending of a compression: `a.jsonl.gz` -> `a.jsonl`."""
    ends = (end for all_ in BY_ENDING.values() for end in all_)
    return next((path[: -len(end)] for end in ends if path.endswith(end)), path)


def format_of(head: bytes) -> str:
    """The format of a file that is not compressed, "" where its first bytes do not tell. 300 bytes are enough."""
    if head[TAR : TAR + 5] == b"ustar":
        return "tar"
    return next((name for magic, name in MAGIC.items() if head.startswith(magic)), "")
