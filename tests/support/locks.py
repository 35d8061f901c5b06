"""Who holds an owner's lock file on this machine, for tests that end what a killed engine left at work."""

import json
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from runbooks.core.names import slug
from tasks.remote.changing import ask_over
from tasks.transport.local import LocalHost


def end_holder(owner: str, limit_s: float = 10) -> None:
    """KILL the command that works on that owner, as the loss of its machine would; nothing if there is none."""
    host, end = LocalHost("here"), time.monotonic() + limit_s
    while ask_over(host, owner, "a test's question")[0] is not False:
        assert time.monotonic() < end, f"{owner} is still held"
        file = Path(os.environ["GPU_RUNBOOKS_LOCKS"], str(os.geteuid()), f"{slug(owner)}.lock")
        with suppress(ProcessLookupError):
            os.kill(int(json.loads(file.read_text())["pid"]), signal.SIGKILL)
        time.sleep(0.02)
