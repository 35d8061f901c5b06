"""Every situation of the check before a launch."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from runbooks.core.knowledge import load_runbook
from runbooks.core.launch_config import Launch
from runbooks.core.reading import Absent, Known, Unknown, UnknownReason
from runbooks.core.verdict import Certainty
from runbooks.launch.diagnose import Limits, diagnose
from runbooks.launch.evidence import ConfigText, Evidence, LaunchNodeFacts, LaunchNodeView, Peer
from runbooks.launch.parsers.nccl_interfaces import Interface, cards, pick
from runbooks.launch.parsers.slurm_batch import Batch
from tests.support.yaml_file import read_yaml_all

LIMITS = Limits(**load_runbook("distributed-setup").limit_values())
NOW = datetime(2026, 5, 1, tzinfo=UTC)
DEFAULT = ["torchrun", "--nnodes=2", "--nproc-per-node=2", "--rdzv-backend=c10d"]
DEFAULT += ["--rdzv-endpoint=n1:29500", "--rdzv-id=a1", "train.py"]
FACES = (
    Interface(name="lo", addresses=("127.0.0.1/8",), loopback=True),
    Interface(name="eth0", addresses=("192.0.2.5/24",)),
    Interface(name="docker0", addresses=("172.17.0.1/16",)),
    Interface(name="ib0", up=False, addresses=()),
)


def node(name: str, given: Any, others: tuple[str, ...], last: int = 5) -> LaunchNodeView:
    """A node as it was read; unless something else is said, it reaches the others. `last`: of its own address."""
    if isinstance(given, str):
        return LaunchNodeView(node=name, facts=Unknown(reason=UnknownReason(given)))
    given = dict(given)
    gpus = Known[tuple[str, ...]](value=tuple(given.pop("gpus", ["H100", "H100"])))
    reached = [{"node": n, "address": f"{n}:29500"} for n in others]
    peers = tuple(Peer(**p) for p in given.pop("peers", reached))
    only = given.pop("faces", [f.name for f in FACES])
    faces = Known[tuple[Interface, ...]](value=tuple(_own(f, last) for f in FACES if f.name in only))
    fields: dict[str, Any] = {"shm_bytes": 10**11, "gpus": gpus, "peers": peers, "interfaces": faces} | given
    return LaunchNodeView(node=name, facts=Known[LaunchNodeFacts](value=LaunchNodeFacts(node=name, **fields)))


def _own(face: Interface, last: int) -> Interface:
    return face.model_copy(update={"addresses": (f"192.0.2.{last}/24",)}) if face.name == "eth0" else face


def evidence(given: dict[str, Any]) -> Evidence:
    if given.get("absent"):
        return Evidence(taken_at=NOW, launch=Absent(proof="none"))
    more = given.get("launch", {})
    launch = Launch(**({"name": "train", "nodes": ("n1", "n2"), "command": DEFAULT, "config": "c.yaml"} | more))
    config: Any = Absent(proof="none")
    if "config" in given:
        config = Known[ConfigText](value=ConfigText(path="c.yaml", text=given["config"]))
    read = given.get("nodes", {"n1": {}, "n2": {}})
    nodes = tuple(node(n, v, tuple(o for o in read if o != n), i) for i, (n, v) in enumerate(read.items(), 5))
    batch: Any = Known[Batch](value=Batch(**given["batch"])) if "batch" in given else Absent(proof="none")
    return Evidence(taken_at=NOW, launch=Known[Launch](value=launch), nodes=nodes, config=config, batch=batch)


DOCS = read_yaml_all(Path(__file__).parent / "situations.yaml")


@pytest.mark.parametrize("doc", [pytest.param(d, id=d["title"]) for d in DOCS])
def test_situation(doc: dict[str, Any]) -> None:
    d, want = diagnose(evidence(doc["evidence"]), LIMITS), doc["expect"]
    shown = d.model_dump_json(indent=1)
    assert d.state == want["state"], shown
    assert [c.slug for c in d.causes] == want.get("causes", []), shown
    for field in ("do_now", "must_not", "unknowns"):
        for words in want.get(field, []):
            assert words in " | ".join(getattr(d, field)), shown
    assert not any(words in " | ".join((*d.do_now, *d.by_hand)) for words in want.get("never", [])), shown
    assert d.plans == ()
    assert len(d.findings) == sum(c.certainty is not Certainty.POSSIBLE for c in d.causes)


def test_every_cause_has_a_situation() -> None:
    seen = {c for d in DOCS for c in d["expect"].get("causes", [])}
    assert set(load_runbook("distributed-setup").causes) == seen


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("", ["eth0"]),
        ("eth", ["eth0"]),
        ("=eth", []),
        ("=eth0", ["eth0"]),
        ("^docker,lo", ["eth0"]),
        ("^=eth", ["lo", "eth0", "docker0"]),
        ("lo,docker", ["lo", "docker0"]),
        ("ib", []),
    ],
)
def test_the_interface_that_nccl_picks(spec: str, expected: list[str]) -> None:
    assert [i.name for i in pick(FACES, spec)] == expected


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("", ["mlx5_0", "mlx5_1", "mlx5_10"]),
        ("mlx5_1", ["mlx5_1", "mlx5_10"]),
        ("=mlx5_1:1", ["mlx5_1"]),
        ("=mlx5_0:1,mlx5_1:1", ["mlx5_0", "mlx5_1"]),
        ("^=mlx5_0", ["mlx5_1", "mlx5_10"]),
        ("^mlx5_0,mlx5_1", []),
        ("ib", []),
    ],
)
def test_the_rdma_devices_that_nccl_takes(spec: str, expected: list[str]) -> None:
    assert list(cards(("mlx5_0", "mlx5_1", "mlx5_10"), spec)) == expected
