"""The commands of a report, pasted into a shell, repair a real etcd."""

import json
import os
import signal
import urllib.error
import urllib.request
from pathlib import Path

from runbooks.rendezvous.plans import probing
from tests.support.etcd import Etcd, real_etcd
from tests.support.printed import by_hand
from tests.support.rendezvous import context_of, fast, look, place, slugs
from tests.tasks.rendezvous.test_etcd_acts import dead_run, legacy_run


def test_a_dead_runs_keys_go(etcd: Etcd, tmp_path: Path) -> None:
    """Exactly its keys, of both backends; a key that was written meanwhile stays."""
    for run in ("job", "job1"):
        dead_run(etcd, run)
    legacy_run(etcd, "old")
    before = etcd.leaves()
    for target, name in (("t/job", "clear run job (etcd-v2)"), ("t/old", "clear run old (etcd)")):
        context = fast(context_of(place(etcd.url), tmp_path / "reports", target))
        plan = next(p for p in look(context)[1].plans if p.name == name)
        done = by_hand(plan.steps)
        assert done.returncode == 0, (plan.steps[0].commands, done.stderr)
        assert name not in [p.name for p in look(context)[1].plans]
    after = etcd.leaves()
    assert after == {k: v for k, v in before.items() if "job1" in k or "job1" in _decoded(k)}
    context = fast(context_of(place(etcd.url), tmp_path / "reports", "t/job1"))
    plan = next(p for p in look(context)[1].plans if p.name == "clear run job1 (etcd-v2)")
    etcd.put("/torch/elastic/rendezvous/job1", "new")
    by_hand(plan.steps)
    assert etcd.leaves() == {"/torch/elastic/rendezvous/job1": "new"}


def _decoded(key: str) -> str:
    import base64

    last = key.rpartition("/")[2]
    try:
        return base64.b64decode(last).decode()
    except ValueError:
        return ""


def test_etcd_is_started_with_its_data(tmp_path: Path) -> None:
    with real_etcd(tmp_path) as etcd:
        dead_run(etcd, "job")
        before = etcd.leaves()
        pidfile, script, client, peer = tmp_path / "pid", tmp_path / "start.sh", etcd.url, f"http://127.0.0.1:{etcd.peer}"
        script.write_text(
            f"cd {tmp_path}; setsid etcd --name t --data-dir data --enable-v2=true --listen-client-urls {client} "
            f"--advertise-client-urls {client} --listen-peer-urls {peer} --initial-advertise-peer-urls {peer} "
            f"--initial-cluster t={peer} >>log2 2>&1 </dev/null & echo $! > {pidfile}"
        )
        start = {"node": "local", "command": ("sh", str(script)), "data_dir": str(tmp_path / "data")}
        context = context_of(place(etcd.url, start=start), tmp_path / "reports", "t")
        etcd.stop()
        _, found = look(fast(context))
        assert [s.kind for p in found.plans for s in p.steps] == ["start-etcd"]
        try:
            assert by_hand(found.plans[0].steps).returncode == 0
            for _ in range(30):
                if "etcd-down" not in slugs(look(fast(context))[1]):
                    break
            assert etcd.leaves() == before
        finally:
            os.kill(int(pidfile.read_text()), signal.SIGKILL)


def test_a_full_etcd_has_room_again(tmp_path: Path) -> None:
    """A real no-space alarm from a small quota."""
    with real_etcd(tmp_path, "--quota-backend-bytes=2000000") as server:
        dead_run(server, "job")
        before = server.leaves()
        body = json.dumps({"key": "eA==", "value": "eHh4" * 25_000}).encode()
        said = ""
        for _ in range(100):  # a slow disk may let one time out: only etcd's own word ends it
            try:
                urllib.request.urlopen(f"{server.url}/v3/kv/put", data=body, timeout=20).read()  # noqa: S310
            except urllib.error.HTTPError as e:
                if "space" in (said := e.read().decode(errors="replace")):
                    break
        assert "space" in said
        context = fast(context_of(place(server.url), tmp_path / "reports", "t"))
        _, found = look(context)
        assert "etcd-full" in slugs(found)
        steps = [s for p in found.plans for s in p.steps if s.kind == "defragment-etcd"]
        done = by_hand(steps)
        assert done.returncode == 0, (steps[0].commands, done.stderr)
        assert "etcd-full" not in slugs(look(context)[1])
        assert server.leaves() == before


def test_an_id_is_one_word_of_the_printed_probe(etcd: Etcd, tmp_path: Path) -> None:
    """Ids are what somebody else wrote into etcd; the endpoint is filled in."""
    run = "a'; touch evil #b"
    dead_run(etcd, "job")
    probe = {"command": ("printf", "%s ", "--rdzv-id={run}", "{endpoint}"), "nodes": ("local",), "expect": "rank"}
    context = fast(context_of(place(etcd.url, probe=probe), tmp_path / "reports", "t/job"))
    evidence, found = look(context)
    (step,) = [s for p in found.plans for s in p.steps if s.kind == "probe-rendezvous"]
    for given, command in (("job", step.commands[0]), (run, probing(run, evidence))):
        done = by_hand([step.model_copy(update={"commands": (command,)})])
        assert done.stdout == f"--rdzv-id={given} {etcd.url} "
