"""A sentence that says a fault is not there, was meant, or is over names no guilty cause."""

import pytest

from runbooks.triage.text import judge_lines

DENIALS = (
    "getpeername failed: Transport endpoint is not connected",
    "worker process is running and healthy, 12 jobs claimed since 02:10",
    "all nodes answer, no GPU is lost",
    "bid raised; the pod was not outbid",
    "HTTP 403 for /metrics: denied: requested access is for admins",
    "the disk is 81% full, no alarm",
    "0 jobs failed, 0 workers died, 12 completed",
    "the liveness probe is defined and has not failed",
    "No Xid in dmesg, no ECC errors, no throttling",
    "the checkpoint is not corrupt: sha256 matches, torch.load works",
    "ssh works from here and from CI, port 22 is open",
    "PVC bound, pod Running, restarts 0, ready 1/1",
    "exit code 0 after 3 h, container removed by --rm",
    "NCCL_TIMEOUT=1800 is set; all_reduce takes 0.2 s",
    "watchdog: nothing wrong in 24 h",
    "clock skew 0.0002 s between gpu-a and gpu-b",
    "the queue is empty and all workers are idle since the batch is done",
    "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!",
    "AttributeError: module torch has no attribute compile",
    "the run id is new, no key exists below /torch/elastic",
    "etcd: 3 members, all healthy, leader elected, db size 20 kB",
    "file limits: ulimit -n 1048576, open files 812",
    "nvidia-smi: 8 GPUs, 0 MiB used on each, no process, as expected before the start",
    "GPU util 0% because the job waits in the queue (PENDING)",
    "loader-workers: 8, prefetch 4, data wait 1% of the step",
    "ls: cannot access /data/optional.yaml: No such file or directory (optional)",
    "the pod was terminated by us at 10:00 as planned",
    "spot instance, not preempted so far",
    "OOMKilled: false, ExitCode: 0, Status: exited",
    "Ray head restarted as planned, all 4 workers reconnected within 20 s",
    "no OOM kill in the kernel log",
    "exit code 137 was expected: we ran docker kill ourselves",
    "not a permission problem: ls -l shows op op 0644",
    "there is no stale rendezvous state: etcdctl ls /torch is empty",
    "NCCL WARN is set to be shown; nothing was shown",
    "disk is not full: 900G free, inodes 3%",
    "the file is not truncated: size matches the manifest",
    "container is not restarting; restart count 0",
    "no zombie processes, no D state",
    "the key is registered: fingerprint matches authorized_keys",
    "authorized_keys is not empty and has mode 600",
    "the image was pulled in 40 s, no unauthorized error",
    "pod is not out of credit, balance 120 USD",
    "the token is not expired, valid until tomorrow",
    'no "Connection refused" and no time-out: curl answers 200',
    "port 29500 is free, nobody listens",
    "no port 22 problem: sshd is running and listening on port 22",
    "the heartbeat is fresh, 3 s ago, status active, 2 tasks",
    "the orchestrator runs its cycle every 30 s",
    "there is no deadlock: py-spy shows all ranks in backward",
    "etcd has no alarm, no leader change in 30 days",
    "memory is fine: 400 GiB available of 512 GiB",
    "GPU memory 70 of 80 GiB used by our own job, stable",
    "no NaN: loss 2.1, grad norm 0.7",
    "the dataset is complete: 1000 of 1000 shards, checksums match",
    "the clock of both nodes agrees within 1 ms",
    "Readiness probe failed: HTTP 503 during the first 20 s, then ready",
    'Pulling image "org/app:7"',
    "docker stop ray (planned maintenance) -> Exited (137), started again, Up 3 hours",
    "systemctl restart docker; all containers Up 2 minutes",
    "kernel: docker0: port 1(veth12) entered blocking state",
    "kernel: IPv6: ADDRCONF(NETDEV_CHANGE): eth0: link becomes ready",
    "sshd[1]: Server listening on 0.0.0.0 port 22.",
    "[rank0]:I1102 ProcessGroupNCCL.cpp:905] [PG ID 0 Rank 0] ProcessGroupNCCL initialization options: TIMEOUT(ms): 600000",
    'ray.init(address="auto", ignore_reinit_error=True)',
    "checkpoint loaded from /ckpt/step_100.pt (strict=True), resuming at step 100",
    "botocore.retryhandler DEBUG No retry needed.",
    "S3: PutObject 200 OK 3.1 GB in 12 s",
    "ValueError handled: fell back to default config",
)


@pytest.mark.parametrize("text", DENIALS)
def test_what_is_denied_is_no_cause(text: str) -> None:
    outcome = judge_lines(text)
    assert [(c.slug, c.evidence) for c in outcome.causes if not c.benign] == []
    assert outcome.inconclusive == ()


def test_a_socket_is_no_mount() -> None:
    """The same errno and words: a socket whose peer has gone, by the frame above it."""
    text = """Traceback (most recent call last):
  File "/app/net.py", line 12, in close
    self.sock.shutdown(socket.SHUT_RDWR)
OSError: [Errno 107] Transport endpoint is not connected"""
    assert "stale-fuse" not in [c.slug for c in judge_lines(text).causes]
    assert "stale-fuse" in [c.slug for c in judge_lines("ls: /mnt/s3: Transport endpoint is not connected").causes]
