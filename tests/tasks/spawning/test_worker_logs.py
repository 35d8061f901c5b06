"""`gpu-runbooks logs worker/ID` in the whole world: the platform's log, the database's, the worker's own on its pod."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from deployments.cli import main as cli
from tasks.clients.pod_trust import FIRST_SEEN, Trust, record_key
from tests.tasks.spawning.conftest import POD, WORKER, World

NOW = datetime.now(UTC).replace(microsecond=0)
TABLE = "CREATE TABLE IF NOT EXISTS lines (n bigint GENERATED ALWAYS AS IDENTITY, at timestamptz, said text)"


def logs(world: World, capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, Any]:
    """Exit code and JSON."""
    path = world.folder / "fleet.yaml"
    path.write_text(world.fleet().model_dump_json())
    code = cli.main(["logs", *args, "--json", "--fleet", str(path)])
    return code, json.loads(capsys.readouterr().out)


@pytest.fixture
def three(world: World) -> World:
    """Three sources: platform, table, pod."""
    world.db.do(TABLE)
    world.db.do("TRUNCATE lines")
    lacks = dict.fromkeys(("severity", "source", "worker", "task", "cycle"), "")
    table = {"table": "lines", "id": "n", "time": "at", "message": "said"} | lacks
    world.fields = {"log_sources": {"table": table}}
    world.pod()
    world.railway.lines.clear()
    world.railway.say("ORCHESTRATOR CYCLE #12", NOW - timedelta(seconds=50))
    world.railway.say(f"Creating worker pod: {WORKER}", NOW - timedelta(seconds=40))
    world.railway.say("Failed to get workers: nothing", NOW - timedelta(seconds=30))
    world.railway.levels["Failed to get workers: nothing"] = "ERROR"
    world.db.do("INSERT INTO lines (at, said) VALUES ($1, $2)", NOW - timedelta(seconds=35), f"SSH available for {WORKER}: 1.2.3.4:22")
    world.log.parent.mkdir(exist_ok=True)
    world.log.write_text(f"[{NOW - timedelta(seconds=20):%H:%M:%S}] INFO HEADLESS starts with RUNPOD_API_KEY=rpa_{'A1b2' * 10}\n")
    record_key(world.fleet().orchestrator.ssh, POD, Trust(_host_key(world), FIRST_SEEN, "now", "m"))  # type: ignore[union-attr]
    return world


def _host_key(world: World) -> str:
    return " ".join(Path(f"{world.sshd.host_keys[0]}.pub").read_text().split()[:2])


def test_three_sources_are_merged_by_time(three: World, capsys: pytest.CaptureFixture[str]) -> None:
    code, data = logs(three, capsys, "orchestrator", "--worker", WORKER)
    assert code == 0, data["sources"]
    assert [(e["source"], e["message"].split()[0]) for e in data["events"]] == [
        ("railway", "Creating"), ("table lines", "SSH"), (f"pod:{WORKER}", "HEADLESS")]  # fmt: skip
    assert data["events"][-1]["worker"] == WORKER
    assert "A1b2A1b2" not in json.dumps(data)
    _, data = logs(three, capsys, "orchestrator")
    assert [(e["severity"], e["cycle"]) for e in data["events"] if e["source"] == "railway"][-1] == ("ERROR", 12)


def test_each_source_that_fails_is_said_and_the_others_are_shown(three: World, capsys: pytest.CaptureFixture[str]) -> None:
    def failed(code: int, data: Any) -> dict[str, str]:
        assert (code, bool(data["events"])) == (1, True)
        assert data["sources"][0]["state"] == "not-read", "what is missing comes first"
        return {s["name"]: s["why"] for s in data["sources"] if s["state"] == "not-read"}

    three.db.do("ALTER TABLE lines RENAME TO moved")
    try:
        (why,) = failed(*logs(three, capsys, f"worker/{WORKER}")).values()
        assert "lines" in why
    finally:
        three.db.do("ALTER TABLE moved RENAME TO lines")
    three.log.unlink()
    assert failed(*logs(three, capsys, f"worker/{WORKER}")) == {f"pod:{WORKER}": "failed: there is no such file"}
    three.runpod.pods.clear()
    assert "lists no pod" in failed(*logs(three, capsys, f"worker/{WORKER}"))[f"pod:{WORKER}"]
    three.railway.close()
    assert set(failed(*logs(three, capsys, f"worker/{WORKER}"))) == {f"pod:{WORKER}", "railway"}


def test_the_platforms_limit_is_no_whole_log(three: World, capsys: pytest.CaptureFixture[str]) -> None:
    for n in range(1200):
        three.railway.say(f"line {n}", NOW - timedelta(seconds=1200 - n))
    code, data = logs(three, capsys, "orchestrator", "--since", "1h")
    assert code == 1
    assert "newest 1,000 lines" in next(s["why"] for s in data["sources"] if s["name"] == "railway")
    assert logs(three, capsys, "orchestrator", "--since", "5m")[0] == 0, "the limit lies before what is asked for"


def test_an_id_that_could_be_a_path_and_a_pod_nobody_has_looked_at(three: World, capsys: pytest.CaptureFixture[str]) -> None:
    code, data = logs(three, capsys, "worker/../../etc/passwd")
    assert (code, data["sources"][0]["name"]) == (1, "pod:../../etc/passwd")
    (three.folder / "trust.json").unlink()
    _, data = logs(three, capsys, f"worker/{WORKER}")
    assert "no host key of pod" in data["sources"][0]["why"]
    three.log.chmod(0o600)
    three.log.unlink()
    three.log.symlink_to("/dev/zero")
    record_key(three.fleet().orchestrator.ssh, POD, Trust(_host_key(three), FIRST_SEEN, "now", "m"))  # type: ignore[union-attr]
    _, data = logs(three, capsys, f"worker/{WORKER}")
    assert "no regular file" in data["sources"][0]["why"]
