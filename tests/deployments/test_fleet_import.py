"""ssh configs and hosts YAMLs become fleet files that pass the check; what is lost is told."""

from pathlib import Path

import pytest

from deployments.cli.fleet_import import from_hosts_yaml, from_ssh_config
from deployments.errors import CommandError
from runbooks.core.config import parse_yaml
from runbooks.core.fleet import Fleet

SSH_CONFIG = """
Include conf.d/*.conf
Include nowhere
Host gpu-a gpu-b *.lab !x.lab
  HostName %h.example.org
  Port 2222
  User ops
  IdentityFile ~/.ssh/ops
  IdentityFile ~/.ssh/other
Host gpu-b
  ProxyJump me@bastion:2022
Host bastion
  HostName 203.0.113.9
  IdentityFile /keys/bastion
Host odd
  ProxyCommand nc %h %p
Host "quoted name" loose
  HostName=10.0.0.3
  StrictHostKeyChecking no
  UserKnownHostsFile /dev/null
Match host gpu-a exec "true"
  User evil
Host *
  User everyone
"""

HOSTS_YAML = """
hosts:
  gpu-1:
    ssh_host: 10.0.0.1
    ssh_port: 2201
    ssh_user: ubuntu
    ssh_key: ~/.ssh/cluster
    role: selfplay
    p2p_port: 8770
  gpu-2: {ssh_host: ubuntu@10.0.0.2:2202, status: offline}
  gpu-3: {tailscale_ip: 100.64.0.3, ssh_port: "abc", password: canary}
  nothing: {role: none}
  short: ubuntu@10.0.0.4
  "bad name!": {host: 10.0.0.5, ssh_key: "-----BEGIN OPENSSH PRIVATE KEY-----\\ncanary"}
"""


def write(tmp_path: Path, text: str) -> Path:
    """The text as a file."""
    (tmp_path / "file").write_text(text)
    return tmp_path / "file"


def test_ssh_config(tmp_path: Path) -> None:
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "a.conf").write_text("Host included\n  HostName 10.0.0.9\n")
    text = from_ssh_config(write(tmp_path, SSH_CONFIG))
    fleet = parse_yaml(text, Fleet, "x")
    assert [n.name for n in fleet.nodes] == ["included", "gpu-a", "gpu-b", "bastion", "quoted", "name", "loose"]
    a, b = fleet.node("gpu-a"), fleet.node("gpu-b")
    assert (a.host, a.port, a.user) == ("gpu-a.example.org", 2222, "ops")
    assert a.key is not None
    assert str(a.key.file).endswith(".ssh/ops")
    assert b.jump is not None
    assert (b.jump.host, b.jump.port, b.jump.user) == ("203.0.113.9", 2022, "me")
    assert b.jump.key is not None
    assert b.jump.key.file == "/keys/bastion"
    assert fleet.node("included").user == "everyone"
    said = text.partition("name: imported")[0]
    for word in (
        "Match host gpu-a",
        "ProxyCommand",
        "nowhere",
        "*.lab",
        "IdentityFiles",
        "StrictHostKeyChecking",
        "/dev/null",
    ):
        assert word in said


def test_each_keyword_of_an_ssh_config_that_says_nothing_of_a_node_is_told_once(tmp_path: Path) -> None:
    text = "ForwardAgent yes\nCanonicalizeHostname yes\nHost a\n  forwardagent no\n  LocalForward 1 b:2\n  ProxyCommand none\n"
    text += "  Port \u00b2\n  UserKnownHostsFile /a /b\nHost b\n  ProxyJump u@j:\u0662\n  LocalForward 3 b:4\n"
    text += f"  SetEnv X={'x' * 1000}\n"
    made = from_ssh_config(write(tmp_path, text))
    said = made.partition("name: imported")[0]
    assert [n.name for n in parse_yaml(made, Fleet, "x").nodes] == ["a", "b"]
    for keyword in ("ForwardAgent", "CanonicalizeHostname", "LocalForward"):
        assert said.count(f"{keyword} left out: a node of the fleet file has no such setting") == 1
    assert "forwardagent" not in said
    ports = ("a: port '\u00b2' is not a port", "b: ProxyJump: port '\u0662' is not a port")
    for word in (*ports, "2 files in UserKnownHostsFile", "characters left out"):
        assert word in said


def test_includes_that_are_no_path(tmp_path: Path) -> None:
    made = from_ssh_config(write(tmp_path, 'Include "" / . ** ~nobody-here/x\nHost a\n'))
    assert "Include /: no such file" in made


def test_what_a_hosts_yaml_has_besides_hosts_is_told(tmp_path: Path) -> None:
    text = "version: 3\nhosts:\n- {name: a, ip: 10.0.0.1, ssh_user: [x], ssh_port: 0x1" + "0" * 30 + "}\n- text\n"
    with pytest.raises(CommandError, match="a number of more than 18 digits"):
        from_hosts_yaml(write(tmp_path, text))
    made = from_hosts_yaml(write(tmp_path, text.replace("0x1" + "0" * 30, "\u00b2")))
    for word in ("beside hosts, not read: version", "a: left out: ssh_user is a list", "entry 2: left out", "port '\u00b2'"):
        assert word in made
    assert "from_hosts: left out" in from_hosts_yaml(write(tmp_path, "from_hosts: 3\nb: {ip: 10.0.0.2}\n"))


def test_hosts_yaml(tmp_path: Path) -> None:
    text = from_hosts_yaml(write(tmp_path, HOSTS_YAML))
    fleet = parse_yaml(text, Fleet, "x")
    one, two = fleet.node("gpu-1"), fleet.node("gpu-2")
    assert (one.host, one.port, one.user, one.labels) == ("10.0.0.1", 2201, "ubuntu", {"role": "selfplay"})
    assert one.key is not None
    assert one.key.file == "~/.ssh/cluster"
    assert (two.host, two.port, two.user, two.hands_off) == ("10.0.0.2", 2202, "ubuntu", True)
    assert (fleet.node("gpu-3").host, fleet.node("gpu-3").port) == ("100.64.0.3", 22)
    assert fleet.node("short").host == "10.0.0.4"
    assert fleet.node("bad-name").key is None
    assert "canary" not in text
    for word in ("p2p_port", "nothing", "'abc'", "password", "private key"):
        assert word in text


@pytest.mark.parametrize(
    "text", ["- {ip: 10.0.0.1, name: a}\n- {ip: 10.0.0.2, name: a}\n", "a: {ip: 10.0.0.1}\na.: {ip: 10.0.0.2}\n"]
)
def test_lists_and_names_that_become_alike(tmp_path: Path, text: str) -> None:
    fleet = parse_yaml(from_hosts_yaml(write(tmp_path, text)), Fleet, "x")
    assert [n.name for n in fleet.nodes] == ["a", "a-2"]


@pytest.mark.parametrize("text", ["", "just text", "[1, 2]", "a: [", "hosts: {}", "a: {ssh_host: '-oProxyCommand=x'}"])
def test_files_that_are_none(tmp_path: Path, text: str) -> None:
    with pytest.raises(CommandError):
        from_hosts_yaml(write(tmp_path, text))


def test_ssh_configs_that_give_nothing(tmp_path: Path) -> None:
    for text in ("", "Host *\n  User x\n", "\0\1", "Include file\n"):
        with pytest.raises(CommandError):
            from_ssh_config(write(tmp_path, text))
    with pytest.raises(CommandError):
        from_ssh_config(tmp_path / "absent")
