# ruff: noqa: E501 - lines of logs as they are
"""Rounds in a real etcd with the keys that torch's backend writes, and the error texts of the jobs, read and judged."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runbooks.core.verdict import Certainty, State
from tests.support.etcd import Etcd, real_etcd
from tests.support.namespaces import SUBNET, NamespaceHost, ip, namespaces
from tests.support.rendezvous import context_of, fast, look, place
from tests.support.torchrun import alone_on_this_machine

CLOSED = (
    "INFO:torch.distributed.elastic.agent.server.api:[default] Rendezvous'ing worker group\n"
    "ERROR:torch.distributed.elastic.multiprocessing.errors.error_handler:{\n"
    '  "message": {\n    "message": "RendezvousClosedError: ",'
)


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[Etcd]:
    with alone_on_this_machine(), real_etcd(tmp_path) as server:
        yield server


def round_of(etcd: Etcd, run: str, status: str) -> None:
    """The key of torch's old backend, as it writes it."""
    value = {"status": status, "version": "1", "participants": [0, 1], "keep_alives": []}
    etcd.put(f"/torchelastic/p2p/run_{run}/rdzv/active_version", json.dumps(value))


def judged(etcd: Etcd, folder: Path, symptom: str, **more: Any) -> Any:
    where = place(etcd.url, **more)
    return look(fast(context_of(where, folder / "reports", "t", symptom=symptom)))[1]


@pytest.mark.incident("RZ01", came="right", fed="readers", known=True)
def test_every_job_has_the_id_none_and_meets_a_closed_round(etcd: Etcd, tmp_path: Path) -> None:
    round_of(etcd, "none", "closed")
    round_of(etcd, "other", "final")
    d = judged(etcd, tmp_path, CLOSED, runs={"none": "train"})
    closed = [c for c in d.causes if c.slug == "closed-round"]
    assert [(c.subject, c.certainty) for c in closed] == [("run none (etcd)", Certainty.CONFIRMED)]
    plans = [s for p in d.plans for s in p.steps if s.kind == "delete-run-keys"]
    assert [s.args["run"] for s in plans] == ["none"], "only that run's keys"
    assert any("as a whole" in x for x in d.must_not)


@pytest.mark.incident("RZ01", came="right", fed="readers", known=True, twin="a job of that id lives")
def test_a_job_of_that_id_lives(etcd: Etcd, tmp_path: Path) -> None:


    round_of(etcd, "none", "closed")
    program = tmp_path / "torchrun"
    program.write_text("import time\nprint('up', flush=True)\ntime.sleep(120)\n")
    argv = [sys.executable, str(program), "--nnodes=2", "--rdzv-backend=etcd", f"--rdzv-endpoint=127.0.0.1:{etcd.port}", "train.py"]
    agent = subprocess.Popen(argv, stdout=subprocess.PIPE)
    try:
        assert agent.stdout is not None
        agent.stdout.readline()
        d = judged(etcd, tmp_path, CLOSED, runs={"none": "train"})
    finally:
        agent.kill()
        agent.wait()
    assert not [s for p in d.plans for s in p.steps if s.kind == "delete-run-keys"]
    assert not [c for c in d.causes if c.slug == "closed-round" and c.certainty is Certainty.CONFIRMED]


@pytest.mark.incident("RZ03", came="open", fed="readers", known=True)
def test_a_race_of_the_first_start(etcd: Etcd, tmp_path: Path) -> None:
    """A fresh id, both pods' words, and nothing in etcd yet."""
    symptom = "etcd.EtcdKeyNotFound: Key not found : /torch/elastic/store\ntorch.distributed.elastic.rendezvous.api.RendezvousClosedError\n"
    d = judged(etcd, tmp_path, symptom)
    assert "first-start-race" in [c.slug for c in d.causes]
    assert d.state is State.CANNOT_TELL
    assert not [s for p in d.plans for s in p.steps if s.kind == "delete-run-keys"]


@pytest.mark.incident("NC01", came="open", fed="readers", known=True)
def test_rank_0_prepares_data_while_the_others_wait(etcd: Etcd, tmp_path: Path) -> None:
    symptom = (
        "Generating train split: 2230000 examples [29:59, 1466.92 examples/s][E ProcessGroupNCCL.cpp:475] [Rank 1] Watchdog caught collective "
        "operation timeout: WorkNCCL(SeqNum=2, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=1800000) ran for 1800449 milliseconds "
        "before timing out.\n"
        "Generating train split: 2231702 examples [30:00, 1577.98 examples/s][E ProcessGroupNCCL.cpp:489] Some NCCL operations have failed "
        "or timed out.\n"
    )
    d = judged(etcd, tmp_path, symptom)
    assert "nccl-data-preparation" in [c.slug for c in d.causes]
    assert d.state is State.CANNOT_TELL
    assert not d.plans


@pytest.mark.incident("NC03", came="right", fed="readers", known=True)
def test_two_interfaces_in_one_subnet() -> None:
    """On one of two nodes a second interface leads into the same network."""
    from tests.incidents.test_places_rendezvous import check_launch

    with namespaces(2) as hosts:
        assert [c.slug for c in check_launch(hosts).causes] == []
        second(hosts[1])
        d = check_launch(hosts)
    (cause,) = [c for c in d.causes if c.slug == "two-nics-one-subnet"]
    assert cause.subject == "n2"
    assert any("take an interface down" in x for x in d.must_not)


def second(host: NamespaceHost) -> None:
    """A second interface of the node, in the network of the first."""
    ip("-n", host.namespace, "link", "add", "eth1", "type", "veth", "peer", "name", "eth9")
    ip("-n", host.namespace, "addr", "add", f"{SUBNET}.77/24", "dev", "eth1")
    ip("-n", host.namespace, "link", "set", "eth9", "up")
    ip("-n", host.namespace, "link", "set", "eth1", "up")
