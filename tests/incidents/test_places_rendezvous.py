"""Stores that nobody hosts, that a proxy cuts off, that are shared or gone, rebuilt: hosts with their own addresses, real processes and
sockets, read by the product's probes."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import pytest

from runbooks.core.fleet import Fleet, Node
from runbooks.core.knowledge import load_runbook
from runbooks.core.launch_config import Launch
from runbooks.core.rendezvous_config import Rendezvous
from runbooks.core.verdict import Certainty, Diagnosis, State
from runbooks.launch.diagnose import Limits as LaunchLimits
from runbooks.launch.diagnose import diagnose as judge_launch
from runbooks.rendezvous.diagnose import Limits, diagnose
from tasks.context import Context
from tasks.launch.read import gather_distributed_setup
from tasks.rendezvous.read import gather_stale_rendezvous
from tests.support.namespaces import SUBNET, NamespaceHost, ip, namespaces
from tests.support.need import need_program
from tests.support.said_up import said_up

LIMITS = Limits(**load_runbook("stale-rendezvous").limit_values())
LAUNCH_LIMITS = LaunchLimits(**load_runbook("distributed-setup").limit_values())
PORT = 29511
AGENT = """\
import os, socket, sys
if os.environ.get("STORE"):
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(("0.0.0.0", {port}))
    s.listen()
print("up", flush=True)
sys.stdin.read()
"""
PROXY = """\
import socket, sys, threading
def serve(port):
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(("0.0.0.0", port))
    s.listen()
    if port == 15001:
        print("up", flush=True)
    while True:
        s.accept()[0].close()
for port in (15006, 15001):
    threading.Thread(target=serve, args=(port,), daemon=True).start()
sys.stdin.read()
"""


@pytest.fixture
def hosts() -> Iterator[list[NamespaceHost]]:
    with namespaces(2) as made:
        yield made


def running(host: NamespaceHost, argv: list[str]) -> AbstractContextManager[int]:
    """A program on that host, from the moment that it is ready."""
    return said_up(["ip", "netns", "exec", host.namespace, *argv])


def agent(host: NamespaceHost, folder: Path, endpoint: str, more: str = "", run: str = "job1", script: str = "train.py") -> Any:
    """A torchrun of two nodes, as far as its process and its sockets tell."""
    program = folder / "torchrun"
    program.write_text(AGENT.format(port=PORT))
    words = ["--nnodes=2", "--rdzv-backend=c10d", f"--rdzv-endpoint={endpoint}", f"--rdzv-id={run}"]
    conf = [w for w in more.split() if w.startswith("--")]
    return running(host, ["env", f"STORE={'1' if 'listen' in more else ''}", sys.executable, str(program), *words, *conf, script])


def look(hosts: list[NamespaceHost], endpoint: str) -> Diagnosis:
    by_name = {h.name: h for h in hosts}
    nodes = tuple(Node(name=h.name, host=f"{SUBNET}.{i}") for i, h in enumerate(hosts, 1))
    place = Rendezvous(name="t", backends=("c10d",), endpoints=(endpoint,), nodes=tuple(by_name), port=PORT, contained=True)
    fleet = Fleet(nodes=nodes, rendezvous=(place,))
    context = Context(fleet=fleet, target="t", open_host=lambda n: by_name[n.name])
    seen = gather_stale_rendezvous(context)
    seen = only_this_test(type(seen).model_validate_json(seen.model_dump_json()), hosts)
    return diagnose(seen, LIMITS)


def only_this_test(seen: Any, hosts: list[NamespaceHost]) -> Any:
    """Processes are this machine's: each host keeps those of its own network, as on a machine of its own."""
    views = []
    for view, host in zip(seen.nodes, hosts, strict=True):
        shown = subprocess.run(["ip", "netns", "pids", host.namespace], capture_output=True, text=True, check=True)
        mine = {int(p) for p in shown.stdout.split()}
        facts = view.facts.value
        kept = {k: tuple(x for x in getattr(facts, k) if x.pid in mine) for k in ("agents", "workers")}
        own = facts.model_copy(update=kept | {"boot_id": host.name})
        views.append(view.model_copy(update={"facts": view.facts.model_copy(update={"value": own})}))
    return seen.model_copy(update={"nodes": tuple(views)})


def slugs(d: Diagnosis) -> list[tuple[str, Certainty]]:
    return [(c.slug, c.certainty) for c in d.causes if not c.benign]


@pytest.mark.incident("RZ06", came="right", fed="readers", known=True)
def test_nobody_takes_itself_for_the_host(hosts: list[NamespaceHost], tmp_path: Path) -> None:
    end = f"{SUBNET}.1:{PORT}"
    with agent(hosts[0], tmp_path, end), agent(hosts[1], tmp_path, end):
        d = look(hosts, end)
    assert slugs(d) == [("store-never-hosted", Certainty.CONFIRMED)]
    said = " ".join(d.causes[0].evidence)
    assert f"{socket.gethostname()} resolves to" in said
    assert any("own host name" in x and "is_host=1" in x for x in d.do_now)
    assert not any("lives" in x and "restart the whole group" in x for x in d.do_now)
    assert not d.plans


@pytest.mark.parametrize("more", ["--rdzv-conf=is_host=1 listen", "listen"])
@pytest.mark.incident("RZ06", came="right", fed="readers", known=True, twin="the store is open")
def test_the_store_is_open(hosts: list[NamespaceHost], tmp_path: Path, more: str) -> None:
    end = f"{SUBNET}.1:{PORT}"
    with agent(hosts[0], tmp_path, end, more), agent(hosts[1], tmp_path, end):
        assert slugs(look(hosts, end)) == []


@pytest.mark.incident("RZ06", came="open", fed="readers", known=True, twin="told to be the host, and nothing listens")
def test_a_host_that_does_not_listen(hosts: list[NamespaceHost], tmp_path: Path) -> None:
    end = f"{SUBNET}.1:{PORT}"
    with agent(hosts[0], tmp_path, end, "--rdzv-conf=is_host=1"), agent(hosts[1], tmp_path, end):
        d = look(hosts, end)
    assert slugs(d) == [("store-host-died", Certainty.POSSIBLE)]
    assert d.state is State.CANNOT_TELL


@pytest.mark.incident("RZ05", came="right", fed="readers", known=True)
def test_the_store_host_is_gone(hosts: list[NamespaceHost], tmp_path: Path) -> None:
    """RZ06's tempting answer made true: no agent lives on the endpoint's machine."""
    end = f"{SUBNET}.1:{PORT}"
    with agent(hosts[1], tmp_path, end):
        d = look(hosts, end)
    assert slugs(d) == [("store-host-died", Certainty.CONFIRMED)]


@pytest.mark.incident("RZ08", came="right", fed="readers", known=True)
def test_several_jobs_in_one_store(hosts: list[NamespaceHost], tmp_path: Path) -> None:
    end = f"{SUBNET}.1:{PORT}"
    with agent(hosts[0], tmp_path, end, "listen", "a", "a.py"), agent(hosts[0], tmp_path, end, "", "b", "b.py"):
        assert slugs(look(hosts, end)) == [("store-shared", Certainty.LIKELY)]


def redirect(host: NamespaceHost, stack: ExitStack) -> None:
    """What a mesh does in a pod: what comes to any port goes to its proxy, which here lets nothing through."""
    need_program("iptables", "iptables")
    rule = ["iptables", "-t", "nat", "-A", "PREROUTING", "-p", "tcp", "--dport", str(PORT), "-j", "REDIRECT", "--to-ports", "15006"]
    subprocess.run(["ip", "netns", "exec", host.namespace, *rule], check=True)
    stack.enter_context(running(host, [sys.executable, "-c", PROXY]))


def check_launch(hosts: list[NamespaceHost]) -> Diagnosis:
    by_name = {h.name: h for h in hosts}
    nodes = tuple(Node(name=h.name, host=f"{SUBNET}.{i}") for i, h in enumerate(hosts, 1))
    launch = Launch(name="train", nodes=tuple(by_name), shm_gb=0, port=PORT)
    context = Context(fleet=Fleet(nodes=nodes, launches=(launch,)), target="train", open_host=lambda n: by_name[n.name])
    return judge_launch(gather_distributed_setup(context), LAUNCH_LIMITS)


@pytest.mark.incident("T2-05", came="right", fed="readers", known=True)
def test_a_proxy_takes_the_connection_before_the_launch(hosts: list[NamespaceHost]) -> None:
    with ExitStack() as stack:
        redirect(hosts[0], stack)
        d = check_launch(hosts)
    assert slugs(d) == [("proxy-closes", Certainty.CONFIRMED)]
    assert any("n2 -> n1" in x and "closed without a byte" in x for x in d.causes[0].evidence)
    assert any("istio" in x for x in d.causes[0].evidence)
    assert any("whole namespace" in x for x in d.must_not)


@pytest.mark.incident("T2-05", came="right", fed="readers", known=True, twin="no proxy; a proxy that lets it through")
def test_the_way_is_free(hosts: list[NamespaceHost]) -> None:
    assert slugs(check_launch(hosts)) == []
    with running(hosts[0], [sys.executable, "-c", PROXY]):
        assert slugs(check_launch(hosts)) == []


@pytest.mark.incident("T2-05", came="right", fed="readers", known=True)
def test_a_proxy_takes_the_connection_of_a_job(hosts: list[NamespaceHost], tmp_path: Path) -> None:
    end = f"{SUBNET}.1:{PORT}"
    with ExitStack() as stack:
        redirect(hosts[0], stack)
        stack.enter_context(agent(hosts[0], tmp_path, end, "listen"))
        stack.enter_context(agent(hosts[1], tmp_path, end))
        d = look(hosts, end)
    assert slugs(d) == [("proxy-closes", Certainty.CONFIRMED)]
    assert any(x.startswith("n2 -> ") for x in d.causes[0].evidence)
    assert not d.plans


@pytest.mark.incident("T2-05", came="right", fed="readers", known=True, twin="a firewall before one node; the store answers the other")
def test_each_nodes_own_way_counts(hosts: list[NamespaceHost], tmp_path: Path) -> None:
    need_program("iptables", "iptables")
    end = f"{SUBNET}.1:{PORT}"
    rule = ["iptables", "-A", "OUTPUT", "-p", "tcp", "--dport", str(PORT), "-j", "DROP"]
    subprocess.run(["ip", "netns", "exec", hosts[1].namespace, *rule], check=True)
    with agent(hosts[0], tmp_path, end, "listen"), agent(hosts[1], tmp_path, end):
        d = look(hosts, end)
    assert slugs(d) == [("store-unreachable-from-node", Certainty.CONFIRMED)]
    assert "from n2" in d.causes[0].subject


def test_an_address_that_is_another_nodes(hosts: list[NamespaceHost]) -> None:
    """Both names lead to one machine: the connection works, and ends at the wrong place."""
    for n, host in enumerate(hosts, 1):
        ip("-n", host.namespace, "addr", "add", f"198.51.100.{n}/32", "dev", "lo")
    twice = [hosts[0], hosts[1]]
    by_name = {"n1": twice[0], "n2": twice[1], "n3": twice[1]}
    nodes = tuple(Node(name=n, host=f"{SUBNET}.{1 if n == 'n1' else 2}") for n in by_name)
    launch = Launch(name="train", nodes=tuple(by_name), shm_gb=0, port=PORT)
    context = Context(fleet=Fleet(nodes=nodes, launches=(launch,)), target="train", open_host=lambda n: by_name[n.name])
    d = judge_launch(gather_distributed_setup(context), LAUNCH_LIMITS)
    found = [x for c in d.causes if c.slug == "peer-unreachable" for x in c.evidence]
    assert any("answers as n" in x for x in found), d
