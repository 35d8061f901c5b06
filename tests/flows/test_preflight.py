"""distributed-setup through the engine, over three real sshd whose sessions live in network namespaces of their own."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.faults.real import RealWorld, outcome
from tests.support.engine_rig import Rig
from tests.support.namespaces import SUBNET, NamespaceHost, namespaces
from tests.support.sshd import Sshd


@contextmanager
def machines(folder: Path, hosts: list[NamespaceHost]) -> Iterator[list[Sshd]]:
    """One sshd per namespace; what is run over it runs there, with that namespace's addresses."""
    with ExitStack() as all_of_them:
        enter = 'ip netns exec {} sh -c "$SSH_ORIGINAL_COMMAND"'
        yield [
            all_of_them.enter_context(Sshd(folder, h.name, options={"ForceCommand": enter.format(h.namespace)}))
            for h in hosts
        ]


def test_three_machines_at_once(rig: Rig, folder: Path) -> None:
    """Everything of every machine in one report: who reaches whom on the interface that NCCL would pick, and the file."""
    config = folder / "c.yaml"
    config.write_text("training:\n  lr: 1e-4\n  stesp: 5\n")
    with namespaces(3) as hosts, machines(folder, hosts) as servers:
        names = [s.name for s in servers]
        launch = {
            "name": "train",
            "nodes": names,
            "command": ["torchrun", "--nnodes=3", "--rdzv-backend=c10d", "--rdzv-endpoint=n1:29500", "x.py"],
            "shm_gb": 0,
            "config": str(config),
            "keys": ["training.lr", "training.steps"],
        }
        nodes = [s.node().model_dump(mode="json", exclude_defaults=True) for s in servers]
        w = RealWorld(rig, folder, "distributed-setup", "train", {"nodes": nodes, "launches": [launch]})
        assert outcome(w.run("diagnose")) == "sick", w.report()
        report = w.report()
        assert all("Accepted publickey" in s.read_log() for s in servers)
    found = {c["slug"]: c for c in report["diagnosis"]["causes"]}
    assert set(found) == {"launch-command", "yaml-exponent-text", "yaml-unknown-key"}, found
    assert "training.steps" in str(found["yaml-unknown-key"]["evidence"])
    assert f"{config}:2:7:   lr: 1.0e-4" in report["diagnosis"]["do_now"]
    assert "torchrun --nnodes=3 --rdzv-backend=c10d --rdzv-endpoint=n1:29500 --rdzv-id=train-1 x.py" in str(
        report["diagnosis"]["do_now"]
    )
    peers = [p for v in report["evidence"]["nodes"] for p in v["facts"]["value"]["peers"]]
    assert len(peers) == 6
    assert all(p["address"].startswith(SUBNET) and not p["error"] for p in peers)
