"""The command line as a user runs it: in a process of its own, with a state folder of its own."""

import json
import os
import pty
import re
import select
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.prefect_database import give_database

PROGRAM = "import sys; from deployments.cli.main import main; sys.exit(main())"
CLI = [sys.executable, "-c", PROGRAM]


COLOUR = re.compile(r"\x1b\[[0-9;]*m")
ANY = -1  # exit code


class Cli:
    """gpu-runbooks with a state folder of its own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        give_database(home)
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("PREFECT_")} | {
            "GPU_RUNBOOKS_HOME": str(home)
        }

    def __call__(self, *args: str, env: dict[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*CLI, *args],
            capture_output=True,
            text=True,
            timeout=500,
            env=self.env | (env or {}),
            stdin=subprocess.DEVNULL,
        )

    def seen(self, *args: str, columns: int = 80) -> tuple[int, str]:
        """Exit code, and what a person sees at a terminal: both streams, with colours."""
        return at_terminal(args, self.env | {"COLUMNS": str(columns)})

    def json(self, *args: str, code: int = 0, env: dict[str, str] | None = None) -> Any:
        done = self(*args, "--json", env=env)
        assert code in (ANY, done.returncode), done.stdout + done.stderr
        return json.loads(done.stdout)


def at_terminal(args: Sequence[str], env: dict[str, str], errors: bool = True) -> tuple[int, str]:
    """Exit code of a command at a real terminal (80 columns, if `env` says nothing else), and what it shows; without `errors` of its
    output alone."""
    leader, terminal = pty.openpty()
    whole = {"NO_COLOR": "", "COLUMNS": "80"} | env | {"TERM": "xterm-256color"}
    stderr = terminal if errors else subprocess.DEVNULL
    with subprocess.Popen([*CLI, *args], stdin=terminal, stdout=terminal, stderr=stderr, env=whole, start_new_session=True) as command:
        os.close(terminal)
        shown = b"".join(iter(lambda: _read(leader), b""))
        os.close(leader)
        try:
            command.wait(60)
        finally:
            command.kill()
    return command.returncode, shown.decode().replace("\r\n", "\n")


def _read(leader: int) -> bytes:
    """What came meanwhile; nothing once the last process at the terminal has ended, or says nothing for a long time."""
    try:
        return os.read(leader, 1 << 16) if select.select([leader], [], [], 500)[0] else b""
    except OSError:
        return b""
