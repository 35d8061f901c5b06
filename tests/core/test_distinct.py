"""Advice from several sources is said once, and a narrow warning never takes the place of a wide one."""

import pytest

from runbooks.core.distinct import distinct, prohibitions


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("do not rotate keys", "rotate keys"), ("rotate keys",)),
        (("Never wipe etcd", "wipe  etcd"), ("wipe  etcd",)),
        (("Restart jobs", "NCCL_P2P_DISABLE it"), ("restart jobs", "NCCL_P2P_DISABLE it")),
        (("raise memory", "raise memory: it is not what ran out"), ("raise memory: it is not what ran out",)),
        (("kill -9 in a loop", "kill -9 in a loop (nobody hears it)"), ("kill -9 in a loop (nobody hears it)",)),
        (("reset the GPU", "reset a shared GPU"), ("reset the GPU", "reset a shared GPU")),
        (("reset a shared GPU", "reset the GPU"), ("reset a shared GPU", "reset the GPU")),
        (("raise MaxAuthTries", "raise MaxAuthTries fleet-wide"), ("raise MaxAuthTries", "raise MaxAuthTries fleet-wide")),
        (("kill it: it lives", "kill -CONT behind its back"), ("kill it: it lives", "kill -CONT behind its back")),
        (("delete A", "delete B"), ("delete A", "delete B")),
        (("delete /data/a", "delete /data/b"), ("delete /data/a", "delete /data/b")),
        (
            ("end pid 4 of job x on node a while it writes", "end pid 5 of job x on node a while it writes"),
            ("end pid 4 of job x on node a while it writes", "end pid 5 of job x on node a while it writes"),
        ),
        (("…", "…"), ("…",)),
        ((), ()),
    ],
)
def test_prohibitions(given: tuple[str, ...], said: tuple[str, ...]) -> None:
    assert prohibitions(given) == tuple(f"Do not {text}" for text in said)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("df inside", "df -h inside the pod"), ("df -h inside the pod",)),
        (("the kernel log of node 1", "the kernel log of node 2"), ("the kernel log of node 1", "the kernel log of node 2")),
        (("step counter twice", "power and clocks"), ("step counter twice", "power and clocks")),
    ],
)
def test_readings(given: tuple[str, ...], said: tuple[str, ...]) -> None:
    assert distinct(given) == said
