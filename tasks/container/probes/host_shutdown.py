"""When the shutdown before this boot began, in the words of the machine's own journal. Changes nothing."""

import json
import subprocess
from typing import Optional

BEGINS = "98268866d1d54a499c4e98921d93bc40"  # logind: the system is rebooting, halting, powering off (SD_MESSAGE_SHUTDOWN)


def shutdown_began() -> "Optional[float]":
    """Unix time; None: it was no orderly shutdown, or the journal does not tell (not kept over a boot, denied, no logind)."""
    argv = ["journalctl", "-b", "-1", "-q", "--no-pager", "-o", "json", "-n", "1", "MESSAGE_ID=" + BEGINS]
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=5)
        return int(json.loads(done.stdout.decode("utf-8", "replace"))["__REALTIME_TIMESTAMP"]) / 1e6
    except (OSError, subprocess.TimeoutExpired, ValueError, KeyError, TypeError):
        return None
