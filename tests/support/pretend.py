"""This machine with some of its files and programs replaced: what cannot be had here (another memory, another GPU) is read by the
product's own probes all the same."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from tasks.transport.base import CommandResult
from tasks.transport.local import LocalHost

INSIDE = """set -e
for place in $HIDDEN; do mount -t tmpfs none "$place"; done
for pair in $FILES; do mount --bind "${pair#*=}" "${pair%%=*}"; done
PATH="$PROGRAMS:$PATH" exec "$@"
"""


class PretendHost(LocalHost):
    """Commands run in a mount namespace of their own, in which `files` (path -> text) cover this machine's and `programs`
    (name -> what it prints, or a script that begins with #!) come first on the path; `hidden` folders are empty. Needs root."""

    def __init__(self, name: str, folder: Path, files: Mapping[str, str], programs: Mapping[str, str],
                 hidden: Sequence[str] = ()) -> None:  # fmt: skip
        super().__init__(name)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "bin").mkdir(exist_ok=True)
        pairs = []
        for number, (path, text) in enumerate(files.items()):
            (folder / f"file-{number}").write_text(text)
            pairs.append(f"{path}={folder / f'file-{number}'}")
        for program, text in programs.items():
            said, script = folder / f"{program}.said", folder / "bin" / program
            said.write_text(text)
            script.write_text(text if text.startswith("#!") else f"#!/bin/sh\ncat {said}\n")
            script.chmod(0o755)
        told = (f"HIDDEN={' '.join(hidden)}", f"FILES={' '.join(pairs)}", f"PROGRAMS={folder / 'bin'}")
        self._prefix = ("env", *told, "unshare", "-m", "sh", "-c", INSIDE, "sh")

    def run(
        self, argv: Sequence[str], *, stdin: str | None = None, timeout_s: float = 20.0, limit_bytes: int = 1 << 20
    ) -> CommandResult:
        """As on this machine, behind the namespace."""
        if os.geteuid() != 0:
            raise PermissionError("a mount namespace needs root")
        return super().run((*self._prefix, *argv), stdin=stdin, timeout_s=timeout_s, limit_bytes=limit_bytes)
