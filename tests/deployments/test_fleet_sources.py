"""What other tools know of the machines becomes a fleet file that checks; what is left out is told."""

import json
from pathlib import Path

import pytest

from deployments.cli.fleet_import import made_from
from deployments.errors import CommandError
from runbooks.core.config import parse_yaml
from runbooks.core.fleet import Fleet

LIST = """
# the lab
gpu-1.example
ops@10.0.0.2:2222   # behind the firewall
login root@10.0.0.3
root@[2001:db8::1]:2022
one two three
a host with spaces
"""
ETC_HOSTS = """127.0.0.1 localhost
::1 localhost ip6-localhost
ff02::1 ip6-allnodes
10.0.0.7 gpu-7.example gpu-7 # the new one
nonsense here
2001:db8::9\tgpu-9
10.0.0.8
"""
ANSIBLE_INI = """
lonely ansible_host=10.1.0.9
[gpu]
gpu[01:03].example ansible_port=2200
gpu-x ansible_host=10.1.0.1 ansible_user="{{ who }}" ansible_password=canary
[gpu:vars]
ansible_user=ops
ansible_ssh_private_key_file=~/.ssh/gpu
[all_of:children]
gpu
[all_of:vars]
ansible_port=22
"""
ANSIBLE_YAML = """
all:
  hosts:
    bastion.example: {}
  children:
    gpu:
      vars: {ansible_user: ops}
      hosts:
        n[a:c]: {ansible_port: 2022}
        n-d: {ansible_host: 10.2.0.4, ansible_user: root}
"""
SLURM = """NodeName=hgx-01 Arch=x86_64 CoresPerSocket=56
   CPUAlloc=0 CPUTot=224 CPULoad=0.54
   Gres=gpu:h100:8(S:0-1)
   NodeAddr=10.3.0.1 NodeHostName=hgx-01 Version=23.11.4
   State=IDLE ThreadsPerCore=2 TmpDisk=0
   Reason=none

NodeName=hgx-02 Arch=x86_64 Gres=gpu:8 NodeAddr=hgx-02 State=DOWN+DRAIN+NOT_RESPONDING Reason=xid 79 [root@2026-11-01T00:00:00]
NodeName=login-1 Gres=(null) NodeAddr=login-1 State=IDLE
"""
KUBERNETES = {
    "apiVersion": "v1",
    "kind": "List",
    "items": [
        {
            "metadata": {"name": "gpu-a", "labels": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}},
            "spec": {},
            "status": {
                "addresses": [{"type": "Hostname", "address": "gpu-a"}, {"type": "InternalIP", "address": "10.4.0.1"}],
                "capacity": {"nvidia.com/gpu": "8", "cpu": "96"},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        },
        {
            "metadata": {"name": "gpu-b"},
            "spec": {"unschedulable": True},
            "status": {
                "addresses": [{"type": "Hostname", "address": "gpu-b"}],
                "conditions": [{"type": "Ready", "status": "Unknown"}],
            },
        },
    ],
}

Want = list[tuple[str, str, int, str | None, int | None]]
CASES: dict[str, tuple[str, str, Want, tuple[str, ...]]] = {
    "list": (
        "list",
        LIST,
        [
            ("gpu-1.example", "gpu-1.example", 22, None, None),
            ("10.0.0.2", "10.0.0.2", 2222, "ops", None),
            ("login", "10.0.0.3", 22, "root", None),
            ("2001-db8-1", "2001:db8::1", 2022, "root", None),
        ],
        ("line 7 left out", "line 8 left out"),
    ),
    "etc-hosts": (
        "etc-hosts",
        ETC_HOSTS,
        [("gpu-7.example", "10.0.0.7", 22, None, None), ("gpu-9", "2001:db8::9", 22, None, None)],
        ("line 1 left out: 127.0.0.1 localhost", "line 5 left out: nonsense is no address", "line 7 left out"),
    ),
    "ansible ini": (
        "ansible",
        ANSIBLE_INI,
        [
            ("lonely", "10.1.0.9", 22, None, None),
            *((f"gpu0{i}.example", f"gpu0{i}.example", 2200, "ops", None) for i in (1, 2, 3)),
            ("gpu-x", "10.1.0.1", 22, None, None),
        ],
        ("ansible_user left out: it is computed", "ansible_password left out", "host_vars are in other files"),
    ),
    "ansible yaml": (
        "ansible",
        ANSIBLE_YAML,
        [
            ("bastion.example", "bastion.example", 22, None, None),
            *((f"n{c}", f"n{c}", 2022, "ops", None) for c in "abc"),
            ("n-d", "10.2.0.4", 22, "root", None),
        ],
        (),
    ),
    "slurm": (
        "slurm",
        SLURM,
        [
            ("hgx-01", "10.3.0.1", 22, None, 8),
            ("hgx-02", "hgx-02", 22, None, 8),
            ("login-1", "login-1", 22, None, None),
        ],
        ("hgx-02: DOWN+DRAIN+NOT_RESPONDING in Slurm",),
    ),
    "kubernetes": (
        "kubernetes",
        json.dumps(KUBERNETES),
        [("gpu-a", "10.4.0.1", 22, None, 8), ("gpu-b", "gpu-b", 22, None, None)],
        ("gpu-b: not ready in Kubernetes", "users and keys for SSH are not in Kubernetes"),
    ),
}


@pytest.mark.parametrize(("source", "text", "want", "told"), CASES.values(), ids=CASES)
def test_source(tmp_path: Path, source: str, text: str, want: Want, told: tuple[str, ...]) -> None:
    path = tmp_path / "file"
    path.write_text(text)
    made = made_from(source, path)
    fleet = parse_yaml(made, Fleet, "made")
    assert [(n.name, n.host, n.port, n.user, n.gpus) for n in fleet.nodes] == want
    remarks = made.partition("name: imported")[0]
    assert [words for words in told if words not in remarks] == []
    assert "canary" not in made


def test_shared_variables_reach_the_hosts_of_the_group(tmp_path: Path) -> None:
    (tmp_path / "file").write_text(ANSIBLE_INI)
    node = parse_yaml(made_from("ansible", tmp_path / "file"), Fleet, "made").node("gpu02.example")
    assert node.key is not None
    assert node.key.file == "~/.ssh/gpu"


@pytest.mark.parametrize("source", ["list", "etc-hosts", "ansible", "slurm", "kubernetes"])
@pytest.mark.parametrize("text", ["", "\n\n", "{", "[]", "a: [1", "\x00\x01", '{"items": [1]}', "[a\n", "NodeName="])
def test_nonsense_is_an_error_in_words(tmp_path: Path, source: str, text: str) -> None:
    (tmp_path / "file").write_text(text)
    with pytest.raises(CommandError, match=r"no host found|not the output of|not an Ansible"):
        made_from(source, tmp_path / "file")
