"""Runs one command that changes something and waits for its end. JSON: argv.

Answer: {"exit", "out", "err"} with the last 64 KiB of each, or {"missing": true}, {"denied": why}. What the command leaves running
has no part in the lock that is held meanwhile.
"""

import json
import os
import subprocess
import sys
import threading
from typing import Any

WANTS = {"argv": "list"}
LAST = 1 << 16
AFTER_EXIT_S = 0.5  # how long output is awaited when the command has ended but a child of it holds the pipe


def keep(pipe: "Any", kept: "list[bytes]") -> None:
    """Read to the end, keep the last."""
    for part in iter(lambda: pipe.read1(LAST), b""):
        kept[0] = (kept[0] + part)[-LAST:]


def main(ask: "dict[str, Any]") -> "dict[str, Any]":
    """Run it."""
    try:
        p = subprocess.Popen(
            ask["argv"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, close_fds=True
        )
    except FileNotFoundError:
        return {"missing": True}
    except OSError as e:
        return {"denied": str(e)}
    streams = [(p.stdout, [b""]), (p.stderr, [b""])]  # type: list[tuple[Any, list[bytes]]]
    readers = [threading.Thread(target=keep, args=s, daemon=True) for s in streams]
    for r in readers:
        r.start()
    p.wait()
    for r in readers:
        r.join(AFTER_EXIT_S)
    out, err = (kept[0].decode("utf-8", "replace") for _, kept in streams)
    return {"exit": p.returncode if p.returncode >= 0 else 128 - p.returncode, "out": out, "err": err}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))), flush=True)
    os._exit(0)  # a reader may still hold its pipe
