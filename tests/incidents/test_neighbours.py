"""Incidents that nobody had seen: written down with their right answer first, and judged then (neighbours.yaml)."""

import gzip
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from runbooks.container.evidence import Evidence as ContainerEvidence
from runbooks.core.fleet import Fleet, Node
from runbooks.core.knowledge import folder_of, load_runbook
from runbooks.core.reading import Known
from runbooks.core.verdict import Certainty, Diagnosis, State
from runbooks.memory.parsers.kernel_ooms import HostOom
from runbooks.ray.evidence import Evidence as JobEvidence
from tasks.context import Context
from tasks.data.read import gather_data_check
from tasks.transport.local import LocalHost
from tests.runbooks import more_sick
from tests.runbooks.checkpoint import test_situations as checkpoints
from tests.runbooks.container import test_situations as containers
from tests.runbooks.gpu import build as zombies
from tests.runbooks.host import test_situations as hosts
from tests.runbooks.launch import test_situations as launches
from tests.runbooks.ray import test_situations as jobs
from tests.runbooks.rendezvous import build as stale
from tests.runbooks.spawning import build as spawning
from tests.runbooks.ssh import build as ssh
from tests.support.situations import merge
from tests.support.yaml_file import read_yaml

ALL: list[dict[str, Any]] = read_yaml(Path(__file__).parent / "neighbours.yaml")
SURE = (Certainty.CONFIRMED, Certainty.LIKELY)


def read(runbook: str, given: dict[str, Any], folder: Path) -> BaseModel:
    """Its evidence: by the readers where a file is given, else in the short form of the runbook's situations."""
    match runbook:
        case "data-check":
            return _data(given, folder)
        case "memory-pressure":
            kills = tuple(HostOom(**k) for k in given.get("killed", ()))
            return more_sick.memory(given["log"], killed=Known[tuple[HostOom, ...]](value=kills))
        case "container-death":
            return ContainerEvidence.model_validate(merge(containers.BASE, given))
        case "ray-job":
            return JobEvidence.model_validate(merge(jobs.BASE, given))
        case "checkpoint-fallback":
            return checkpoints.evidence(given)[0]
    make: Any = {
        "zombie-gpu": zombies.evidence,
        "stuck-spawning": spawning.whole,
        "ssh-auth-failure": ssh.evidence,
        "stale-rendezvous": stale.evidence,
        "distributed-setup": launches.evidence,
        "host-limits": hosts.evidence,
    }[runbook]
    found: BaseModel = make(given)
    return found


def _data(given: dict[str, Any], folder: Path) -> BaseModel:
    path = folder / "train.jsonl"
    path.write_bytes(gzip.compress(given["gzip"].encode()) if "gzip" in given else given["text"].encode())
    fleet = Fleet(nodes=(Node(name="n1", local=True),))
    options: dict[str, Any] = {"data": [str(path)]}
    return gather_data_check(Context(fleet=fleet, target="n1", options=options, open_host=lambda n: LocalHost(n.name)))


def judge(case: dict[str, Any], folder: Path) -> Diagnosis:
    """By default limits."""
    module = import_module(f"runbooks.{folder_of(case['runbook'])}.diagnose")
    limits = module.Limits.model_validate(load_runbook(case["runbook"]).limit_values())
    found: Diagnosis = module.diagnose(read(case["runbook"], case["given"], folder), limits)
    return found


def came(case: dict[str, Any], found: Diagnosis) -> str:
    """How the judgment stands to the answer that was written down before it."""
    if {s.kind for p in found.plans for s in p.steps} & {*case.get("never", ())}:
        return "harmful"
    standing = [c for c in found.causes if c.certainty is not Certainty.RULED_OUT]
    known = [c for c in standing if c.slug in case["answer"]]
    if case.get("unclear"):
        sure = [c for c in found.wrong if c.certainty is Certainty.CONFIRMED and c.slug not in case["answer"]]
        return "wrong" if sure or found.state in (State.HEALTHY, State.NOT_APPLICABLE) else "right"
    if case.get("well"):
        right = found.state is State.HEALTHY and (not standing or standing[0] in known)
        return "right" if right else "open" if found.state is State.CANNOT_TELL else "wrong"
    if known and standing[0] is known[0] and known[0].certainty in SURE:
        return "right"
    if known or found.state is State.CANNOT_TELL:
        return "open"
    return "wrong" if found.state is State.UNHEALTHY else "blind"


def marked(x: dict[str, Any]) -> Any:
    """Known from the moment that a judge is mended for it."""
    fields = {"came": x["came"], "first": x["first"], "known": x.get("mended", False), "fed": x.get("fed", "evidence")}
    return pytest.param(x, id=x["id"], marks=pytest.mark.incident(x["id"], **fields))


@pytest.mark.parametrize("case", [marked(x) for x in ALL])
def test_a_neighbour(case: dict[str, Any], tmp_path: Path) -> None:
    found = judge(case, tmp_path)
    assert came(case, found) == case["came"], found.model_dump_json(indent=1)
