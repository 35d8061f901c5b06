"""The check before a launch on real hosts with their own addresses: open, one direction closed, port taken, NICs."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runbooks.core.fleet import Fleet, Node
from runbooks.core.launch_config import Launch
from runbooks.core.verdict import Diagnosis
from runbooks.launch.diagnose import Limits, diagnose
from tasks.context import Context
from tasks.launch.read import gather_distributed_setup
from tests.support.namespaces import SUBNET, NamespaceHost, ip, namespaces
from tests.support.need import need_program

LIMITS = Limits(clock_skew_s=10, memlock_bytes=1 << 30)


@pytest.fixture
def hosts() -> Iterator[list[NamespaceHost]]:
    with namespaces(2) as made:
        yield made


def check(hosts: list[NamespaceHost], **more: Any) -> Diagnosis:
    by_name = {h.name: h for h in hosts}
    nodes = tuple(Node(name=h.name, host=f"{SUBNET}.{i}") for i, h in enumerate(hosts, 1))
    launch = Launch.model_validate({"name": "train", "nodes": tuple(by_name), "shm_gb": 0} | more)
    fleet = Fleet(nodes=nodes, launches=(launch,))
    context = Context(fleet=fleet, target="train", open_host=lambda n: by_name[n.name])
    return diagnose(gather_distributed_setup(context), LIMITS)


def slugs(d: Diagnosis) -> list[str]:
    return [c.slug for c in d.causes]


def test_two_nodes_reach_each_other(hosts: list[NamespaceHost], tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    config.write_text("training:\n  lr: 1e-4\n")
    d = check(hosts, config=str(config))
    assert slugs(d) == ["yaml-exponent-text"], d
    assert d.do_now == (f"{config}:2:7:   lr: 1.0e-4",)


def test_one_direction_closed(hosts: list[NamespaceHost]) -> None:
    need_program("iptables", "iptables")
    rule = ["iptables", "-A", "INPUT", "-p", "tcp", "--dport", "29500", "-j", "DROP"]
    subprocess.run(["ip", "netns", "exec", hosts[1].namespace, *rule], check=True)
    d = check(hosts)
    assert slugs(d) == ["peer-unreachable"], d
    assert d.causes[0].evidence[0].startswith("n1 -> n2")


def test_port_taken_and_its_holder_is_named(hosts: list[NamespaceHost]) -> None:
    code = "import socket,time; s=socket.socket(); s.bind(('0.0.0.0',29500)); s.listen(); print(flush=True); time.sleep(60)"
    holder = subprocess.Popen(["ip", "netns", "exec", hosts[0].namespace, sys.executable, "-c", code], stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline()
        d = check(hosts)
        assert slugs(d) == ["port-taken"], d
        assert f"pid {holder.pid}" in d.causes[0].evidence[0]
    finally:
        holder.kill()
        holder.wait()


def test_interfaces(hosts: list[NamespaceHost]) -> None:
    """A second interface in the same network, and a name that does not exist."""
    ip("-n", hosts[0].namespace, "link", "add", "eth1", "type", "veth", "peer", "name", "eth9")
    ip("-n", hosts[0].namespace, "addr", "add", f"{SUBNET}.77/24", "dev", "eth1")
    ip("-n", hosts[0].namespace, "link", "set", "eth9", "up")
    ip("-n", hosts[0].namespace, "link", "set", "eth1", "up")
    d = check(hosts, env={"NCCL_SOCKET_IFNAME": "=ens3"})
    assert sorted(slugs(d)) == ["no-interface", "no-interface", "two-nics-one-subnet"], d
