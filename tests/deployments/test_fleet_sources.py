"""What other tools know of the machines becomes a fleet file that checks; what is left out is told."""

import json
from pathlib import Path

import pytest

from deployments.cli.fleet_import import made_from
from deployments.cli.imported import Imported
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
ANSIBLE_NESTED = """
; the outer group stands before the inner one
[outer:vars]
ansible_ssh_user=outer
ansible_become=yes
[inner:vars]
ansible_ssh_user=inner
[all:vars]
ansible_ssh_user=everybody
[outer:children]
inner
[inner]
[1:3].example
n1 ansible_ssh_host=10.1.1.1 ansible_ssh_port=2201 ansible_private_key_file=/keys/n1 ansible_ssh_common_args='-o ProxyJump=b'
n[1:5:2].odd:2202
n2 ansible_host=10.1.1.2 ansible_ssh_host=10.1.1.3 ansible_port=\u00b2 ansible_connection=winrm
[outer]
n3 # no user of its own
[outer:hostz]
n4
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
ANSIBLE_VAULTED = """
all:
  vars:
    ansible_become_password: !vault |
      $ANSIBLE_VAULT;1.1;AES256
      63616e617279canary
    db_password: !vault-encrypted canary
  hosts:
    n1:
      ansible_host: 10.2.0.1
      ansible_user: !vault |
          $ANSIBLE_VAULT;1.2;AES256;prod
          canary
    n2: {ansible_host: !unsafe 10.2.0.2, ansible_port: 2022}
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
    "ansible nested": (
        "ansible",
        ANSIBLE_NESTED,
        [
            *((f"{i}.example", f"{i}.example", 22, "inner", None) for i in (1, 2, 3)),
            ("n1", "10.1.1.1", 2201, "inner", None),
            *((f"n{i}.odd", f"n{i}.odd", 2202, "inner", None) for i in (1, 3, 5)),
            ("n2", "10.1.1.3", 22, "inner", None),
            ("n3", "n3", 22, "outer", None),
        ],
        (
            "ansible_become left out: a node of the fleet file has no such setting (1.example, 2.example, 3.example, n1, n1.odd and "
            "4 more)",
            "ansible_ssh_common_args left out: if it names a jump host, write that as `jump` (n1)",
            "ansible_host left out: ansible_ssh_host goes before it (n2)",
            "ansible_connection left out: nodes are reached by SSH (n2)",
            "n2: port '²' is not a port; 22 is assumed",
            "line 19: [outer:hostz] left out",
        ),
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
    "ansible vaulted": (
        "ansible",
        ANSIBLE_VAULTED,
        [("n1", "10.2.0.1", 22, None, None), ("n2", "10.2.0.2", 2022, None, None)],
        (
            "ansible_become_password left out: it is encrypted with Ansible Vault (n1, n2)",
            "db_password left out: it is encrypted with Ansible Vault (n1, n2)",
            "ansible_user left out: it is encrypted with Ansible Vault (n1)",
        ),
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


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("$ANSIBLE_VAULT;1.1;AES256\n6361\n", "encrypted with Ansible Vault; import what `ansible-vault view FILE` prints"),
        ("all:\n  hosts: !vault x\n", "all.hosts: expected a mapping, found Vaulted"),
        ("all:\n  hosts: {n: {ansible_user: !env HOME}}\n", "could not determine a constructor for the tag '!env'"),
    ],
)
def test_what_is_encrypted_or_tagged_where_hosts_are_expected(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text(text)
    with pytest.raises(CommandError) as refused:
        made_from("ansible", tmp_path / "file")
    assert said in str(refused.value)


def test_an_outer_group_of_a_yaml_inventory_reaches_a_group_that_stands_elsewhere(tmp_path: Path) -> None:
    text = "all:\n  children:\n    outer: {vars: {ansible_user: outer}, children: {inner: }}\ninner: {hosts: h, strange: 1}\n"
    (tmp_path / "file").write_text(text)
    made = made_from("ansible", tmp_path / "file")
    assert parse_yaml(made, Fleet, "made").node("h").user == "outer"
    assert "inner: strange left out: a group has hosts, vars and children" in made


NOT_ANSIBLE = {
    "all: {hosts: [a, b]}": "all.hosts: expected a mapping, found a list; write each name on a line of its own",
    "all:\n  vars: [1]": "all.vars: expected a mapping, found a list; write `NAME: VALUE` lines",
    "all:\n  hosts: {a: text}": "all.hosts.a: expected a mapping, found text; write its variables",
    "all:\n  children: [x]": "all.children: expected a mapping, found a list",
    "all:\n  children: {x: 3}": "all.children.x: expected a mapping, found int; write `hosts:`",
    "---\n- a": "the file: expected a mapping, found a list; it starts with a group",
    "all:\n  vars: {x: 2024-13-45}": "line 2, column 13: '2024-13-45' is no date",
    "all:\n  vars: " + "[" * 3000: "nest",
    "all:\n  hosts: {a: {}, a: {}}": "'a' is given twice",
    "all:\n  hosts: {'a[1:99999][1:99999]': }": "more than 20000 machines; is a range mistyped?",
    "[a:children]\nb\n[b:children]\na\n[a]\nx": "contains itself",
}


@pytest.mark.parametrize("text", NOT_ANSIBLE)
def test_an_inventory_that_ansible_refuses_is_refused_with_the_place_and_the_fix(tmp_path: Path, text: str) -> None:
    (tmp_path / "file").write_text(text)
    with pytest.raises(CommandError) as e:
        made_from("ansible", tmp_path / "file")
    assert str(e.value).startswith("not an Ansible inventory: ")
    assert NOT_ANSIBLE[text] in str(e.value)


def test_numbers_in_other_digits_and_numbers_without_end_are_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_text(f"NodeName=a Gres=gpu:{'9' * 5000}\nNodeName=b Gres=gpu:h100:\u0664\nNodeName=c Gres=gpu:2,gpu:1\n")
    assert [n.gpus for n in parse_yaml(made_from("slurm", tmp_path / "file"), Fleet, "made").nodes] == [None, None, 3]


def test_thousands_of_one_name_are_told_apart() -> None:
    found = Imported()
    for _ in range(10_100):
        found.add("a", {"host": "a"})
    assert len({n["name"] for n in found.nodes}) == 10_100


def test_a_line_of_a_terminals_codes_hides_no_other(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("10.0.0.1 a\n\x1b[2Jx y\x07\n")
    made = made_from("etc-hosts", tmp_path / "file")
    assert "line 2 left out: x is no address" in made
