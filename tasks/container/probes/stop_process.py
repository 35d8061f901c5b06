"""Ends one process by its identity, TERM only. JSON argument: {pid, start_ticks, boot_id, command, kept (characters of it)}."""

import json
import os
import signal
import sys
import time
from typing import Any

from tasks.remote.probes.judged import judged
from tasks.remote.probes.pidfd import send
from tasks.remote.probes.proc import ancestors, boot_id, same
from tasks.remote.probes.refused import Refused, refusal

WANTS = {"pid": "int", "start_ticks": "int", "boot_id": "str", "command": "str", "kept": "int"}


def main(ask: "dict[str, Any]") -> "dict[str, Any]":
    """The whole act."""
    if boot_id() != ask["boot_id"]:
        return {"refused": "the machine was booted since", "code": "target-changed"}
    try:
        fd = judged(ask, ancestors())[0]
    except Refused as e:
        return refusal(e)
    if fd is None:
        return {"refused": "pid %d has ended" % ask["pid"], "code": "target-changed"}
    error = send(fd, signal.SIGTERM)
    if error:
        return {"refused": "pid %d: %s" % (ask["pid"], os.strerror(error)), "code": "not-supported"}
    end = time.monotonic() + 5
    while time.monotonic() < end:
        left = same(ask["pid"], ask["start_ticks"])
        if left is None or left["state"] in "ZX":
            return {"said": ["pid %d ended on SIGTERM" % ask["pid"]]}
        time.sleep(0.05)
    return {"failed": "pid %d did not end on SIGTERM within 5 s; nothing stronger was sent" % ask["pid"]}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
