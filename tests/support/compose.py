"""The services of deployments/compose.yaml as processes: their own commands and environments, on loopback.

Images cannot be pulled on every machine; what the containers run can. Names of services become 127.0.0.1 and free ports, and
/state and /config become folders. PostgreSQL and Redis are real.
"""

import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml

from deployments.ports import free_port
from tests.support.engine_rig import REPO
from tests.support.need import need_program
from tests.support.postgres import Postgres

HERE = REPO / "deployments"
SECRETS = {"POSTGRES_PASSWORD": "not-asked-for", "PREFECT_AUTH": "admin:a-password-of-the-tests"}
SECRETS |= {"GATEWAY_TOKEN": "a-token-of-the-tests-0123456789", "UI_NAME": "ui.test", "GATEWAY_NAME": "alerts.test"}
SECRETS |= {"LINK_KEY": "0" * 64, "NOTIFICATIONS": ""}


class Compose:
    """Everything but TLS; each service is started by `start`."""

    def __init__(self, folder: Path, fleet: dict[str, Any]) -> None:
        assert find_spec("prefect_redis"), "missing: .venv/bin/python -m pip install 'prefect-redis>=0.2' (the image has it)"
        self.folder, self.config = folder, folder / "config"
        self.config.mkdir()
        (self.config / "fleet.yaml").write_text(yaml.safe_dump(fleet), encoding="utf-8")
        (self.config / "policy.yaml").write_text("mode: diagnose\n", encoding="utf-8")
        shutil.copy(HERE / "alerts.yaml", self.config)
        self.postgres = Postgres().start()
        self.postgres.do("CREATE ROLE prefect LOGIN SUPERUSER")
        self.postgres.do("CREATE DATABASE prefect OWNER prefect")
        self.redis_port, self.server_port, self.gateway_port = free_port(), free_port(), free_port()
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        redis = need_program("redis-server", "redis-server")
        self._run("redis", [redis, "--port", str(self.redis_port), "--bind", "127.0.0.1", "--dir", str(folder)], {})
        self.services: dict[str, Any] = yaml.safe_load(self._here((HERE / "compose.yaml").read_text(encoding="utf-8")))["services"]

    def _here(self, text: str) -> str:
        """The file with its variables filled in and its names made this machine's."""
        text = re.sub(r"\$\{(\w+)(?::[?-][^}]*)?\}", lambda m: SECRETS.get(m[1], str(self.folder)), text)
        for name, here in {
            "@postgres:5432": f"@127.0.0.1:{self.postgres.port}",
            "HOST: redis": "HOST: 127.0.0.1",
            '"6379"': f'"{self.redis_port}"',
            "server:4200": f"127.0.0.1:{self.server_port}",
            '"4200"': f'"{self.server_port}"',
            '"8765"': f'"{self.gateway_port}"',
            "0.0.0.0": "127.0.0.1",  # noqa: S104 - what is replaced
            "/config/": f"{self.config}/",
        }.items():
            text = text.replace(name, here)
        return text

    def environment(self, service: str, instance: str = "") -> dict[str, str]:
        """What the container would have, and nothing of the tests' own Prefect."""
        plain = {k: v for k, v in os.environ.items() if not k.startswith(("PREFECT_", "GPU_RUNBOOKS_"))}
        state = self.folder / f"state-{instance or service}"  # containers of one service share the volume, not the machine
        state.mkdir(exist_ok=True)
        given = {k: str(v).replace("/state", str(state)) for k, v in self.services[service]["environment"].items()}
        return plain | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"} | given

    def do(self, service: str, *argv: str) -> None:
        """`docker compose run`: a command in that service's environment, that must succeed."""
        words = argv or tuple(self.services[service]["command"])
        done = subprocess.run(
            words, env=self.environment(service), cwd=self.folder, capture_output=True, text=True, check=False, timeout=300
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def start(self, service: str, instance: str = "") -> "subprocess.Popen[bytes]":
        """A service, through the image's entrypoint."""
        words = ["sh", str(HERE / "worker-entrypoint.sh"), *self.services[service]["command"]]
        return self._run(instance or service, words, self.environment(service, instance))

    def _run(self, name: str, words: list[str], env: dict[str, str]) -> "subprocess.Popen[bytes]":
        log = (self.folder / f"{name}.log").open("ab")
        self.processes[name] = subprocess.Popen(words, env=env or None, cwd=self.folder, stdout=log, stderr=log)
        return self.processes[name]

    def log(self) -> str:
        """The ends of what all of them printed."""
        return "\n".join(f"== {p.name}\n{p.read_text(errors='replace')[-1500:]}" for p in sorted(self.folder.glob("*.log")))

    def stop(self, name: str, limit_s: float = 60) -> int:
        """SIGTERM; the exit status."""
        process = self.processes.pop(name)
        process.terminate()
        try:
            return process.wait(limit_s)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()

    def close(self) -> None:
        """All of it, clients first."""
        for name in list(reversed(self.processes)):
            self.stop(name)
        self.postgres.stop()
