"""Every benchmark in turn: `python -m tests.bench [NAME…]`. Each prints ratios against a peer or a floor."""

import subprocess
import sys
from pathlib import Path


def main(names: list[str]) -> int:
    """Runs the named benchmarks, or all. Returns 1 if one failed."""
    found = sorted(p.stem for p in Path(__file__).parent.glob("bench_*.py"))
    unknown = [n for n in names if f"bench_{n}" not in found]
    if unknown:
        print(f"no benchmark {', '.join(unknown)}; there are: {', '.join(f.removeprefix('bench_') for f in found)}")
        return 2
    worst = 0
    for stem in [f"bench_{n}" for n in names] or found:
        print(f"== {stem.removeprefix('bench_')}", flush=True)
        worst |= subprocess.run([sys.executable, "-m", f"tests.bench.{stem}"], timeout=3600).returncode
    return 1 if worst else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
