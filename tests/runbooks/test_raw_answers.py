"""Every recorded answer with one thing wrong at one place, through the reader and the judge: nothing raises, and nothing is guessed.

What is lost may make a reading unknown. It never adds a confirmed cause, and never makes healthy what was not."""

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest

from deployments.lab.fake_railway import FakeRailway
from deployments.lab.fake_runpod import FakeRunPod
from runbooks.container.evidence import Evidence as ContainerEvidence
from runbooks.container.parsers import docker
from runbooks.core.fleet import Fleet, Node
from runbooks.core.orchestrator_config import DatabaseConfig, Orchestrator, RailwayConfig
from runbooks.core.reading import Known, Unknown, UnknownReason
from runbooks.core.rendezvous_config import Rendezvous
from runbooks.core.verdict import Certainty, Diagnosis, State
from runbooks.parsers.nvidia_smi_xml import parse_smi_xml
from runbooks.parsers.ray import parse_nodes, parse_ray_version
from runbooks.parsers.runpod import merge, parse_pod, parse_pods
from runbooks.parsers.runpod_stock import parse_stock, parse_volumes
from runbooks.ray.evidence import Evidence as JobEvidence
from runbooks.ray.parsers import ray_job
from runbooks.rendezvous.evidence import Reads
from runbooks.rendezvous.parsers.etcd_v2 import NotEtcd
from runbooks.spawning.evidence import PodRead
from runbooks.triage.text import judge_text
from tasks.clients.asked import asked
from tasks.clients.railway import DEPLOYMENTS, LOGS, SEALED, VARIABLES, RailwayClient
from tasks.clients.ray_dashboard import get
from tasks.clients.worker_rows import task_of, worker_of
from tasks.container.docker import ask
from tasks.context import Context
from tasks.remote.smi_reading import gpu_set
from tasks.rendezvous.etcd import parse_facts, parse_runs, unknown_keys
from tasks.spawning.railway import read_railway
from tasks.transport.base import CommandResult, TransportError
from tasks.transport.local import LocalHost
from tests.runbooks.container import test_situations as containers
from tests.runbooks.every import Situation, situations
from tests.runbooks.gpu import build as zombies
from tests.runbooks.gpu.test_recordings import text as h100
from tests.runbooks.ray import test_situations as jobs
from tests.runbooks.rendezvous import build as stale
from tests.runbooks.rendezvous.test_state_versions import STATES
from tests.runbooks.spawning import build as spawning
from tests.runbooks.test_recorded_answers import recordings
from tests.runbooks.test_recorded_versions import SMI
from tests.support.changed_answers import changed, changed_json, changed_text, changed_xml

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
PLACE = Rendezvous(name="e", endpoints=("http://etcd:2379",), nodes=("a",))
FLEET = Fleet(nodes=(Node(name="a", local=True),), rendezvous=(PLACE,))
CONTEXT = Context(fleet=FLEET, target="a", open_host=lambda n: LocalHost(n.name), now=lambda: NOW)
Judge = Callable[[Any], Diagnosis | None]


class World(NamedTuple):
    """An answer, every way to get it wrong, what reads it, and what judges the reading."""

    name: str
    answer: Any
    changes: Callable[[Any], Iterator[tuple[str, Any]]]
    read: Callable[[Any], Any]
    judge: Judge


class Printing:
    """A host on which every command prints the same."""

    name, notes = "a", ()

    def __init__(self, out: str) -> None:
        self.out = out

    def run(self, argv: Sequence[str], **_: Any) -> CommandResult:
        """It."""
        return CommandResult(command=" ".join(argv), exit=0, out=self.out, err="", seconds=0.1)

    def close(self) -> None:
        """Nothing is open."""


def _limits(runbook: str) -> dict[str, Any]:
    return next(s.limits for s in situations() if s.runbook == runbook)


def nobody(_: Any) -> None:
    """Judges nothing: no runbook has this reading alone."""


def _judge(runbook: str, evidence: Any, reading: Any, field: str) -> Diagnosis:
    changed_evidence = evidence.model_copy(update={field: reading})
    return Situation(runbook, "", changed_evidence, _limits(runbook)).judge(changed_evidence)


# --- container engines ---


def _one_container(text: str) -> Any:
    (found,) = docker.parse_inspect(text, str)
    return found


def _inspected(text: str) -> Any:
    return ask(CONTEXT, Printing(text), ("docker", "inspect"), _one_container)


def _dead(text: str) -> str:
    """The same container after the kernel killed it for memory."""
    (found,) = json.loads(text)
    ended = {"Status": "exited", "Running": False, "OOMKilled": True, "Pid": 0, "ExitCode": 137}
    return json.dumps([found | {"State": found["State"] | ended | {"FinishedAt": "2026-03-02T11:59:00.5Z"}}])


def _of_engine(parse: Callable[[str], Any], text: str) -> Any:
    return ask(CONTEXT, Printing(text), ("docker", "asked"), parse)


def _one_line(text: str) -> Iterator[tuple[str, str]]:
    """One object a line."""
    lines = text.splitlines()
    for i, line in enumerate(lines):
        for what, new in changed_json(line):
            yield f"{i}.{what}", "\n".join((*lines[:i], new, *lines[i + 1 :]))


def container_worlds() -> Iterator[World]:
    base = ContainerEvidence.model_validate(containers.BASE)
    judge, by_events = (partial(_judge, "container-death", base, field=f) for f in ("container", "events"))
    for r in recordings():
        if r.file == "docker_inspect.yaml":
            yield World(f"inspect, {r.version}", r.text, changed_json, _inspected, judge)
            yield World(f"inspect, {r.version}, killed", _dead(r.text), changed_json, _inspected, judge)
        elif r.file == "docker_events.yaml":
            yield World(f"events, {r.version}", r.text, _one_line, partial(_of_engine, docker.parse_events), by_events)
        elif r.file == "docker_df.yaml":
            yield World(f"df, {r.version}", r.text, _one_line, partial(_of_engine, docker.parse_df), nobody)
        elif r.file == "docker_version.yaml":
            yield World(f"version, {r.version}", r.text, changed_json, partial(_of_engine, docker.parse_version), nobody)


# --- Ray ---

LISTS: dict[str, tuple[str, Callable[[str], Any]]] = {  # file of recordings -> field of the evidence, parser
    "ray_nodes.yaml": ("nodes", parse_nodes),
    "ray_jobs.yaml": ("other_jobs", lambda t: ray_job.parse_jobs(t, str)),
    "ray_actors.yaml": ("actors", lambda t: ray_job.parse_actors(t, str)),
    "ray_groups.yaml": ("groups", ray_job.parse_groups),
    "ray_usage.yaml": ("usage", ray_job.parse_usage),
    "ray_logs.yaml": ("driver_log", lambda t: ray_job.parse_logs(t, str)),
}


def _got(parser: Callable[[str], Any], text: str) -> Any:
    return get(CONTEXT, Printing(f"{text}\n200"), "http://head:8265/x", parser)


def ray_worlds() -> Iterator[World]:
    base = JobEvidence.model_validate(jobs.BASE)
    version = {r.version for r in recordings() if r.file == "ray_usage.yaml"}
    for v in sorted(version):
        mine = {r.file: r.text for r in recordings() if r.version == v and r.file in LISTS}
        read = {LISTS[f][0]: _got(LISTS[f][1], t) for f, t in mine.items()}
        failed = next(j for j in read["other_jobs"].value if j.status == "FAILED")
        job = failed.model_copy(update={"message": failed.message.split(",")[0]})  # the log in it is the log that was read
        quiet = {"job": Known(value=job), "submission_id": job.submission_id, "driver_log": Known(value=())}
        whole = base.model_copy(update=read | quiet)
        for file, text in mine.items():
            field, parser = LISTS[file]
            yield World(f"{field}, Ray {v}", text, changed_json, partial(_got, parser), partial(_judge, "ray-job", whole, field=field))
    for r in recordings():
        if r.file in LISTS and r.version not in version:
            field, parser = LISTS[r.file]
            judge = partial(_judge, "ray-job", base, field=field)
            yield World(f"{field}, Ray {r.version}", r.text, changed_json, partial(_got, parser), judge)
        elif r.file == "ray_version.yaml":
            yield World(f"version, Ray {r.version}", r.text, changed_json, partial(_got, parse_ray_version), nobody)


# --- etcd ---


def _tree(root: str, **values: str) -> str:
    nodes = [{"key": f"{root}/{k}", "value": v, "modifiedIndex": i + 5, "createdIndex": i + 4, "ttl": 7000,
              "expiration": "2026-05-01T14:00:00Z"} for i, (k, v) in enumerate(values.items())]  # fmt: skip
    top = {"key": root, "dir": True, "nodes": nodes, "modifiedIndex": 3, "createdIndex": 3}
    return json.dumps({"action": "get", "node": top})


LEGACY = {"action": "get", "node": {"key": "/torchelastic/p2p", "dir": True, "modifiedIndex": 3, "createdIndex": 3, "nodes": [
    {"key": "/torchelastic/p2p/run_j", "dir": True, "ttl": 7000, "modifiedIndex": 4, "createdIndex": 4, "nodes": [
        {"key": "/torchelastic/p2p/run_j/rdzv", "dir": True, "modifiedIndex": 5, "createdIndex": 5, "nodes": [
            {"key": "/torchelastic/p2p/run_j/rdzv/active_version", "modifiedIndex": 6, "createdIndex": 6, "value": json.dumps(
                {"status": "frozen", "version": "1", "participants": [0, 1], "keep_alives": [], "num_workers_waiting": 0})},
            {"key": "/torchelastic/p2p/run_j/rdzv/v_1", "dir": True, "modifiedIndex": 7, "createdIndex": 7},
        ]}]}]}}  # fmt: skip
HEADER = {"cluster_id": "14841639068965178418", "member_id": "10276657743932975437", "revision": "9", "raft_term": "2"}
WELL = {
    "health": '{"health":"true"}', "version": '{"etcdserver":"3.4.23","etcdcluster":"3.4.0"}',
    "alarms": json.dumps({"header": HEADER}), "v3_keys": json.dumps({"header": HEADER, "count": "2"}),
    "status": json.dumps({"header": HEADER, "version": "3.4.23", "dbSize": "24576", "leader": "10276657743932975437"}),
    "dynamic": _tree("/torch/elastic/rendezvous", job1=next(iter(STATES.values()))),
    "store": _tree("/torch/elastic/store", **{"dG9yY2gucmVuZGV6dm91cy5qb2IxLjAvTUFTVEVSX0FERFI=": "bjE="}),
    "legacy": json.dumps(LEGACY),
}  # fmt: skip
SICK = {
    "well": {},
    "full": {"alarms": json.dumps({"header": HEADER, "alarms": [{"memberID": "10276657743932975437", "alarm": "NOSPACE"}]}),
             "health": '{"health":"false","reason":"ALARM NOSPACE"}'},
    "well, as 3.4.23 says that it has no alarm": {"alarms": "{}"},
    "unhealthy": {"health": '{"health":"false"}'},
    "without v2": {"version": '{"etcdserver":"3.6.12","etcdcluster":"3.6.0","storage":"3.6.0"}', "dynamic": "404 page not found\n"},
}  # fmt: skip


def _answers(bodies: dict[str, str]) -> dict[str, Any]:
    """As the probe brings them."""
    found: dict[str, Any] = {k: {"status": 404 if v.startswith("404") else 200, "body": v} for k, v in bodies.items()}
    return found | {"v3_keys": [found["v3_keys"]], "fsync": {"0.001": 100.0, "+Inf": 100.0}, "gateway": "/v3"}


def _etcd(bodies: dict[str, str]) -> dict[str, Any]:
    answer = _answers(bodies)
    try:
        runs = parse_runs(answer, PLACE)
        return {"etcd": parse_facts(answer, PLACE, CONTEXT), "runs": Known[Reads](value=Reads(first=runs, second=runs, apart_s=16))}
    except (NotEtcd, TransportError) as e:
        return {"etcd": parse_facts(answer, PLACE, CONTEXT), "runs": unknown_keys(e, PLACE, CONTEXT)}


def _one_body(bodies: dict[str, str]) -> Iterator[tuple[str, dict[str, str]]]:
    for name, body in bodies.items():
        for what, new in changed_text(body) if body.startswith("404") else changed_json(body):
            yield f"{name}: {what}", bodies | {name: new}


def etcd_worlds() -> Iterator[World]:
    base = stale.evidence({"nodes": {"n1": {}}})

    def judge(found: dict[str, Any]) -> Diagnosis:
        evidence = base.model_copy(update=found)
        return Situation("stale-rendezvous", "", evidence, _limits("stale-rendezvous")).judge(evidence)

    for name, bodies in SICK.items():
        yield World(f"etcd, {name}", WELL | bodies, _one_body, _etcd, judge)


# --- nvidia-smi ---


def _smi(got: dict[str, str]) -> Any:
    return gpu_set(
        {"queries": [{"at_s": 0.0, "out": got["gpu"]}, {"at_s": 0.5, "out": got["gpu"]}],
         **{k: {"out": got[k]} for k in ("apps", "pmon", "table")}}, pci_count=1, container="",
    )  # fmt: skip


def _one_text(got: dict[str, str]) -> Iterator[tuple[str, dict[str, str]]]:
    for name, text in got.items():
        for what, new in changed_text(text):
            yield f"{name}: {what}", got | {name: new}


def gpu_worlds() -> Iterator[World]:
    base = zombies.evidence({})
    for name in ("idle", "spin", "orphan"):
        got = {"gpu": h100(f"gpu-{name}"), "apps": h100(f"apps-{name}"), "pmon": h100(f"pmon-{name}"), "table": h100(f"smi-{name}")}
        got["table"] = got["table"].partition("| Processes:")[1] + got["table"].partition("| Processes:")[2]
        yield World(f"nvidia-smi, {name}", got, _one_text, _smi, partial(_judge, "zombie-gpu", base, field="gpus"))
    for name, (text, _) in SMI.items():
        yield World(f"nvidia-smi -q -x, {name}", text, changed_xml, parse_smi_xml, nobody)


# --- the orchestrator's systems ---

RAILWAY = Orchestrator(railway=RailwayConfig(project="p", environment="e", service="s"))


class Canned(RailwayClient):
    """Answers every question with the same data."""

    def __init__(self, data: Any) -> None:
        self._config, self._ids, self.data = RAILWAY.railway, {}, data  # type: ignore[assignment]

    def _ask(self, query: str, variables: dict[str, Any]) -> dict[str, Any]:
        if not isinstance(self.data, dict):
            raise TransportError(UnknownReason.FAILED, "no data in the answer")  # as the client itself does
        return self.data

    def close(self) -> None:
        """Nothing is open."""


def _platform(data: Any) -> dict[str, Any]:
    with patch("tasks.spawning.railway.RailwayClient", lambda *_: Canned(data)):
        return vars(read_railway(CONTEXT, RAILWAY, "w1"))


def railway_worlds() -> Iterator[World]:
    fake = FakeRailway()
    try:
        fake.variables = {"RUNPOD_API_KEY": "k", "RUNPOD_SSH_PUBLIC_KEY": "x"}
        fake.sealed, fake.status = {"RUNPOD_SSH_PRIVATE_KEY"}, "CRASHED"
        fake.cycle(NOW - timedelta(minutes=30))
        asked_for = [{"query": q, "variables": {"n": 500, "d": "dep1"}} for q in (VARIABLES, DEPLOYMENTS, LOGS, SEALED)]
        data = {k: v for a in asked_for for k, v in fake.ask(a).items()}
    finally:
        fake.close()
    base = spawning.whole({})

    def judge(found: dict[str, Any]) -> Diagnosis:
        evidence = base.model_copy(update=found)
        return Situation("stuck-spawning", "", evidence, _limits("stuck-spawning")).judge(evidence)

    yield World("Railway, crashed", data, changed, _platform, judge)



def _through(parse: Callable[[Any], Any], data: Any) -> Any:
    return asked(CONTEXT, "there", "asked", lambda: parse(data))


def _pod_reading(data: Any) -> Any:
    found = _through(lambda x: merge(parse_pod(x), None), data)
    if not isinstance(found, Known):
        return found
    return Known(value=tuple(PodRead(at=NOW + timedelta(seconds=s), pod=found.value) for s in (0, 10)))


def orchestrator_worlds() -> Iterator[World]:
    base = spawning.whole({})
    fake = FakeRunPod()
    try:
        up, stopped = fake.add("p1"), fake.add("p2")
        fake.act(stopped, "stop")
        shapes = {f"{n} of {p.id}": getattr(p, n)() for p in (up, stopped) for n in ("rest1", "rest2", "graphql")}
    finally:
        fake.close()
    for name, data in shapes.items():
        yield World(f"pod, {name}", data, changed, _pod_reading, partial(_judge, "stuck-spawning", base, field="pod"))
        listed = partial(_judge, "stuck-spawning", base, field="pods")
        yield World(f"pods, {name}", [data], changed, partial(_through, parse_pods), listed)
    config, hour = DatabaseConfig(), "2026-05-01T11:00:00Z"
    w, t = config.workers, config.tasks
    row = {w.id: "w1", w.status: "spawning", w.created: hour, w.heartbeat: None, w.changed: hour, w.pod_id: "p1"}
    task = {t.id: "t1", t.status: t.in_progress, t.worker: "w1", t.claimed: hour}
    tables: dict[str, tuple[Any, Callable[[Any], Any]]] = {
        "workers": ([row], lambda x: tuple(worker_of(config, r) for r in x)),
        "tasks": ([task], lambda x: tuple(task_of(config, r) for r in x)),
    }
    for field, (rows, parse) in tables.items():
        yield World(f"table of {field}", rows, changed, partial(_through, parse), partial(_judge, "stuck-spawning", base, field=field))
    stock = [{"id": "NVIDIA RTX A6000", "displayName": "RTX A6000", "memoryInGb": 48, "anywhere": {"stockStatus": "Low"}, "here": None}]
    volumes = [{"id": "v1", "name": "models", "size": 100, "dataCenterId": "EU-RO-1"}]
    yield World("stock", stock, changed, partial(_through, parse_stock), nobody)
    yield World("volumes", volumes, changed, partial(_through, parse_volumes), nobody)


WORLDS = (container_worlds, ray_worlds, etcd_worlds, gpu_worlds, orchestrator_worlds, railway_worlds)


LEFT_OUT = ("alarms: alarms: missing", "dynamic: node.nodes: missing")  # etcd leaves an empty list out: the same
ON_ITS_OWN = {"pod-stopped"}  # by the status alone; who stopped it was lost


def believable(what: str) -> bool:
    """Whether the changed answer is one that the program could give, in another world."""
    place, _, how = what.rpartition(": ")
    item = place.rpartition(".")[2].isdecimal() or place.isdecimal()
    return (how == "empty") or (how == "missing" and item) or what.endswith(LEFT_OUT)


def sure(diagnosis: Diagnosis | None) -> set[str]:
    """Slugs of what is confirmed."""
    return {c.slug for c in diagnosis.causes if c.certainty is Certainty.CONFIRMED} if diagnosis else set()


def wrong(world: World) -> Iterator[str]:
    """What a change made of it that the change cannot have told."""
    whole = world.read(world.answer)
    assert not isinstance(whole, Unknown), (world.name, whole)
    before = world.judge(whole)
    known, count = {repr(whole): before}, 0
    for what, answer in world.changes(world.answer):
        count += 1
        found = world.read(answer)
        if repr(found) not in known:
            known[repr(found)] = world.judge(found)
        after = known[repr(found)]
        if (new := sure(after) - sure(before) - ON_ITS_OWN) and not believable(what):
            yield f"{world.name}: {what}: confirmed {sorted(new)}"
        if before and after and after.state is State.HEALTHY and before.state is not State.HEALTHY and not believable(what):
            yield f"{world.name}: {what}: healthy"
    assert count > 3, world.name


@pytest.mark.parametrize("worlds", WORLDS, ids=lambda make: make.__name__)
def test_what_is_lost_is_not_guessed(worlds: Callable[[], Iterator[World]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runbooks.ray.errors.judge_text", cache(judge_text))  # pure, and the same logs come in every change
    assert [line for world in worlds() for line in wrong(world)] == []
