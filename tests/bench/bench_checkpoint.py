"""Speed of the checkpoint checks against floors measured here: `python tests/bench/bench_checkpoint.py [GiB] [folder]`.

Prints one JSON object: content check of a large file against read + CRC-32 in the same library, peak memory,
structure of
1,000 checkpoints, and the share of a large file that its structure check reads.
"""

import json
import os
import resource
import shutil
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from runbooks.checkpoint.parsers.sets import CheckpointSpec
from tasks.checkpoint.probes.ckpt_fs import best_crc32
from tasks.checkpoint.probes.ckpt_node import content, scan

CHUNK = 4 << 20
PART = 256 << 20


def write_checkpoint(path: Path, gib: float) -> None:
    """A torch file of that size, in storages of 256 MiB."""
    import torch

    data = {f"w{i}": torch.full((PART // 4,), float(i)) for i in range(max(1, int(gib * (1 << 30) / PART)))}
    torch.save({"model": data, "step": 1}, path)


def drop_cache(path: Path) -> None:
    """Out of the page cache, so that both runs read alike."""
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def floor(path: Path, threads: int) -> float:
    """Seconds for reading the file and its CRC-32, in as many ranges as there are threads."""
    crc32, size = best_crc32(), path.stat().st_size
    span = -(-size // threads)
    fd = os.open(path, os.O_RDONLY)

    def one(n: int) -> None:
        crc, at, end = 0, n * span, min(size, (n + 1) * span)
        while at < end:
            data = os.pread(fd, min(CHUNK, end - at), at)
            crc = crc32(data, crc)
            at += len(data)

    begun = time.monotonic()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(one, range(threads)))
    os.close(fd)
    return time.monotonic() - begun


def measure(gib: float, root: Path, cold: bool) -> dict[str, Any]:
    """Floor and check of one large file, best of three each, taken in turns."""
    path = root / "checkpoint_step_1.pt"
    if not path.exists():
        write_checkpoint(path, gib)
    ask = {"root": str(root), "name": path.name, "spec": CheckpointSpec()._asdict(), "threads": 4}
    floors, checks = [], []
    for _ in range(3):
        for what in ("floor", "check"):
            if cold:
                drop_cache(path)
            if what == "floor":
                floors.append(floor(path, 4))
            else:
                begun = time.monotonic()
                assert content(ask)["faults"] == []
                checks.append(time.monotonic() - begun)
    size = path.stat().st_size
    return {"gib": size / 2**30, "cold": cold, "floor_mb_s": round(size / min(floors) / 1e6),
    "check_mb_s": round(size / min(checks) / 1e6),
            "share_of_floor": round(min(floors) / min(checks), 2)}  # fmt: skip


def thousand(root: Path) -> dict[str, Any]:
    """Structure of 1,000 small checkpoints (hard links of one file, each opened and judged)."""
    import torch

    one, many = root / "one.pt", root / "many"
    torch.save({"model": {f"w{i}": torch.zeros(100) for i in range(20)}, "step": 1}, one)
    many.mkdir()
    for n in range(1000):
        os.link(one, many / f"checkpoint_step_{n}.pt")
    begun = time.monotonic()
    got = scan(
        {"root": str(many), "pattern": r"checkpoint_step_(?P<step>\d+)\.pt", "spec": CheckpointSpec()._asdict(), "newest": 1000}
    )
    assert len(got["candidates"]) == 1000
    return {"structure_1000_s": round(time.monotonic() - begun, 2)}


def share_read(root: Path) -> dict[str, Any]:
    """How much of the large file its structure needs."""
    got = scan(
        {"root": str(root), "pattern": r"checkpoint_step_(?P<step>1)\.pt", "spec": CheckpointSpec()._asdict(), "newest": 1}
    )
    (c,) = got["candidates"]
    return {"structure_reads_share": c["read_bytes"] / c["size"]}


def main() -> None:
    gib = float(sys.argv[1]) if len(sys.argv) > 1 else 8
    root = Path(tempfile.mkdtemp(dir=sys.argv[2] if len(sys.argv) > 2 else None))
    try:
        pid = os.fork()
        if pid == 0:  # written by a child, so that its memory does not count
            write_checkpoint(root / "checkpoint_step_1.pt", gib)
            os._exit(0)
        os.waitpid(pid, 0)
        out = {"warm": measure(gib, root, False), "crc32": best_crc32().__module__, **share_read(root)}
        out["peak_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        out["cold"] = measure(gib, root, True)
        out |= thousand(root)
        print(json.dumps(out, indent=1))
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
