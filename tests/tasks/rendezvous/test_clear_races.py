"""An agent that joins or begins, as a process of its own, while its run's keys are deleted or put back."""

import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import quote

import pytest

from runbooks.core.plan import Step
from runbooks.rendezvous.plans import deleting
from tasks.context import ActionRefused
from tasks.remote.probe import run_probe
from tasks.rendezvous import act
from tasks.rendezvous.act import ActionUnfinished, _clear, probe_rendezvous
from tasks.rendezvous.etcd import read_runs
from tasks.transport.local import LocalHost
from tests.support.etcd import Etcd, real_etcd
from tests.support.racing import meanwhile, process
from tests.support.rendezvous import context_of, place
from tests.tasks.rendezvous.test_attacks import AGENT, running
from tests.tasks.rendezvous.test_etcd_acts import dead_run

KEY = "/torch/elastic/rendezvous/job"
JOINS = """
import json, sys, time, urllib.parse, urllib.request
url, mode = sys.argv[1], sys.argv[2]
def call(method, data=None, **query):
    u = url + ("?" + urllib.parse.urlencode(query) if query else "")
    body = urllib.parse.urlencode(data).encode() if data else None
    try:
        with urllib.request.urlopen(urllib.request.Request(u, data=body, method=method), timeout=5) as answer:
            return json.load(answer)["node"]
    except urllib.error.HTTPError as e:
        return None
for line in sys.stdin:
    time.sleep(float(line))
    if mode == "joins":  # compare-and-swap as torch does: of the state that is there, else a new one
        there = call("GET", quorum="true")
        how = {"prevIndex": there["modifiedIndex"]} if there else {"prevExist": "false"}
    else:
        how = {"prevExist": "false"}
    print("wrote" if call("PUT", {"value": "theirs"}, **how) else "beaten", flush=True)
"""
TRIES = pytest.mark.parametrize("tries", [6, pytest.param(100, marks=pytest.mark.soak)])


@pytest.fixture(scope="module")
def etcd() -> Iterator[Etcd]:
    """In memory: each try writes a dozen keys, and each waits for the disk."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder, real_etcd(Path(folder)) as server:
        yield server


class Writer:
    """Told to write at one of so many moments: the first one is before we begin, the last one after we have ended."""

    def __init__(self, p: "subprocess.Popen[str]", lasts: float, n: int, tries: int) -> None:
        self.p, self.last, self.begun, self.said = p, n == tries - 1, time.perf_counter(), ""
        if not self.last:
            self.tell(lasts * n / tries)
        if n == 0:
            self.said = self.listen()

    def tell(self, after_s: float) -> None:
        assert self.p.stdin is not None
        self.p.stdin.write(f"{after_s:.6f}\n")
        self.p.stdin.flush()

    def listen(self) -> str:
        assert self.p.stdout is not None
        return self.p.stdout.readline().strip()

    def lasted(self) -> float:
        """Seconds since it was told."""
        return time.perf_counter() - self.begun

    def answer(self) -> str:
        """wrote, or beaten."""
        if self.last:
            self.tell(0)
        self.said = self.said or self.listen()
        assert self.said in ("wrote", "beaten")
        return self.said


def emptied(etcd: Etcd) -> None:
    for key in etcd.leaves():
        etcd.call("DELETE", f"/v2/keys{quote(key)}")


@TRIES
def test_an_agent_that_joins_while_its_run_is_deleted(etcd: Etcd, tmp_path: Path, tries: int) -> None:
    """What it wrote stands there in the end; and no key is deleted once it was seen."""
    host, where, seen = LocalHost("local"), place(etcd.url), set()
    context = context_of(where, tmp_path)
    with process(JOINS, f"{etcd.url}/v2/keys{KEY}", "joins") as p:
        lasts = 0.2
        for n in range(tries):
            emptied(etcd)
            dead_run(etcd, "job")
            run = next(r for r in read_runs(host, where) if r.run == "job")
            assert run.rendezvous is not None
            args = deleting(run, where.name, where.etcd_endpoint)
            assert args.guard == (KEY, run.rendezvous.modified)
            writer = Writer(p, lasts, n, tries)
            said, stopped = _clear(args, context, host, where)
            lasts = writer.lasted()
            writer.answer()
            left = etcd.leaves()
            joined = left.get(KEY) == "theirs"
            assert joined or KEY not in left, "the run's own key went, or theirs stands there"
            assert stopped == "" or joined, (said, stopped)
            seen.add((joined, bool(stopped)))
    assert (True, True) in seen, "it joined before we began"


@TRIES
def test_an_agent_that_begins_while_its_run_is_put_back(etcd: Etcd, tries: int) -> None:
    """Either of the two has the run; never one's rendezvous with the other's store."""
    host, where, seen = LocalHost("local"), place(etcd.url), set()
    with process(JOINS, f"{etcd.url}/v2/keys{KEY}", "begins") as p:
        lasts = 0.2
        for n in range(tries):
            emptied(etcd)
            dead_run(etcd, "job")
            run = next(r for r in read_runs(host, where) if r.run == "job")
            keys = sorted(run.keys, key=lambda k: (k.key.count("/"), k.key != KEY))
            puts = [{"key": k.key, "value": k.value, "dir": k.dir, "ttl": None} for k in keys if not k.dir]
            puts.sort(key=lambda k: k["key"] != KEY)
            emptied(etcd)
            writer = Writer(p, lasts, n, tries)
            answer = run_probe(host, "rdzv_restore", where.access | {"puts": puts}, timeout_s=30)
            lasts = writer.lasted()
            theirs = writer.answer() == "wrote"
            left = etcd.leaves()
            assert (left.get(KEY) == "theirs") is theirs
            assert bool(answer["stopped"]) is theirs, answer
            assert set(left) == ({KEY} if theirs else {k["key"] for k in puts})
            seen.add(theirs)
    assert seen == {True, False}


def test_a_real_start_while_its_id_is_tried(etcd: Etcd, tmp_path: Path) -> None:
    """Before the look nothing is tried; after it the real run's keys stay, because it lives, and the step has failed."""
    tried = tmp_path / "tried"
    probe = {"command": ("sh", "-c", f"echo world >> {tried}; cat {tried}"), "nodes": ("local",), "expect": "world", "timeout_s": 20}
    context = context_of(place(etcd.url, probe=probe), tmp_path / "reports", "t/job")
    args = {"rendezvous": "t", "run": "job", "backend": "etcd-v2"}
    step = Step(kind="probe-rendezvous", owner="etcd", args=args, commands=(), effect="")
    etcd.call("DELETE", "/v2/keys/torch?recursive=true&dir=true")  # what other tests of this file left
    assert "the probe left nothing behind" in probe_rendezvous(step, context).said
    with ExitStack() as stack:

        def begins() -> None:
            stack.enter_context(running([*AGENT, "--rdzv-backend=etcd-v2", "--rdzv-id=job", "x.py"]))
            dead_run(etcd, "job")

        with meanwhile(act, "_runs", begins), pytest.raises(ActionUnfinished, match="keys of run job stay: processes of run job"):
            probe_rendezvous(step, context)
        assert tried.read_text() == "world\n" * 2
        there = etcd.leaves()
        assert any("job" in key for key in there)
        with pytest.raises(ActionRefused, match="somebody started it"):
            probe_rendezvous(step, context)
        assert etcd.leaves() == there
    assert tried.read_text() == "world\n" * 2
