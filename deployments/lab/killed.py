"""What a rehearsal that was killed (SIGKILL, out of memory) has left: the next `lab` or `down` takes it away.

Each rehearsal writes down who it is, its folder, and every process that was started from that folder, by pid and start time.
Whoever cleans up ends exactly these, and only once the rehearsal itself is proven gone.
"""

import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from pydantic import ValidationError

from deployments.lab.broken_off import end_runs, off_the_pages
from deployments.processes import alive
from deployments.state import Proc, state_dir
from runbooks.core.base import Frozen
from runbooks.core.error_text import error_text
from tasks.this_machine import Owner, boot_id, is_gone, machine_name, start_ticks, this_process

PREFIX = "gpu-runbooks-lab-"
EVERY_S = 0.3
GONE_S = 10.0  # for a killed process to be gone


class KilledRehearsal(Frozen):
    """One rehearsal's record."""

    owner: Owner
    folder: str
    device: int
    inode: int  # of the folder: another one of that name is somebody else's
    secrets: tuple[str, ...] = ()  # Prefect blocks
    processes: tuple[Proc, ...] = ()


class RehearsalRecord:
    """The record of this rehearsal, on disk from its first moment to its last."""

    def __init__(self, folder: Path) -> None:
        found, owner = folder.stat(), this_process()
        self._kept = KilledRehearsal(owner=owner, folder=str(folder), device=found.st_dev, inode=found.st_ino)
        self._lock = threading.Lock()
        _records().mkdir(mode=0o700, exist_ok=True)
        self.path = _records() / f"{owner.pid}-{owner.start_ticks}-{found.st_ino}.json"
        self._write()

    def lends(self, secrets: Sequence[str]) -> None:
        """Blocks that hold its credentials."""
        with self._lock:
            self._kept = self._kept.model_copy(update={"secrets": tuple(secrets)})
            self._write()

    def follow(self, over: threading.Event) -> None:
        """Adds what is started from its folder, until `over`."""
        while not over.wait(EVERY_S):
            with self._lock, suppress(OSError):
                now = tuple(started_from(Path(self._kept.folder)))
                if now != self._kept.processes:
                    self._kept = self._kept.model_copy(update={"processes": now})
                    self._write()

    def _write(self) -> None:
        new = self.path.with_suffix(".new")
        new.write_text(self._kept.model_dump_json(), encoding="utf-8")
        new.replace(self.path)


@contextmanager
def own_folder() -> Iterator[tuple[Path, RehearsalRecord]]:
    """A rehearsal's folder and its record; both are gone afterwards."""
    record, over = None, threading.Event()
    try:
        with tempfile.TemporaryDirectory(prefix=PREFIX) as name:
            record = RehearsalRecord(Path(name))
            follower = threading.Thread(target=record.follow, args=(over,), daemon=True)
            follower.start()
            try:
                yield Path(name), record
            finally:
                over.set()
                follower.join()
    finally:
        if record is not None:
            record.path.unlink(missing_ok=True)


def started_from(folder: Path) -> Iterator[Proc]:
    """Every other process that names the folder in its command line, restarted trainers included."""
    for place in sorted(Path("/proc").glob("[0-9]*"), key=lambda p: int(p.name)):
        with suppress(OSError):
            ticks, pid = start_ticks(int(place.name)), int(place.name)
            command = (place / "cmdline").read_bytes().decode("utf-8", "replace")
            if f"{folder}/" in command and ticks is not None and pid != os.getpid():
                yield Proc(name=folder.name, pid=pid, start_ticks=ticks)


def kill(proc: Proc) -> None:
    """SIGKILL to that very process, also a stopped one; another one of its number is left alone."""
    with suppress(OSError):  # gone, or not ours
        fd = os.pidfd_open(proc.pid)
        try:
            if alive(proc):
                signal.pidfd_send_signal(fd, signal.SIGKILL)
        finally:
            os.close(fd)


def who() -> str:
    """Who decides in a rehearsal."""
    return f"{os.environ.get('USER') or 'lab'} (rehearsal)"


def take_away(server: bool) -> None:
    """Ends what killed rehearsals have left. `server`: their runs and credentials too, on the server that this process uses;
    where none can be used now, the record of these stays for the next time."""
    for path in sorted(_records().glob("*.json")):
        try:
            kept = KilledRehearsal.model_validate_json(path.read_text(encoding="utf-8", errors="replace"))
        except (OSError, ValidationError):
            continue
        if is_gone(kept.owner):
            _take_away(kept, path, server)
        elif kept.owner.host == machine_name() and kept.owner.boot_id != boot_id():  # its pids were another boot's
            _take_away(kept.model_copy(update={"processes": ()}), path, server)


def _take_away(kept: KilledRehearsal, path: Path, server: bool) -> None:
    print(f"removing what a killed rehearsal ({kept.owner.shown}) left …", file=sys.stderr, flush=True)
    fleet = str(Path(kept.folder) / "fleet.yaml")
    open_ = not server
    if server:
        try:
            end_runs(fleet, who(), "the rehearsal was killed")
            off_the_pages(fleet)
            _forget(kept.secrets)
        except Exception as error:
            open_ = True
            print(f"its runs could not be ended: {error_text(error)}", file=sys.stderr, flush=True)
    for proc in kept.processes:
        kill(proc)
    end = time.monotonic() + GONE_S
    while any(map(alive, kept.processes)) and time.monotonic() < end:
        time.sleep(0.05)
    with suppress(OSError):
        found = os.lstat(kept.folder)
        if (found.st_dev, found.st_ino) == (kept.device, kept.inode):
            shutil.rmtree(kept.folder, ignore_errors=True)
    if not open_ and not any(map(alive, kept.processes)):
        with suppress(OSError):
            path.unlink()


def _forget(names: Sequence[str]) -> None:
    from prefect.blocks.system import Secret

    for name in names:
        with suppress(ValueError):
            Secret.delete(name, _sync=True)  # type: ignore[call-arg]


def _records() -> Path:
    return state_dir() / "lab"
