"""The first look at a node: whether it can be entered, and the systems that are asked from it: Ray's dashboard and rendezvous endpoints."""

import re
from collections.abc import Iterator, Sequence
from functools import partial

from runbooks.core.fleet import Fleet
from runbooks.core.nightly import SystemCheck
from runbooks.core.node_basics import NodeBasics, remarks
from runbooks.core.node_tools import Wanted
from runbooks.core.ray_config import RayCluster
from runbooks.core.reading import Absent, Known, Unknown
from runbooks.core.rendezvous_config import Rendezvous
from runbooks.parsers.ray import parse_ray_version
from tasks.clients.ray_dashboard import get
from tasks.context import Context
from tasks.remote.node_basics import read_basics
from tasks.rendezvous.etcd import ask_etcd, parse_facts
from tasks.systems.trying import SILENT, Later, Try, begin_all, check_of, not_tried
from tasks.transport.base import Host

KNOCK = """import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=5).close()
    print("open")
except socket.gaierror as e:
    print("unresolved", e.strerror)
except ConnectionRefusedError:
    print("refused")
except OSError as e:
    print("silent", e.strerror or e)
"""
C10D_PORT = "29400"  # torchrun's own where an endpoint names none


def begin_node(fleet: Fleet, name: str, host: Host, tools: Sequence[Wanted] = ()) -> tuple[NodeBasics, Later]:
    """The node itself, with those of `tools` that it lacks. What is asked from it is begun over the same connection, which stays open until
    it has ended. Never raises."""
    look, tries = read_basics(host, tools), list(_tries(fleet, name, host))
    if look.shut:
        return look, partial(not_tried, tries, f"it is asked from {name}, which cannot be entered", remarks(look)[0].fix)
    return look, begin_all(tries)


def _tries(fleet: Fleet, name: str, host: Host) -> Iterator[Try]:
    context = Context(fleet=fleet, target=name, open_host=lambda _: host)
    if fleet.ray and fleet.ray.head == name:
        fix = f"see that Ray's head runs on {name}, or correct ray.dashboard in the fleet file"
        yield Try("ray", fleet.ray.dashboard, partial(_dashboard, context, host, fleet.ray, fix), fix)
    for place in fleet.rendezvous:
        for endpoint in place.endpoints if place.asks == name else ():
            title, fix = f"rendezvous {place.name}", f"gpu-runbooks run stale-rendezvous {place.name} names the cause"
            one = place.model_copy(update={"endpoints": (endpoint,)})
            etcd, knock = partial(_etcd, context, host, title, one, fix), partial(_knocked, host, title, endpoint, fix)
            yield Try(title, endpoint, etcd if endpoint.startswith(("http://", "https://")) else knock, fix)


def _dashboard(context: Context, host: Host, ray: RayCluster, fix: str) -> Iterator[SystemCheck]:
    found = get(context, host, f"{ray.dashboard.rstrip('/')}/api/version", parse_ray_version)
    if isinstance(found, Known):
        yield check_of("ray", "ok", f"its dashboard on {host.name} answers; Ray {found.value}")
    else:
        yield _fault("ray", f"its dashboard on {host.name}", found, fix)


def _etcd(context: Context, host: Host, title: str, place: Rendezvous, fix: str) -> Iterator[SystemCheck]:
    where = f"{place.etcd_endpoint}, asked from {host.name}"
    found = parse_facts(ask_etcd(host, place, health_only=True), place, context)
    if isinstance(found, Unknown):
        yield _fault(title, where, found, fix)
        return
    etcd = found.value
    alarms = f"alarms {', '.join(etcd.alarms.value)}" if isinstance(etcd.alarms, Known) and etcd.alarms.value else ""
    if not etcd.healthy or alarms:
        yield check_of(title, "FAULT", f"{where}: {alarms or f'not healthy: {etcd.health}'}", fix)
    elif isinstance(etcd.alarms, Unknown):
        yield check_of(title, "note", f"{where}: says that it is healthy; its alarms could not be read: {etcd.alarms.why}")
    else:
        yield check_of(title, "ok", f"{where}: healthy; etcd {etcd.version}")


def _knocked(host: Host, title: str, endpoint: str, fix: str) -> Iterator[SystemCheck]:
    """A c10d store is there only while a job runs: that nobody listens is no fault, that its host is not found is one."""
    name, _, port = endpoint.rpartition(":") if re.search(r":\d+$", endpoint) else (endpoint, "", C10D_PORT)
    where = f"{name}:{port}, asked from {host.name}"
    done = host.run(("python3", "-c", KNOCK, name.strip("[]"), port), timeout_s=15)
    word, _, why = done.out.strip().partition(" ")
    if word == "open":
        yield check_of(title, "ok", f"{where}: accepts connections")
    elif word == "refused":
        yield check_of(title, "note", f"{where}: nobody listens; a c10d store is there only while a job runs")
    elif word == "unresolved":
        correct = "correct the name, or that node's resolver"
        yield check_of(title, "FAULT", f"{where}: the name cannot be resolved there: {why}", correct, silent=True)
    else:
        yield check_of(title, "FAULT", f"{where}: {why or done.err.strip()[-200:] or 'no answer'}", fix, silent=word == "silent")


def _fault(title: str, where: str, why: Unknown | Absent, fix: str) -> SystemCheck:
    said = why.why if isinstance(why, Unknown) else why.proof
    return check_of(title, "FAULT", f"{where}: {said}", fix, silent=isinstance(why, Unknown) and why.reason in SILENT)
