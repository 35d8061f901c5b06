"""Ranks that were started without torchrun, as real processes: who of all that inherits their environment counts as one."""

import os
import socket
import sys
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

from runbooks.core.fleet import Fleet, Node
from runbooks.core.knowledge import load_runbook
from runbooks.core.reading import Known
from runbooks.core.rendezvous_config import Rendezvous
from runbooks.core.verdict import Certainty, Diagnosis
from runbooks.rendezvous.diagnose import Limits, diagnose
from runbooks.rendezvous.evidence import Evidence, NodeFacts, Worker
from tasks.context import Context
from tasks.rendezvous.read import gather_stale_rendezvous
from tasks.transport.local import LocalHost
from tests.support.said_up import said_up

LIMITS = Limits(**load_runbook("stale-rendezvous").limit_values())
RANK = """\
import os, socket, subprocess, sys, time
if os.environ["RANK"] == "0" and "listen" in sys.argv:
    s = socket.socket()
    s.bind(("0.0.0.0", int(os.environ["MASTER_PORT"])))
    s.listen()
child = subprocess.Popen([sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)"]) if "loader" in sys.argv else None
print("up", flush=True)
sys.stdin.read()
child and child.kill()
"""


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def process(argv: list[str], port: int, rank: int, world: int = 2) -> AbstractContextManager[int]:
    place = {"RANK": str(rank), "WORLD_SIZE": str(world), "MASTER_ADDR": "localhost", "MASTER_PORT": str(port)}
    return said_up(argv, os.environ | place)


def rank(folder: Path, port: int, number: int, *more: str) -> Any:
    (folder / "train.py").write_text(RANK)
    return process([sys.executable, str(folder / "train.py"), *more], port, number)


def look(port: int) -> tuple[list[Worker], Diagnosis]:
    """The ranks at that port that were seen on this machine, and what is judged of it."""
    place = Rendezvous(name="t", backends=("c10d",), endpoints=(f"a:{port}",), nodes=("a",), port=port, contained=True)
    fleet = Fleet(nodes=(Node(name="a", local=True),), rendezvous=(place,))
    seen = gather_stale_rendezvous(Context(fleet=fleet, target="t", open_host=lambda n: LocalHost(n.name)))
    again = Evidence.model_validate_json(seen.model_dump_json())
    facts = again.nodes[0].facts
    assert isinstance(facts, Known)
    mine = tuple(w for w in facts.value.workers if w.env.get("MASTER_PORT") == str(port))
    only = Known[NodeFacts](value=facts.value.model_copy(update={"workers": mine, "agents": (), "hidden": 0}))
    view = again.nodes[0].model_copy(update={"facts": only})
    return list(mine), diagnose(again.model_copy(update={"nodes": (view,)}), LIMITS)


def said(d: Diagnosis) -> list[tuple[str, Certainty]]:
    return [(c.slug, c.certainty) for c in d.wrong]


def test_both_ranks_and_the_store(tmp_path: Path) -> None:
    port = free_port()
    with rank(tmp_path, port, 0, "listen") as zero, rank(tmp_path, port, 1) as one:
        workers, d = look(port)
    assert {w.pid for w in workers} == {zero, one}
    assert all(w.by_env and not w.orphan for w in workers)
    assert said(d) == []
    assert any(c.slug == "live-run" and "all 2 ranks" in c.evidence[0] for c in d.causes)


def test_a_rank_that_never_came(tmp_path: Path) -> None:
    port = free_port()
    with rank(tmp_path, port, 0, "listen"):
        _, d = look(port)
    assert said(d) == [("waiting-for-nodes", Certainty.POSSIBLE)]
    assert not d.plans
    assert any(g.at_work and g.name.startswith("the job at") for g in d.groups)


def test_rank_0_without_its_store(tmp_path: Path) -> None:
    port = free_port()
    with rank(tmp_path, port, 0), rank(tmp_path, port, 1):
        _, d = look(port)
    assert ("store-host-died", Certainty.POSSIBLE) in said(d)
    assert not d.plans


def test_what_only_inherits_their_environment_is_no_rank(tmp_path: Path) -> None:
    """A shell of the container, a loader's child, a launcher that starts ranks of its own."""
    port = free_port()
    launcher = tmp_path / "torchrun"
    launcher.write_text("print('up', flush=True)\nimport sys; sys.stdin.read()\n")
    with ExitStack() as stack:
        stack.enter_context(process(["sh", "-c", "echo up; read line"], port, 0))
        stack.enter_context(process([sys.executable, str(launcher), "--nnodes=2", "train.py"], port, 0))
        one = stack.enter_context(rank(tmp_path, port, 1, "loader"))
        workers, _ = look(port)
    assert {w.pid for w in workers if not w.loader} == {one}
    assert len([w for w in workers if w.loader]) == 1
