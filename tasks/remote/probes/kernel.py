"""Reads the kernel log's lines about GPUs with `dmesg`, else `journalctl -k -b`. JSON argument: {match, cap}."""

import json
import os
import re
import subprocess
import sys
import time
from typing import Any

WAYS = (("dmesg",), ("journalctl", "-k", "-b", "-o", "short-monotonic", "--no-pager", "-q"))
AT = re.compile(r"^\[\s*(\d+\.\d+)\]")
DENIED = re.compile(r"not permitted|permission denied|insufficient permissions", re.I)


def ask_tool(argv: "tuple[str, ...]") -> "dict[str, Any]":
    """Exit, lines and complaint of one tool; exit 127 where it is missing, 126 where it may not be run."""
    try:
        env = dict(os.environ, LC_ALL="C")
        done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=8, env=env)
    except FileNotFoundError:
        return {"tool": argv[0], "exit": 127, "lines": [], "said": "not installed"}
    except OSError as e:  # there, and may not be run
        return {"tool": argv[0], "exit": 126, "lines": [], "said": str(e)}
    except subprocess.TimeoutExpired:
        return {"tool": argv[0], "exit": 124, "lines": [], "said": "no answer in 8 s"}
    said = done.stderr.decode("utf-8", "replace").strip()[-300:]
    return {
        "tool": argv[0],
        "exit": done.returncode,
        "lines": done.stdout.decode("utf-8", "replace").splitlines(),
        "said": said,
    }


def begins(lines: "list[str]") -> "float | None":
    """Seconds since boot of the first line that carries a time."""
    times = (AT.match(line) for line in lines[:50])
    return next((float(t.group(1)) for t in times if t), None)


def main(ask: "dict[str, Any]") -> "dict[str, Any]":
    """The first tool whose log reaches back to the boot; else the one that reaches back furthest."""
    match, tried, best = re.compile(ask["match"], re.I), [], None
    for argv in WAYS:
        got = ask_tool(argv)
        tried.append({k: got[k] for k in ("tool", "exit", "said")})
        got["begins"] = begins(got["lines"])
        if got["exit"] == 0 and got["lines"] and (best is None or (got["begins"] or 0) < (best["begins"] or 0)):
            best = got
        if best is not None and (best["begins"] or 0) < 5:
            break
    denied = any(t["exit"] not in (0, 124, 127) and DENIED.search(t["said"]) for t in tried)
    if best is None:
        return {"tool": "", "lines": [], "begins": None, "tried": tried, "denied": denied}
    found = [line for line in best["lines"] if match.search(line)]
    return {"tool": " ".join(best["tool"].split()), "lines": found[-int(ask["cap"]) :], "begins": best["begins"],
            "tried": tried, "denied": False, "zero": time.time() - time.clock_gettime(time.CLOCK_MONOTONIC)}  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
