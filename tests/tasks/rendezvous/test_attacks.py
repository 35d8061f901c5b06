"""Attempts to make it delete a living run, or more than one run: stopped and hidden agents, odd ids, cut connections."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

import pytest

from tasks.context import ActionRefused, Context
from tasks.rendezvous.act import ActionUnfinished
from tests.support.etcd import Etcd, real_etcd
from tests.support.rendezvous import act, context_of, fast, look, place, slugs
from tests.support.soak import record
from tests.tasks.rendezvous.test_etcd_acts import asked, dead_run, legacy_run

SLEEP = "import sys, time; sys.stdout.write('up\\n'); sys.stdout.flush(); time.sleep(300)"
AGENT = [sys.executable, "-c", SLEEP, "torchrun", "--nnodes=2"]


@contextmanager
def running(argv: list[str], env: dict[str, str] | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has begun; ended with everything below it."""
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, env=env, start_new_session=True)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"up\n"
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.stdout.close()
        process.wait()


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    with real_etcd(tmp_path_factory.mktemp("etcd")) as server:
        yield server


@pytest.fixture(autouse=True)
def emptied(etcd: Etcd) -> None:
    for key in etcd.leaves():
        etcd.call("DELETE", f"/v2/keys{quote(key)}")


LIVING = {  # run id -> what of it lives
    "stopped": ([*AGENT, "--rdzv-backend=etcd-v2", "--rdzv-id=stopped", "x.py"], {}),
    "spaces": (
        [
            "unshare",
            "--pid",
            "--uts",
            "--fork",
            "--kill-child",
            *AGENT,
            "--rdzv-backend",
            "etcd-v2",
            "--rdzv-id",
            "spaces",
            "x.py",
        ],
        {},
    ),
    "short": ([*AGENT, "--rdzv-b=etcd-v2", "--rdzv_i", "short", "x.py"], {}),
    "pet": ([*AGENT, "x.py"], {"PET_RDZV_BACKEND": "etcd-v2", "PET_RDZV_ID": "pet"}),
    "orphan": ([sys.executable, "-c", SLEEP], {"TORCHELASTIC_RUN_ID": "orphan", "RANK": "1"}),
    "huge": (
        [sys.executable, "-c", SLEEP],
        {f"PAD{i}": "x" * 100_000 for i in range(15)} | {"TORCHELASTIC_RUN_ID": "huge"},
    ),
}


def known(etcd: Etcd, folder: Path, runs: Iterable[str]) -> Context:
    """All of these ids are used again and again."""
    where = place(etcd.url, runs=dict.fromkeys(runs, "train"))
    return fast(context_of(where, folder / "reports", "t"))


def test_a_closed_run_with_something_alive_is_never_planned(etcd: Etcd, tmp_path: Path) -> None:
    """Rounds are closed and no heartbeat moves: only a process says that something lives, each hidden in another way."""
    for run in LIVING:
        dead_run(etcd, run)
    context, before = known(etcd, tmp_path, LIVING), etcd.leaves()
    plans = look(context)[1].plans
    assert len(plans) == len(LIVING)
    with ExitStack() as all_of_them:
        for run, (argv, env) in LIVING.items():
            process = all_of_them.enter_context(running(argv, os.environ | env))
            if run == "stopped":
                process.send_signal(signal.SIGSTOP)
        _, d = look(context)
        assert d.plans == (), d
        for plan in plans:
            with pytest.raises(ActionRefused, match="alive"):
                act(plan, context)
    assert etcd.leaves() == before


def test_a_program_of_torch_that_hides_its_environment_keeps_death_from_being_proven(
    etcd: Etcd, tmp_path: Path
) -> None:
    """A title that was set over the environment: whose worker it is cannot be read."""
    library = tmp_path / "libtorch_stand_in.so"
    library.write_bytes(b"x" * 4096)
    dead_run(etcd, "job")
    maps = f"import mmap; m = mmap.mmap((f := open({str(library)!r}, 'rb')).fileno(), 0, prot=1); {SLEEP}"
    with running(["env", "-i", sys.executable, "-c", maps]):
        _, d = look(asked(etcd, tmp_path, "t/job"))
    assert d.plans == ()
    assert "hide their environment" in str(d.causes[0].decides)


def test_a_live_agent_of_the_other_backend_does_not_hide_and_is_not_touched(etcd: Etcd, tmp_path: Path) -> None:
    """One id in both backends: only the dead one's keys go."""
    dead_run(etcd, "job")
    legacy_run(etcd, "job")
    legacy = {k: v for k, v in etcd.leaves().items() if k.startswith("/torchelastic")}
    context = asked(etcd, tmp_path, "t/job")
    with running([*AGENT, "--rdzv-backend=etcd", "--rdzv-id=job", "x.py"]):
        _, d = look(context)
        assert [p.name for p in d.plans] == ["clear run job (etcd-v2)"]
        act(d.plans[0], context)
    assert etcd.leaves() == legacy


def test_a_view_from_inside_a_container_proves_no_death(etcd: Etcd, tmp_path: Path) -> None:
    """The node's own processes are not all that may have joined."""
    dead_run(etcd, "job")
    where = place(etcd.url, contained=False)
    evidence, d = look(fast(context_of(where, tmp_path, "t/job")))
    facts = evidence.nodes[0].facts
    assert facts.kind == "known"
    if facts.value.inside:
        assert d.plans == ()
    else:
        assert len(d.plans) == 1


ODD = (
    "a b",
    "a/b",
    "../x",
    "job.0/MASTER_ADDR",
    "é☃",
    "x" * 3000,
    "%2e%2e",
    "job?recursive=true",
    "a\tb",
    "-f",
    "job.",
    "; touch ODD-ID-RAN",
    "$(touch ODD-ID-RAN)",
    "`touch ODD-ID-RAN`",
    "'; touch ODD-ID-RAN; '",
    "a\nb",
    "\u202ebj",
)


def test_odd_ids_never_take_others_with_them(etcd: Etcd, tmp_path: Path) -> None:
    """Whatever an id looks like: either its own keys go, or nothing does."""
    for run in ("job", "other"):
        dead_run(etcd, run)
    before = etcd.leaves()
    for odd in ODD:
        with suppress(ValueError):  # etcd redirects what looks like a path
            etcd.put(f"/torch/elastic/rendezvous/{odd}", before["/torch/elastic/rendezvous/job"])
        etcd.store(f"torch.rendezvous.{odd}.0/MASTER_PORT", "41000")
    assert len(etcd.leaves()) > len(before) + len(ODD)
    context = known(etcd, tmp_path, ODD)
    for plan in look(context)[1].plans:
        act(plan, context)
    assert {k: v for k, v in etcd.leaves().items() if k in before} == before
    assert not Path("ODD-ID-RAN").exists()
    saved = [p for p in tmp_path.rglob("*") if p.is_file()]
    assert {p.parent for p in saved} == {tmp_path / "reports" / "rendezvous"}, saved


class Cut:
    """A way to etcd that breaks at the n-th DELETE: before etcd gets it, or before its answer comes back."""

    def __init__(self, etcd: Etcd, nth: int, *, delivered: bool) -> None:
        self.etcd, self.nth, self.delivered, self.seen = etcd, nth, delivered, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self.listener.getsockname()[1])
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                with client, suppress(OSError):
                    self._one(client)

    def _one(self, client: socket.socket) -> None:
        with client.makefile("rwb") as stream:
            head = b"".join(iter(stream.readline, b"\r\n")) if stream.peek(1) else b""
            if not head:
                return  # somebody only looked whether the port is open
            length = re.search(rb"(?i)content-length: (\d+)", head)
            body = stream.read(int(length[1])) if length else b""
            cut = head.startswith(b"DELETE") and self._count() >= self.nth
            if cut and not self.delivered:
                return
            with socket.create_connection(("127.0.0.1", self.etcd.port)) as server:
                server.sendall(head + b"\r\n" + body)
                answer = b"".join(iter(lambda: server.recv(65536), b""))
                if not cut:
                    self.after(head)
                    stream.write(answer)

    def after(self, head: bytes) -> None:
        """Once etcd has answered and before the asker hears of it."""

    def _count(self) -> int:
        self.seen += 1
        return self.seen


MAKE, SOAK = [(2, True)], [(n, d) for n in (1, 2, 3, 4) for d in (False, True) if (n, d) != (2, True)]
CUTS = [*MAKE, *(pytest.param(n, d, marks=pytest.mark.soak) for n, d in SOAK)]


@pytest.mark.parametrize(("nth", "delivered"), CUTS)
def test_a_connection_cut_in_the_middle_leaves_nothing_worse(
    etcd: Etcd, tmp_path: Path, nth: int, *, delivered: bool
) -> None:
    """It stops, says so, and a second run ends it. Another run's keys are as they were."""
    dead_run(etcd, "job")
    dead_run(etcd, "other")
    cut = Cut(etcd, nth, delivered=delivered)
    broken = fast(context_of(place(f"http://127.0.0.1:{cut.port}"), tmp_path / "reports", "t/job"))
    _, d = look(broken)
    with pytest.raises(ActionUnfinished, match="put back with"):
        act(d.plans[0], broken)
    cut.listener.close()
    left = etcd.leaves()
    assert "/torch/elastic/rendezvous/job" in left or len(left) == 4  # never the store without its round
    context = asked(etcd, tmp_path, "t/job")
    _, again = look(context)
    for plan in again.plans:
        act(plan, context)
    assert "/torch/elastic/rendezvous/job" not in etcd.leaves()
    assert len(etcd.leaves()) == 4


class Joins(Cut):
    """Nothing breaks, but a new agent begins right after the old run's state is gone."""

    def after(self, head: bytes) -> None:
        if head.startswith(b"DELETE") and b"active_version" in head:
            self.etcd.put("/torchelastic/p2p/run_job/rdzv/active_version", '{"status": "setup"}')


def test_a_new_agent_of_the_old_backend_that_begins_meanwhile_finds_its_counter(etcd: Etcd, tmp_path: Path) -> None:
    """torch creates the state first and then reads the counter: were that deleted, the newcomer would fail."""
    legacy_run(etcd, "job")
    way = Joins(etcd, 99, delivered=True)
    context = fast(context_of(place(f"http://127.0.0.1:{way.port}"), tmp_path / "reports", "t/job"))
    said = act(look(context)[1].plans[0], context)[0].said
    way.listener.close()
    assert any("a new run has started" in s for s in said), said
    top = "/torchelastic/p2p/run_job/rdzv"
    assert etcd.leaves().keys() == {f"{top}/active_version", f"{top}/version_counter"}


@pytest.mark.soak
def test_etcd_on_an_ipv6_address(tmp_path: Path) -> None:
    """Names, loopback and ports in brackets: judged and cleared alike."""
    with real_etcd(tmp_path) as server:
        server.stop()
        server.url = f"http://[::1]:{server.port}"
        server.start()
        dead_run(server, "job")
        context = fast(context_of(place(server.url), tmp_path / "reports", "t/job"))
        _, d = look(context)
        assert slugs(d) == ["closed-round"], d
        act(d.plans[0], context)
        assert server.leaves() == {}


@pytest.mark.parametrize("runs", [4, pytest.param(60, marks=pytest.mark.soak)])
def test_a_store_that_was_never_cleaned(etcd: Etcd, tmp_path: Path, runs: int) -> None:
    """Hundreds of keys of each earlier run: one run goes, and the report does not carry the others' keys."""
    for n in range(runs):
        dead_run(etcd, f"old{n}")
        for rank in range(500 if runs > 4 else 25):
            etcd.store(f"torch.rendezvous.old{n}.0/torchelastic/role_info/{rank}", "x" * 100)
    before = etcd.leaves()
    context = asked(etcd, tmp_path, "t/old1")
    began = time.monotonic()
    evidence, d = look(context)
    looked = time.monotonic()
    act(d.plans[0], context)
    acted = time.monotonic()
    gone, report = len(d.plans[0].steps[0].args["keys"]), len(evidence.model_dump_json())
    assert len(before) - len(etcd.leaves()) == gone
    assert report < len(before) / runs * 1500 + runs * 4000
    if runs > 4:
        facts = {"keys": len(before), "runs": runs, "deleted": gone, "others_touched": 0, "evidence_kb": report // 1000}
        record("rendezvous_keys", facts | {"look_s": round(looked - began, 1), "clear_s": round(acted - looked, 1)})
