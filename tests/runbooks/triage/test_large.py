"""2 GB through the command itself: bounded memory, a progress bar, the first and the last lines of each cause."""

import gzip
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, Any

import pytest

from tests.support.soak import record

SIZE = 2 << 30
FIRST = "[rank0]: RuntimeError: can't start new thread"
LAST = "NVRM: Xid (PCI:0000:1b:00): 79, pid=1, GPU has fallen off the bus."
PEAK = """
import resource, sys
from deployments.cli.main import main
code = main()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10, file=sys.stderr)
sys.exit(code)
"""


def write(out: IO[bytes]) -> int:
    """About 2 GB of a training log, most of its lines new; one cause only in its first line, one only in its last."""
    out.write(f"{FIRST}\n".encode())
    number, size = 0, 0
    while size < SIZE:
        rows = [
            f"[rank{n % 8}]: step {n} loss {1 + n % 997 / 997:.4f} tok/s {n * 7919 % 99991} id {n * 2654435761 % 2**32:08x}"
            for n in range(number, number + 20_000)
        ]
        block = "\n".join(rows).encode() + b"\n"
        for _ in range(8):
            out.write(block)
        number, size = number + 20_000, size + 8 * len(block)
    out.write(LAST.encode())
    return size


def triage(path: Path) -> tuple[dict[str, Any], float, int, str]:
    """Its answer, seconds, peak memory in MiB, and what stood on stderr."""
    began = time.monotonic()
    argv = [sys.executable, "-c", PEAK, "triage", "--json", "--progress", str(path)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=1800, check=False)
    took = time.monotonic() - began
    return json.loads(done.stdout), took, int(done.stderr.split()[-1]), done.stderr


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["plain", "gz"])
def test_two_gigabytes(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    with path.open("wb") if kind == "plain" else gzip.open(path, "wb", compresslevel=1) as out:
        size = write(out)  # type: ignore[arg-type]
    os.sync()
    answer, took, peak, said = triage(path)
    lines = {c["slug"]: c["evidence"][0] for c in answer["causes"]}
    assert lines["thread-limit"]["number"] == 1
    assert lines["gpu-off-the-bus"]["number"] == answer["lines_read"]
    assert re.search(r"\[#+ *\] +\d+% \d+ MiB, \d+ MiB/s", said)
    assert peak < 300
    facts = {
        "lines": answer["lines_read"],
        "mb_per_s": round(size / 1e6 / took),
        "seconds": round(took),
        "peak_mb": peak,
    }
    record(f"triage_2gb_{kind}", facts)
