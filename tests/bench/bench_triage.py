"""How fast triage reads: `python -m tests.bench.bench_triage [MiB]`. One line for each kind of log, in CPU seconds."""

import base64
import gzip
import io
import random
import re
import resource
import sys
import time
from collections.abc import Iterator
from functools import lru_cache

from runbooks.triage.block import Block
from runbooks.triage.judge import judge
from runbooks.triage.load import library
from runbooks.triage.sources import stream_blocks

KINDS = ("alike", "mixed", "unlike", "failing", "encoded", "coded", "endless", "hostile", "known", "near", "guessing")
WORDS = (
    "train step loss worker rank batch loader error retry warning",
    "connect cache save shard token epoch grad norm",
)


def alike(rng: random.Random) -> str:
    """A training log: lines that differ in their numbers."""
    numbers = f"{rng.random():.4f} lr {rng.random():.2e} tok/s {rng.randrange(9999)}"
    return f"[rank{rng.randrange(8)}]: step {rng.randrange(10**6)} loss {numbers}"


def unlike(rng: random.Random) -> str:
    """The worst case: no two lines alike, every word one that patterns look for."""
    return f"2025-01-01 10:00:00 INFO {' '.join(rng.choices(' '.join(WORDS).split(), k=9))} {rng.getrandbits(64):x}"


def hostile(rng: random.Random) -> str:
    """Worse than any log: lines made of nothing but words that the patterns themselves look for."""
    return f"2025-01-01 10:00:00 {' '.join(rng.choices(wanted(), k=9))} {rng.getrandbits(64):x}"


@lru_cache(maxsize=1)
def wanted() -> list[str]:
    """Every word that stands in a text which some pattern cannot match without."""
    texts = " ".join(t for texts in library().literals.values() for t in texts)
    return sorted(set(re.findall(r"[a-z]{3,}", texts)))


def encoded(rng: random.Random) -> str:
    """Ids and data in base 64: every line new, almost no words."""
    return f"2025-01-01 10:00:00 INFO blob {base64.b64encode(rng.randbytes(120)).decode()}"


def coded(rng: random.Random) -> str:
    """Nothing but base 64, as mail and certificates have it."""
    return base64.b64encode(rng.randbytes(57)).decode()


def endless_line(rng: random.Random) -> str:
    """Eight MB without a line break."""
    return "error failed NCCL timeout step CUDA killed " * 195_000


def known(rng: random.Random) -> str:
    """Nothing but lines that signatures match, each with its own numbers."""
    return f"{rng.choice(examples())} {rng.randrange(10**6)}"


def near(rng: random.Random) -> str:
    """Nothing but lines that signatures nearly match."""
    return f"{rng.choice(counter_examples())} {rng.randrange(10**6)}"


@lru_cache(maxsize=1)
def counter_examples() -> list[str]:
    """A near miss for every signature."""
    return [s.counter_example.replace("\n", " ") for k in library().causes for s in k.cause.signatures]


def guessing(rng: random.Random) -> str:
    """Lines that signatures match, were they not guesses."""
    return f"This might be caused by {rng.choice(examples())} {rng.randrange(10**6)}"


@lru_cache(maxsize=1)
def examples() -> list[str]:
    """A line for every signature."""
    return [s.example.replace("\n", " ") for k in library().causes for s in k.cause.signatures]


def mixed(rng: random.Random) -> str:
    """What a service writes: mostly steps, sometimes requests with ids and paths that never repeat."""
    if rng.random() < 0.8:
        return alike(rng)
    path = "/".join(f"{rng.getrandbits(40):x}" for _ in range(3))
    return f"2025-01-01 10:00:00 INFO request {rng.getrandbits(96):x} GET /data/{path} 200 in {rng.random():.3f} s"


def failing(rng: random.Random) -> str:
    """The same failure over and over."""
    return f"OSError: [Errno 24] Too many open files: '/data/{rng.randrange(10**6)}'"


def made(kind: str, size: int) -> bytes:
    """About `size` bytes of one kind, with a cause in the middle."""
    rng = random.Random(7)
    maker = {
        "hostile": hostile,
        "encoded": encoded,
        "alike": alike,
        "mixed": mixed,
        "unlike": unlike,
        "failing": failing,
        "coded": coded,
        "endless": endless_line,
        "known": known,
        "near": near,
        "guessing": guessing,
    }[kind]
    rows: list[str] = []
    length = 0
    while length < size:
        rows.append(maker(rng))
        length += len(rows[-1]) + 1
    rows[len(rows) // 2] = "NVRM: Xid (PCI:0000:1b:00): 79, pid=1, GPU has fallen off the bus."
    return "\n".join(rows).encode()


def endless(part: bytes, total: int) -> Iterator[Block]:
    """Blocks of `part` until `total` bytes are reached."""
    number, done = 1, 0
    while done < total:
        yield Block(file="big", first=number, data=part)
        number, done = number + part.count(b"\n") + 1, done + len(part)


def main(args: list[str]) -> int:
    """Run all kinds."""
    size = int(args[0] if args else 10) << 20
    begun = time.process_time()
    library()
    print(f"knowledge loaded in {time.process_time() - begun:.3f} s")
    for kind in KINDS:
        data = made(kind, size)
        for name, raw in ((kind, data), (f"{kind} gz", gzip.compress(data, 1))):
            begun = time.process_time()
            out = judge(stream_blocks(io.BytesIO(raw), kind))
            took = time.process_time() - begun
            speed = f"{len(data) >> 20} MiB {took:.2f} s, {len(data) / took / 2**20:.0f} MiB/s"
            print(f"{name:<12} {speed}, first {out.causes[0].slug}")
    begun = time.process_time()
    judge(endless(made("alike", 1 << 20), 200 << 20))
    took = time.process_time() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"200 MiB streamed {took:.1f} s, {200 / took:.0f} MiB/s, peak {peak} MiB of memory in all")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
