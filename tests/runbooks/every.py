"""Every situation of every runbook as (runbook, title, evidence, limits), for the tests that hold for all of them."""

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel

from runbooks.core.knowledge import folder_of, load_runbook, runbook_slugs
from runbooks.core.verdict import Diagnosis
from tests.runbooks import more_healthy, more_sick
from tests.runbooks.checkpoint import test_situations as checkpoints
from tests.runbooks.container import test_situations as containers
from tests.runbooks.gpu import build as zombies
from tests.runbooks.gpu import test_situations as zombie_situations
from tests.runbooks.host import test_situations as limits_of_hosts
from tests.runbooks.launch import test_situations as launches
from tests.runbooks.orchestrator import build as fleets
from tests.runbooks.orchestrator import test_situations as fleet_situations
from tests.runbooks.ray import test_situations as jobs
from tests.runbooks.rendezvous import build as stale
from tests.runbooks.rendezvous import test_situations as rendezvous
from tests.runbooks.spawning import build as spawning
from tests.runbooks.spawning import test_situations as spawning_situations
from tests.runbooks.ssh import build as ssh
from tests.runbooks.ssh import test_situations as ssh_situations
from tests.support.answering import evidence_of
from tests.support.yaml_file import read_yaml, read_yaml_all

HERE = Path(__file__).parent


class Situation(NamedTuple):
    """One world as it was read, and the limits by which it is judged."""

    runbook: str
    title: str
    evidence: BaseModel
    limits: dict[str, Any]

    def judge(self, evidence: BaseModel | None = None) -> Diagnosis:
        """The diagnosis, of other evidence where it is given."""
        if evidence is None:
            if id(self) not in _JUDGED:
                _JUDGED[id(self)] = self, self.judge(self.evidence)
            return _JUDGED[id(self)][1]
        module = import_module(f"runbooks.{folder_of(self.runbook)}.diagnose")
        found: Diagnosis = module.diagnose(evidence, module.Limits.model_validate(self.limits))
        return found


_JUDGED: dict[int, tuple[Situation, Diagnosis]] = {}
"""Judging is pure, and many files look at the diagnosis of every situation: it is made once."""


@cache
def situations() -> tuple[Situation, ...]:
    """All of them."""
    none: dict[str, Any] = {}
    made = [_situation(*world, none) for world in (*more_healthy.worlds(), *more_sick.worlds())]
    return (*(_situation(*given) for given in _read()), *made)


def _situation(runbook: str, title: str, evidence: BaseModel, over: dict[str, Any]) -> Situation:
    return Situation(runbook, title, evidence, _limits(runbook) | over)


@cache
def _limits(runbook: str) -> dict[str, Any]:
    return load_runbook(runbook).limit_values()


def _read() -> Iterator[tuple[str, str, BaseModel, dict[str, Any]]]:
    for raw in checkpoints.SITUATIONS:
        yield "checkpoint-fallback", raw["name"], checkpoints.evidence(raw)[0], {}
    yield from _changes("container-death", containers)
    for doc in launches.DOCS:
        yield "distributed-setup", doc["title"], launches.evidence(doc["evidence"]), {}
    for doc in limits_of_hosts.DOCS:
        yield "host-limits", doc["title"], limits_of_hosts.evidence(doc.get("evidence", {})), {}
    yield from _changes("ray-job", jobs)
    for doc in ssh_situations.ALL:
        yield "ssh-auth-failure", doc["title"], ssh.evidence(doc["given"]), {}
    for param in rendezvous.situations():
        yield "stale-rendezvous", str(param.id), stale.evidence(param.values[0]["evidence"]), {}
    for doc in fleet_situations.ALL:
        yield "fleet-sync", doc["title"], fleets.evidence(doc["given"]), {}
    for doc in spawning_situations.ALL:
        yield "stuck-spawning", doc["title"], spawning.whole(doc["given"]), {}
    for param in zombie_situations.situations():
        doc = param.values[0]
        yield "zombie-gpu", str(param.id), zombies.evidence(doc["evidence"]), doc.get("limits", {})
    for slug in by_folder():
        for doc in answered(slug):
            over = doc.get("limits", {})
            yield slug, doc["title"], evidence_of(slug, doc["commands"], over), over


@cache
def by_folder() -> tuple[str, ...]:
    """Runbooks whose situations are in the common form: a situations.yaml, and no test of their own beside it."""
    folders = {slug: HERE.joinpath(*folder_of(slug).split(".")) for slug in runbook_slugs()}
    return tuple(s for s, f in folders.items() if (f / "situations.yaml").is_file() and not (f / "test_situations.py").exists())


@cache
def answered(slug: str) -> tuple[dict[str, Any], ...]:
    """Its situations as they are written; test_situations.py explains the form."""
    path = HERE.joinpath(*folder_of(slug).split("."), "situations.yaml")
    return tuple(read_yaml_all(path))


def _changes(runbook: str, module: Any) -> Iterator[tuple[str, str, BaseModel, dict[str, Any]]]:
    """The runbooks whose situations are files that change a base."""
    files: list[Path] = module.FILES
    for path in files:
        doc = read_yaml(path)
        seen = module.Evidence.model_validate(module.merge(module.BASE, doc["change"]))
        yield runbook, path.stem, seen, doc.get("limits") or {}
