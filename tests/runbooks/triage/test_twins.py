"""A text and its twin that differs in the one thing that decides: the cause stands in the first and not in the second."""

import pytest

from runbooks.triage.text import judge_lines

ROWS = "48121, 11032 MiB, VLLM::Worker\n"
SHARDS = "socket.cpp:487 [c10d] waitForInput: socket SocketImpl(fd=9) timed out after 600000ms"
OFI = "NCCL WARN NET/OFI OFI fi_getinfo() call failed: No data available\n"
WRITER = "PytorchStreamWriter failed writing file data/3: file write failed\n"
NO_SIGS = "Server did not send a server-sig-algs list; defaulting to our first preferred algo ('rsa-sha2-512')\n"
HUB = "[ERROR] URL https://registry-1.docker.io/v2/{}/manifests/a returned error code: 401 Unauthorized"
TWINS = {
    "left by a container": (
        "orphan-idle",
        f"$ docker rm -f a\n{ROWS}the worker is still running on the host",
        f"$ docker restart a\n{ROWS}the worker is still running, as it should",
    ),
    "docker stop hangs": (
        "unkillable",
        "# docker kill web\n# never returns; its process is in state D",
        "# docker kill web\n# returns at once; no process is in state D",
    ),
    "pauses between steps": (
        "starved-by-loader",
        "the GPUs at 0 % between steps, the data is on NFS",
        "GPU memory is freed between steps, the data is on NFS",
    ),
    "a server without requests": (
        "waiting-for-work",
        "vLLM server, GPU util 0 %: no requests are running",
        "vLLM server, GPU util 0 %: no requests are running, 12 are waiting",
    ),
    "slower than the store's limit": (
        "timeout-while-one-rank-prepares",
        f"Loading checkpoint shards: 50%|##| 2/4 [12:11<12:11, 365.2s/it]\n{SHARDS}",
        f"Loading checkpoint shards: 100%|##| 4/4 [00:04<00:00, 1.33s/it]\n{SHARDS}",
    ),
    "EFA is wanted": (
        "rdma-missing",
        f"{OFI}the pod asks for EFA devices and /dev/infiniband is not in it",
        f"{OFI}NCCL INFO Using network Socket",
    ),
    "a registry's name on Docker Hub": ("image-not-found", HUB.format("corp.io/ml/app"), HUB.format("ml/app")),
    "an old server": (
        "rsa-sha2-unknown-to-server",
        f"{NO_SIGS}Authentication (publickey) failed.",
        f"{NO_SIGS}Authentication (publickey) successful!",
    ),
    "DCP's marker": (
        "killed-mid-save",
        "step_2000 holds __0_0.distcp and no .metadata",
        "step_2000 holds __0_0.distcp and its .metadata",
    ),
    "a full disk": (
        "truncated-by-full-disk",
        f"{WRITER}df: /ckpt: Disk quota exceeded",
        f"{WRITER}df: /ckpt has 3 TB free",
    ),
    "an unknown header": (
        "s3-checksum-dialect",
        "Unsupported header 'x-amz-sdk-checksum-algorithm' received for this API call.",
        "sent header 'x-amz-sdk-checksum-algorithm', 200 OK",
    ),
    "in the driver": (
        "driver-stuck",
        "python of the GPU job is in state D for an hour",
        "the backup of the mail server is in state D for an hour",
    ),
    "it saves": (
        "writing-checkpoint",
        "the GPUs are at 0 %: Saving checkpoint at step 1500, then it goes on",
        "the GPUs are at 0 %: Saving checkpoint at step 1500, stuck for two hours",
    ),
}


@pytest.mark.parametrize("name", TWINS)
def test_one_thing_decides(name: str) -> None:
    slug, text, twin = TWINS[name]
    assert slug in [c.slug for c in judge_lines(text, {}).causes]
    assert slug not in [c.slug for c in judge_lines(twin, {}).causes]
