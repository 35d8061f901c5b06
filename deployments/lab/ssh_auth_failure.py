"""The ssh-auth-failure rehearsal: the right key, in a file that ssh cannot read any more."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from deployments.lab.scenario import Scene
from deployments.lab.sshd import Sshd, public_key
from runbooks.core.fleet import KeySource

NODE = "lab-node"
STORY = (
    "An sshd on a loopback port plays the node. The deploy key went through an editor that wrote CRLF line ends and lost the "
    "last newline: ssh refuses the file and offers no key. Key, server and ssh are real."
)


@contextmanager
def scene(folder: Path) -> Iterator[Scene]:
    """Builds the fault below `folder` and takes it away again, whatever happens."""
    sshd = Sshd(folder, NODE).start()
    try:
        key = folder / "deploy_key"
        key.write_bytes(sshd.key.read_text().rstrip("\n").replace("\n", "\r\n").encode())
        key.chmod(0o600)
        yield Scene(
            story=f"{STORY} {_try(sshd, key)}",
            runbook="ssh-auth-failure",
            target=NODE,
            fleet=_fleet(folder, sshd, key),
            policy=_policy(folder),
            proof=lambda: _try(sshd, key),
        )
    finally:
        sshd.stop()


def _try(sshd: Sshd, key: Path) -> str:
    """One log-in by the system's ssh, in words."""
    options = ["BatchMode=yes", "IdentitiesOnly=yes", "IdentityAgent=none", "ConnectTimeout=5",
               f"UserKnownHostsFile={sshd.known_hosts}"]  # fmt: skip
    node = sshd.node()
    argv = ["ssh", "-F", "none", *(w for o in options for w in ("-o", o)), "-i", str(key), "-p", str(node.port)]
    done = subprocess.run(
        [*argv, f"{node.user}@{node.host}", "echo", "let-in"], capture_output=True, text=True, timeout=20, check=False
    )
    said = done.stderr.strip().splitlines()
    return "ssh is let in with that file." if "let-in" in done.stdout else f"ssh says: {' / '.join(said[-2:])}"


def _fleet(folder: Path, sshd: Sshd, key: Path) -> Path:
    node = sshd.node(key=KeySource(file=str(key)), public_key=public_key(sshd.key))
    data = {"name": "lab", "nodes": [node.model_dump(mode="json", exclude_defaults=True)]}
    path = folder / "fleet.yaml"
    path.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
    return path


def _policy(folder: Path) -> Path:
    path = folder / "policy.yaml"
    path.write_text("mode: approve\nbudget: {nodes: 1000, window_s: 60}\n", encoding="utf-8")
    return path
