"""Worlds in which nothing is wrong and everything was read, many for each runbook: what one lost reading is tried on."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel

from runbooks.container.evidence import Evidence as ContainerEvidence
from runbooks.core.gpu_set import Gpu, GpuProcess, GpuSet
from runbooks.core.reading import Absent, Known, Unknown, UnknownReason
from runbooks.data.evidence import DataFile
from runbooks.data.evidence import Evidence as DataEvidence
from runbooks.memory.evidence import Evidence as MemoryEvidence
from runbooks.memory.evidence import HostMemory, LogFacts
from runbooks.ray.evidence import Evidence as JobEvidence
from tests.runbooks.checkpoint import test_situations as checkpoints
from tests.runbooks.container import test_situations as containers
from tests.runbooks.gpu import build as zombies
from tests.runbooks.host import test_situations as hosts
from tests.runbooks.launch import test_situations as launches
from tests.runbooks.ray import test_situations as jobs
from tests.runbooks.spawning import build as spawning
from tests.runbooks.ssh import build as ssh
from tests.support.situations import merge

AT = datetime(2026, 5, 1, tzinfo=UTC)
GIB = 1 << 30
World = tuple[str, str, BaseModel]
NONE: Any = Absent(proof="none here")


def worlds() -> Iterator[World]:
    """(runbook, title, evidence)."""
    makers = (_checkpoints, _containers, _data, _launches, _hosts, _memory, _jobs, _log_ins, _spawning, _gpus)
    for make in makers:
        for title, seen in make():
            yield make.__doc__ or "", title, seen


def _checkpoints() -> Iterator[tuple[str, BaseModel]]:
    """checkpoint-fallback"""
    for count in (1, 2, 5, 20):
        steps = [[100 * (count - i), "proven"] for i in range(count)]
        yield f"{count} on one tier", checkpoints.evidence({"tiers": [{"name": "nvme", "c": steps}]})[0]
        both = [{"name": "nvme", "c": steps}, {"name": "s3", "c": steps}]
        yield f"{count} on two tiers", checkpoints.evidence({"tiers": both})[0]
        more = {"tiers": both, "others": {"b": [s for s, _ in steps]}, "log": "epoch 3, loss 2.1"}
        yield f"{count}, another node has them too", checkpoints.evidence(more)[0]


def _containers() -> Iterator[tuple[str, BaseModel]]:
    """container-death"""
    runs = {"status": "running", "exit_code": 0, "finished_at": None, "started_at": "2026-03-02T10:50:00Z"}
    inside = {"kind": "known", "value": {"commands": ["sleep infinity", "/ray/raylet"]}}
    none = {"kind": "known", "value": []}
    answers = {"kind": "known", "value": {"exit": 0, "seconds": 0.2}}
    for health in ("none", "starting", "healthy"):
        for policy in ("no", "always", "unless-stopped"):
            container = {"value": {**runs, "health": health, "restart_policy": policy, "command": ["sleep", "infinity"]}}
            for name, probe in (("no probe", NONE.model_dump()), ("probe", answers)):
                change = {"container": container, "events": none, "inside": inside, "probe": probe}
                read = merge(containers.BASE, change)
                yield f"health {health}, policy {policy}, {name}", ContainerEvidence.model_validate(read)


def _data() -> Iterator[tuple[str, BaseModel]]:
    """data-check"""
    for count in (1, 2, 8):
        for kind in ("jsonl", "index"):
            files = {f"/d/{i}.{kind}": Known[DataFile](value=DataFile(path=f"/d/{i}.{kind}", kind=kind, lines=10)) for i in range(count)}
            for log in (Unknown(reason=UnknownReason.NOT_ASKED, detail="no `log`"), Known[str](value="epoch 1, loss 2.5")):
                yield f"{count} {kind}", DataEvidence(node="a", taken_at=AT, files=files, log=log)


def _launches() -> Iterator[tuple[str, BaseModel]]:
    """distributed-setup"""
    for nodes in (2, 3, 4):
        for gpus in (1, 2, 8):
            names = tuple(f"n{i}" for i in range(1, nodes + 1))
            command = [w.replace("nnodes=2", f"nnodes={nodes}").replace("node=2", f"node={gpus}") for w in launches.DEFAULT]
            launch = {"nodes": names, "gpus_per_node": gpus, "command": command}
            given = {"launch": launch, "nodes": {n: {"gpus": ["H100"] * gpus} for n in names}}
            yield f"{nodes} nodes of {gpus} GPUs", launches.evidence(given)


def _hosts() -> Iterator[tuple[str, BaseModel]]:
    """host-limits"""
    for kind in ("files", "threads", "locked", "shm", "inotify"):
        for share in (0, 10, 40):
            gauge = {"subject": "this machine", "of": kind, "used": share, "limit": 100, "setting": "x"}
            yield f"{share} per cent of {kind}", hosts.evidence({kind: [gauge]})
    for skew in (-0.3, 0.0, 0.3):
        yield f"clock {skew}", hosts.evidence({"clock": {"least_s": skew - 0.1, "most_s": skew + 0.1}})


def _memory() -> Iterator[tuple[str, BaseModel]]:
    """memory-pressure"""
    for count in (0, 1, 8):
        for used in (0, 50):
            table = Known[tuple[GpuProcess, ...]](value=(GpuProcess(pid=7, used_bytes=used * GIB),) if used else ())
            sizes = {"memory_total_bytes": 80 * GIB, "memory_used_bytes": used * GIB}
            gpus = tuple(Gpu(index=i, uuid=f"u{i}", name="H100", samples=(), processes=table, **sizes) for i in range(count))
            for limit in (None, 64 * GIB):
                host = HostMemory(total=128 * GIB, available=100 * GIB, free=60 * GIB, cgroup_limit=limit,
                                  cgroup_used=GIB if limit else None)  # fmt: skip
                yield f"{count} GPUs, {used} GiB used, cgroup limit {limit}", MemoryEvidence(
                    node="a", taken_at=AT, log=Known[LogFacts](value=LogFacts(words=("epoch 3",))), killed=Known(value=()),
                    groups=Known(value=()),
                    gpus=Known[GpuSet](value=GpuSet(gpus=gpus)) if count else NONE,
                    host=Known[HostMemory](value=host), commands=Known[dict[int, str]](value={7: "python train.py"}),
                )  # fmt: skip


def _jobs() -> Iterator[tuple[str, BaseModel]]:
    """ray-job"""
    log = {"node": "node-b", "path": "/tmp/ray/session_latest/logs/worker-aa11-02000000-4242.err", "size_bytes": 9}
    part = {"node": "node-b", "ip": "10.0.0.2", "window_s": 2, "raylet_age_s": 2, "raylet_alive": True}
    for percent in (1, 12, 90):
        lines = [f"Training:  {percent}%"]
        logs = {"kind": "known", "value": {**part, "logs": [{**log, "age_s": 5, "lines": lines}]}}
        for actors in (0, 1, 3):
            alive = [
                {"actor_id": f"a{i}", "class_name": "Worker", "state": "ALIVE", "job_id": "02000000", "pid": 4242 + i, "ip": "10.0.0.2"}
                for i in range(actors)
            ]
            for groups in (0, 1):
                made = [{"id": "g", "state": "CREATED", "job_id": "02000000", "bundles": [{"GPU": 8}]}] * groups
                change: dict[str, Any] = {"driver_log": {"kind": "known", "value": lines}, "node_logs": [logs]}
                change |= {"actors": {"kind": "known", "value": alive}, "groups": {"kind": "known", "value": made}}
                yield f"{percent} per cent, {actors} actors, {groups} groups", JobEvidence.model_validate(merge(jobs.BASE, change))


def _log_ins() -> Iterator[tuple[str, BaseModel]]:
    """ssh-auth-failure"""
    for kind, bits in (("ssh-ed25519", 256), ("ecdsa-sha2-nistp256", 256), ("ssh-rsa", 4096)):
        for jump in ("", "bastion"):
            for agent in (0, 1, 2):
                given = {"key": {"type": kind, "bits": bits, "shape": {"type": kind, "bits": bits}}, "wire": {"jump": jump}}
                keys = [{"type": kind, "fingerprint": f"SHA256:{i}"} for i in range(agent)]
                yield f"{kind}, jump {jump or 'none'}, {agent} keys in the agent", ssh.evidence({**given, "agent": keys})


def _spawning() -> Iterator[tuple[str, BaseModel]]:
    """stuck-spawning"""
    rows = {
        "young": {"created": 60, "changed": 60}, "active": {"status": "active", "heartbeat": 5, "changed": 30},
        "processing": {"status": "processing", "heartbeat": 5, "changed": 30}, "idle": {"status": "idle", "heartbeat": 5, "changed": 30},
    }  # fmt: skip
    busy = {"id": "t1", "status": "in_progress", "worker": "w1", "claimed": 20}
    for name, row in rows.items():
        for queued in (0, 3):
            tasks = [spawning.ago(busy)] if name == "processing" else []
            yield f"{name}, {queued} queued", spawning.whole({"row": row, "queued": queued, "tasks": tasks})
    for others in (0, 1, 5):
        one = spawning.ago({"status": "active", "heartbeat": 5, "changed": 30, "created": 900})
        live = [one | {"id": f"o{i}", "pod_id": f"q{i}"} for i in range(others)]
        pods = [spawning.ago({**spawning.POD, "id": f"q{i}"}) for i in range(others)]
        for queued in (0, 4) if others else (0,):
            given = {"each": [], "others": live, "all_pods": pods, "queued": queued}
            yield f"all workers: {others} live, {queued} queued", spawning.whole(given)


def _gpus() -> Iterator[tuple[str, BaseModel]]:
    """zombie-gpu"""
    for count in (1, 2, 8):
        for job in ("training", "selfplay", "serving"):
            names = range(500, 500 + count)
            gpus = [{"use": [90] * 3, "traffic": 40, "power": [500.0], "holders": {pid: 40}} for pid in names]
            mine = [{"pid": pid, "works": True, "state": "R", "job": "train", "nvidia_fds": ["/dev/nvidia0"]} for pid in names]
            given = {"gpus": gpus, "processes": mine, "jobs": [{"kind": job}], "device_holders": list(names)}
            yield f"{count} GPUs, {job}", zombies.evidence(given)
        yield f"{count} idle GPUs", zombies.evidence({"gpus": [{}] * count})
