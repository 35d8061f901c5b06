"""The command line as a user runs it: in a process of its own, with a state folder of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

PROGRAM = "import sys; from deployments.cli.main import main; sys.exit(main())"
CLI = [sys.executable, "-c", PROGRAM]


ANY = -1  # exit code


class Cli:
    """gpu-runbooks with a state folder of its own."""

    def __init__(self, home: Path) -> None:
        self.home = home
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

    def json(self, *args: str, code: int = 0, env: dict[str, str] | None = None) -> Any:
        done = self(*args, "--json", env=env)
        assert code in (ANY, done.returncode), done.stdout + done.stderr
        return json.loads(done.stdout)
