"""The other peer of bench_gateway: ansible-rulebook. Its webhook starts a playbook, whose first task is a command on the node.

It is no dependency of ours: `--ansible FOLDER` names the bin folder of a virtual environment that has ansible-rulebook,
ansible-runner and ansible-core (pip), and a Java runtime must be there (Debian: default-jre-headless).
"""

import os
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import httpx

from deployments.ports import free_port

if TYPE_CHECKING:
    from tests.bench.bench_gateway import Site

RULEBOOK = """
- name: peer
  hosts: all
  sources: [{{eda.builtin.webhook: {{host: 127.0.0.1, port: {port}}}}}]
  rules:
    - name: sick
      condition: event.payload.status == "firing"
      action: {{run_playbook: {{name: {playbook}}}}}
"""
PLAYBOOK = "- hosts: all\n  gather_facts: false\n  tasks: [{raw: 'true'}]\n"


def ansible_seconds(site: "Site", home: Path, count: int, bin_folder: Path) -> list[float]:
    """Seconds from the webhook's POST to the command on the node, one after the other."""
    port, folder = free_port(), home / "ansible"
    folder.mkdir()
    node = site.nodes[0]
    ssh = f"-F none -o UserKnownHostsFile={site.sshd.known_hosts}"
    host = f"{node.host} ansible_port={node.port} ansible_user={node.user} ansible_ssh_private_key_file={site.sshd.key}"
    (folder / "inventory").write_text(f'{host} ansible_ssh_common_args="{ssh}"\n', encoding="utf-8")
    (folder / "playbook.yml").write_text(PLAYBOOK, encoding="utf-8")
    (folder / "rules.yml").write_text(RULEBOOK.format(port=port, playbook=folder / "playbook.yml"), encoding="utf-8")
    # its home is not the playbook's folder, which is copied for each run
    env = os.environ | {"PATH": f"{bin_folder}:{os.environ['PATH']}", "HOME": str(home)}
    argv = [str(bin_folder / "ansible-rulebook"), "--rulebook", str(folder / "rules.yml"), "-i", str(folder / "inventory")]
    with (home / "ansible.log").open("wb") as log:
        process = subprocess.Popen(argv, cwd=folder, env=env, stdout=log, stderr=log)
    try:
        _until_it_listens(port, process)
        return [_one(site, port) for _ in range(count)]
    except RuntimeError as e:
        raise RuntimeError(f"{e}: {(home / 'ansible.log').read_text(errors='replace')[-1500:]}") from e
    finally:
        process.terminate()
        process.wait(30)


def _until_it_listens(port: int, process: "subprocess.Popen[bytes]", limit_s: float = 90) -> None:
    deadline = time.monotonic() + limit_s
    while True:
        try:
            httpx.get(f"http://127.0.0.1:{port}/")
            return
        except httpx.TransportError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("ansible-rulebook does not listen") from None
            time.sleep(0.2)


def _one(site: "Site", port: int, limit_s: float = 60) -> float:
    began = time.time()
    httpx.post(f"http://127.0.0.1:{port}/endpoint", json={"status": "firing"}).raise_for_status()
    return site.wait_first(began, limit_s, "no playbook ran")
