"""What a run of the tests made and did not take away: found by the run's own temporary folder, which all of it lies in or names.

Run as a program it waits for the run and takes away all of it should the run be killed. Standard library only: it starts in no time.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

ROOM = "GPU_RUNBOOKS_TESTS_ROOM"  # in the environment of whatever the run starts: the path of its folder
KEPT = re.compile(r"gpu-runbooks-ports-\d+|bin")  # the counter of ports, shared with other runs; the interpreter (own_folder.py)
DONE = b"done\n"


def own(name: str) -> str:
    """A name that all of the machine sees (a network namespace's, a control group's), told apart as this run's."""
    return f"gpurb-{Path(os.environ.get(ROOM, 'none')).name}-{name}"


def processes(room: Path) -> dict[int, str]:
    """Living processes that this run started: pid -> command, and the test that was running when it began."""
    mark, found = f"{ROOM}={room}".encode(), {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with suppress(OSError):
                words = (entry / "environ").read_bytes().split(b"\0")
                if mark in words:
                    test = next((w for w in words if w.startswith(b"PYTEST_CURRENT_TEST=")), b"=").split(b"=", 1)[1]
                    command = (entry / "cmdline").read_bytes().replace(b"\0", b" ")[:200]
                    found[int(entry.name)] = f"{command.decode(errors='replace').strip()} ({test.decode(errors='replace')})"
    return found


def mounts(*folders: Path) -> list[str]:
    """Mount points below these folders, the inner ones first."""
    lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    points = [line.split(" ")[4] for line in lines]
    return sorted((p for p in points if any(p.startswith(f"{f}/") for f in folders)), reverse=True)


def network_namespaces(room: Path) -> list[str]:
    """Names of this run's."""
    return [p.name for p in Path("/run/netns").glob(f"*{room.name}*")]


def files(room: Path) -> list[Path]:
    """What lies in the folder."""
    return [p for p in room.iterdir() if not KEPT.fullmatch(p.name)] if room.is_dir() else []


def left(room: Path, tests: Path) -> dict[str, list[str]]:
    """Everything that is left, by kind: "process", "mount", "network namespace", or a file's name without its random end."""
    found: dict[str, list[str]] = defaultdict(list)
    found["process"] = [f"{pid} {said}" for pid, said in processes(room).items()]
    found["mount"] = mounts(room, tests)
    found["network namespace"] = network_namespaces(room)
    for path in files(room):
        found[re.sub(r"[a-z0-9_]{8}(?=[a-z]*$)", "*", path.name)].append(str(path))
    return {kind: names for kind, names in found.items() if names}


def take_away(room: Path, *more: Path) -> None:
    """Ends and removes it."""
    for _ in range(5):
        for pid in processes(room):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)
    for point in mounts(room, *more):
        subprocess.run(["umount", "-l", point], capture_output=True, check=False)
    for name in network_namespaces(room):
        subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
    shutil.rmtree(room, ignore_errors=True)


def main() -> None:
    """Waits for the end of the run whose folder is given. It says that it is done, or it was killed."""
    if sys.stdin.buffer.readline() != DONE:
        take_away(*map(Path, sys.argv[1:]))


if __name__ == "__main__":
    main()
