"""Runbooks judge the free text that they read by the same knowledge as `triage`, and report what it says."""

from pathlib import Path
from typing import Any

import pytest

from runbooks.container.start_errors import MEANS
from runbooks.core.knowledge import load_runbook
from runbooks.core.verdict import Diagnosis
from runbooks.parsers.ssh_text import parse_sshd_log
from runbooks.spawning.pods import TOLD
from runbooks.triage.narrow import narrowed
from runbooks.triage.text import findings_of, first_cause, judge_text, meanings, says
from tests.runbooks.container.test_situations import BASE
from tests.support.cost import cpu_seconds
from tests.support.situations import merge

CUDA = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 39.39 GiB of "
    "which 300.00 MiB is free. Including non-PyTorch memory, this process has 39.09 GiB memory in use. Of the allocated "
    "memory 38.20 GiB is allocated by PyTorch, and 90.00 MiB is reserved by PyTorch but unallocated."
)


def dead_container(log: list[str]) -> Diagnosis:
    from runbooks.container.diagnose import Limits, diagnose
    from runbooks.container.evidence import Evidence

    change: dict[str, Any] = {
        "container": {"value": {"status": "exited", "exit_code": 1}},
        "log": {"kind": "known", "value": log},
    }
    limits = Limits(**load_runbook("container-death").limit_values())
    return diagnose(Evidence.model_validate(merge(BASE, change)), limits)


def test_a_container_that_died_of_cuda_memory_says_so_with_what_next() -> None:
    found = [f for f in dead_container(["step 3", CUDA]).findings if f.category == "memory-pressure/model-too-large"]
    assert len(found) == 1
    assert found[0].issue.startswith("its last words: ")
    assert "line 2: " in found[0].issue
    assert ". Do not " in found[0].action
    assert "gpu-runbooks run memory-pressure" in found[0].action


def test_words_that_say_nothing_add_nothing() -> None:
    for log in ([], ["step 3 loss 1.2"], ["Killed"], ["This might be caused by CUDA out of memory"]):
        assert not [f for f in dead_container(log).findings if "/" in f.category], log


@pytest.mark.parametrize(
    ("error", "slug"),
    [
        ("stat /mnt/s3: transport endpoint is not connected", "stale-fuse"),
        ('nvidia-container-cli: device error: 3: unknown device: unknown', "devices-lost"),
        ('could not select device driver "nvidia" with capabilities: [[gpu]]', "devices-lost"),
        ("/dev/nvidia0: no such file or directory", "devices-lost"),
        ("mkdir /run/containerd/x: no space left on device", "disk-full"),
        ("No such image: train:7", "image-gone"),
        ("manifest unknown", "image-gone"),
        ("bind source path does not exist: /mnt/x", "mount-gone"),
        ('error mounting "/host" to rootfs: not a directory', "mount-gone"),
        ('exec: "train.sh": executable file not found in $PATH', "bad-command"),
        ('exec: "/entry.sh": permission denied', "bad-command"),
        ("something else", ""),
    ],
)  # fmt: skip
def test_a_refused_start(error: str, slug: str) -> None:
    assert next(iter(meanings(error, MEANS)), "") == slug


@pytest.mark.parametrize(
    ("line", "slug"),
    [
        ("container ID 1000 cannot be mapped to a host ID", "image-unpullable"),
        ("error pulling image: unexpected EOF", "image-unpullable"),
        ("failed to register layer: write /x: no space left on device", "disk-full-on-host"),
        ("toomanyrequests: You have reached your pull rate limit", "image-registry-limit"),
        ("unauthorized: authentication required", "image-auth"),
        ("manifest for a/b:1 not found", "image-not-found"),
        ("unsatisfied condition: cuda>=12.4", "driver-too-old"),
        ("nvml error: insufficient permissions", "gpu-broken-on-host"),
        ("exec format error", "start-command-fails"),
        ("Pulling fs layer", ""),
    ],
)
def test_a_pods_system_log(line: str, slug: str) -> None:
    assert next(iter(meanings(line, TOLD)), "") == slug


@pytest.mark.parametrize(
    ("line", "slug"),
    [
        ("Authentication refused: bad ownership or modes for directory /root", "server-strict-modes"),
        ("User bob not allowed because account is locked", "account-locked"),
        ("User bob not allowed because shell /bin/x does not exist", "shell-missing"),
        ("Invalid user bob from 10.0.0.1 port 22", "wrong-user"),
        ("maximum authentication attempts exceeded for bob from 10.0.0.1", "too-many-keys"),
        ("Certificate invalid: expired", "certificate-expired"),
        ("Could not open user 'bob' authorized keys '/home/bob/.ssh/authorized_keys': Permission denied", "authorized-keys-unreadable"),
    ],
)  # fmt: skip
def test_the_parser_of_sshds_log_and_the_knowledge_agree(line: str, slug: str) -> None:
    """The parser takes the name or path out of a line that the knowledge base judges alike."""
    assert len(parse_sshd_log(f"sshd[1]: {line}")) == 1
    assert judge_text(f"sshd[1]: {line}")[0].slug == slug


def test_no_runbook_names_a_cause_that_the_knowledge_does_not_have() -> None:
    with pytest.raises(KeyError, match="no-such/cause"):
        narrowed(("no-such/cause",))
    assert says("etcdctl get --prefix /torch/elastic", "stale-rendezvous/etcdctl-v3")
    assert not says("Killed", "container/killed-by-signal-9")  # a starting point, no cause
    assert first_cause("") is None
    assert findings_of(["fine"], "its log", "ray-job") == ()


def test_a_text_of_a_run_is_judged_in_no_time() -> None:
    log = [f"step {n} loss 1.{n}" for n in range(5000)] + [CUDA]
    judge_text("warm")
    assert first_cause(log)
    assert cpu_seconds(lambda: first_cause(log), 0.5) < 0.5


def test_free_text_is_not_matched_by_private_lists_of_words() -> None:
    """Modules that judge free text of others ask the knowledge base."""
    root = Path(__file__).parents[3] / "runbooks"
    users = {
        str(p.relative_to(root)).split("/")[0] for p in root.rglob("*.py") if "triage.text import" in p.read_text()
    }
    assert users >= {
        "container", "spawning", "rendezvous", "ray", "checkpoint", "data",
    }


@pytest.mark.parametrize("slug", ["checkpoint-fallback", "data-check"])
def test_a_job_log_that_speaks_of_something_else_stands_in_the_report(slug: str) -> None:
    """Neither the data nor the checkpoints are what ended it."""
    seen: dict[str, Any] = {"node": "a", "taken_at": "2026-01-01T00:00:00Z", "log": {"kind": "known", "value": CUDA}}
    limits = load_runbook(slug).limit_values()
    if slug == "data-check":
        from runbooks.data import diagnose as data
        from runbooks.data.evidence import Evidence as DataEvidence

        found = data.diagnose(DataEvidence.model_validate(seen), data.Limits(**limits)).findings
    else:
        from runbooks.checkpoint import diagnose as room
        from runbooks.checkpoint.evidence import Evidence as CheckpointEvidence

        tier = {"name": "nvme", "kind": "nvme", "path": "/ckpt"}
        seen["config"] = {"kind": "known", "value": {"tiers": [tier], "naming": "step_{step}.pt"}}
        found = room.diagnose(CheckpointEvidence.model_validate(seen), room.Limits(**limits)).findings
    assert [f.category for f in found if "/" in f.category] == ["memory-pressure/model-too-large"]
    assert "the job's log: " in found[-1].issue
