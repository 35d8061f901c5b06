"""The real probe on this machine: real processes at a real limit, a full /dev/shm in a mount namespace, a name of nobody."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from runbooks.core.fleet import Fleet, Job, Node
from runbooks.core.knowledge import load_runbook
from runbooks.core.launch_config import Launch
from runbooks.core.reading import Known, UnknownReason
from runbooks.core.verdict import Certainty, Diagnosis, State
from runbooks.host.diagnose import Limits, diagnose
from runbooks.host.evidence import Evidence
from tasks.context import Context
from tasks.host.probes import host_limits
from tasks.host.read import gather_host_limits, names_of
from tasks.remote.probes import names
from tasks.transport.base import CommandResult, TransportError
from tasks.transport.local import LocalHost
from tests.support.need import need_program

LIMITS = Limits(**load_runbook("host-limits").limit_values())
FILES = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
held = [open("/dev/null") for _ in range(60)]
print("ready", flush=True)
sys.stdin.read()
"""
INOTIFY = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
os.setresuid(12345, 12345, 12345)  # a user of nobody else
watching = libc.inotify_init()
assert [libc.inotify_add_watch(watching, p, 2) for p in (b"/", b"/proc")] == [1, 2]
r, w = os.pipe()
if os.fork() == 0:
    os.close(w)
    os.read(r, 1)
    os._exit(0)
more = [libc.inotify_init() for _ in range(3)]
print("ready", flush=True)
sys.stdin.read()
"""
SHM = "mount -t tmpfs -o size=4m shm /dev/shm && head -c 4067328 /dev/zero > /dev/shm/batch && echo ready && read x"


@contextmanager
def living(*argv: str) -> Iterator[int]:
    """A process that has come to where it is looked at, until it is let go."""
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        try:
            yield child.pid
        finally:
            child.kill()


def context(host: Any = None, match: str = "", **more: Any) -> Context:
    jobs = (Job(name="job", match=match),) if match else ()
    fleet = Fleet(nodes=(Node(name="a", local=True),), jobs=jobs)
    return Context(fleet=fleet, target="a", open_host=lambda n: host or LocalHost(n.name), **more)


def look(match: str, **more: Any) -> tuple[Evidence, Diagnosis]:
    seen = gather_host_limits(context(match=match, **more))
    return seen, diagnose(seen, LIMITS)


def test_a_process_that_has_opened_all_its_files() -> None:
    with living(sys.executable, "-c", FILES, "hl-files-job") as pid:
        seen, got = look("hl-files-job")
        cause = next(c for c in got.causes if f"pid {pid} " in c.subject)
        assert (cause.slug, cause.certainty) == ("fd-limit", Certainty.CONFIRMED)
        assert "has 63 of 64 open files (98 %)" in cause.evidence[0]
        assert seen.jobs == 1
        assert got.state is State.UNHEALTHY
        assert f"prlimit --pid {pid} --nofile=128:" in got.by_hand
        _, got = look("no-such-job-anywhere")
        assert [c for c in got.causes if f"pid {pid} " in c.subject], "near its limit, job or not"


def test_a_full_shared_memory_in_another_mount_namespace() -> None:
    unshare = need_program("unshare", "util-linux")
    with living(unshare, "-m", "sh", "-c", SHM, "hl-shm-job") as pid:
        seen, got = look("hl-shm-job")
        assert isinstance(seen.shm, Known)
        cause = next(c for c in got.causes if c.slug == "shm-too-small")
        assert (cause.subject, cause.certainty) == (f"/dev/shm of pid {pid}", Certainty.CONFIRMED)
        assert "3.9 MiB of 4 MiB (97 %)" in cause.evidence[0]
        assert len({g.subject for g in seen.shm.value}) == len(seen.shm.value)


def test_a_name_of_nobody_in_bounded_time() -> None:
    began = time.monotonic()
    seen, got = look("", options={"names": "localhost, no-such-host.invalid"})
    assert time.monotonic() - began < 12
    assert isinstance(seen.names, Known)
    assert [n.said == "resolved" for n in seen.names.value] == [True, False]
    cause = next(c for c in got.causes if c.slug == "name-not-resolved")
    assert cause.subject == "no-such-host.invalid"
    assert cause.certainty in (Certainty.CONFIRMED, Certainty.LIKELY)
    assert "name server" in cause.evidence[1] or "/etc/resolv.conf" in cause.evidence[1]


@pytest.mark.parametrize(("seconds", "asked"), [(5.01, ["10.0.0.2", "10.0.0.3"]), (0.2, [])])
def test_the_servers_of_a_late_name_are_asked(seconds: float, asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "lookup", lambda _: {"said": "resolved", "seconds": seconds})
    monkeypatch.setattr(names, "servers", lambda: ["10.0.0.2", "10.0.0.3"])
    monkeypatch.setattr(names, "query", lambda server, *_: "no answer" if server == "10.0.0.2" else "NOERROR")
    (found,) = names.resolve(["master-0"], 6.0, 5.0)
    assert [s["address"] for s in found["servers"]] == asked
    assert found["said"] == "resolved"


def test_a_clock_that_differs_is_bounded_by_the_way() -> None:
    """The asking machine's clock is 60 s ahead: the node is at least about that far behind."""
    seen, got = look("", now=lambda: datetime.now(UTC) + timedelta(seconds=60))
    assert isinstance(seen.clock, Known)
    assert seen.clock.value.least_s <= -60 <= seen.clock.value.most_s < -30
    assert "clock-skew" in [c.slug for c in got.causes]


class Silent(LocalHost):
    """A node that does not answer in the way it was told."""

    def __init__(self, why: UnknownReason) -> None:
        super().__init__("a")
        self.why = why

    def run(self, argv: Any, **_: Any) -> CommandResult:
        raise TransportError(self.why, "as told", "python3 -")


@pytest.mark.parametrize("why", [UnknownReason.DENIED, UnknownReason.TIMED_OUT, UnknownReason.TOOL_MISSING, UnknownReason.UNREACHABLE])
def test_a_node_that_was_not_read_is_not_healthy(why: UnknownReason) -> None:
    got = diagnose(gather_host_limits(context(Silent(why))), LIMITS)
    assert got.state is State.CANNOT_TELL
    assert len(got.unknowns) == len(set(got.unknowns)) > 10, "each reading is named"
    assert all(f": {why.words}: as told" in u for u in got.unknowns)


def test_names_of_the_fleet_that_a_node_needs() -> None:
    command = ("torchrun", "--rdzv-endpoint=master-0:29500", "train.py")
    fleet = Fleet(
        nodes=(Node(name="a", local=True), Node(name="b", host="gpu-b.example"), Node(name="c", host="10.0.0.3")),
        launches=(Launch(name="train", nodes=("a",), command=command, env={"MASTER_ADDR": "10.0.0.9"}),),
    )
    asked = Context(fleet=fleet, target="a", open_host=lambda n: LocalHost(n.name), options={"names": ["x.example"]})
    assert names_of(asked) == {
        "x.example": ("the option `names`", True),
        "master-0": ("launch train", True),
        "gpu-b.example": ("address of node b", False),
    }


def test_secrets_of_a_command_line_are_replaced_before_it_is_cut() -> None:
    with living(sys.executable, "-c", FILES, "hl-secret-job", "--password=hunter2-hunter2") as pid:
        seen, got = look("hl-secret-job")
        assert "hunter2" not in seen.model_dump_json() + got.model_dump_json()
        assert f"pid {pid} " in got.headline


def test_inotify_instances_and_watches_are_counted_for_their_user() -> None:
    """One that a child was born with is still one; three without a watch are three."""
    with living(sys.executable, "-c", INOTIFY, "hl-inotify-job"):
        after = inotify()
    before = inotify()
    assert {k: after[k] - before.get(k, 0) for k in after} == {"inotify instances": 4, "inotify watches": 2}


def inotify() -> dict[str, int]:
    seen = gather_host_limits(context())
    assert isinstance(seen.inotify, Known)
    return {g.of: g.used for g in seen.inotify.value if g.subject == "user 12345"}


@pytest.mark.parametrize(("opened", "limit", "small"), [
    ("/dev/infiniband/uverbs0", 64 << 10, True), ("/dev/infiniband/uverbs0", 1 << 30, False), ("/dev/null", 64 << 10, False),
])  # fmt: skip
def test_a_small_limit_of_locked_memory_is_marked_where_an_rdma_device_is_open(
    monkeypatch: pytest.MonkeyPatch, opened: str, limit: int, small: bool
) -> None:
    soft = {"Max open files": 1024, "Max locked memory": limit, "Max processes": 1024}
    monkeypatch.setattr(host_limits, "limits", lambda _: soft)
    monkeypatch.setattr(host_limits, "link", lambda _: opened)
    monkeypatch.setattr(host_limits, "capable", lambda *_: False)
    now = {"state": "S", "comm": "python", "fds": 3, "uid": 0, "threads": 1}
    out: dict[str, list[Any]] = {"files": [], "locked": [], "threads": []}
    host_limits.of_process(os.getpid(), now, {0: 1}, out)
    (locked,) = out["locked"]
    assert (locked["limit"], locked.get("default", False)) == (limit, small)
