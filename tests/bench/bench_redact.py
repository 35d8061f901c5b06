"""How fast secrets are looked for: `python -m tests.bench.bench_redact [MiB]`. One line for each kind of log, in CPU seconds."""

import random
import sys
import time

from runbooks.core.redact import Redactor
from tests.bench.bench_triage import alike, coded, encoded, hostile, known, unlike
from tests.support.planted import planted

KINDS = (alike, unlike, encoded, coded, hostile, known)


def full_of_secrets(rng: random.Random) -> str:
    """Worse than any log: a secret in every line."""
    return f"2025-01-01 10:00:00 INFO connecting with {rng.choice(list(planted(rng.randrange(3)).values())).text} now"


def main() -> None:
    """Prints CPU seconds for each kind, the best of two."""
    size = int(float(sys.argv[1] if len(sys.argv) > 1 else "10") * 1e6)
    redactor = Redactor(b"0123456789abcdef-bench")
    for kind in (*KINDS, full_of_secrets):
        rng, lines, length = random.Random(1), [], 0
        while length < size:
            lines.append(kind(rng))
            length += len(lines[-1]) + 1
        text, best = "\n".join(lines), float("inf")
        for _ in range(2):
            begin = time.process_time()
            redactor.text(text)
            best = min(best, time.process_time() - begin)
        print(f"{kind.__name__:16} {best:6.2f} s for {size / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
