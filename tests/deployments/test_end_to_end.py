"""The command line as a user runs it: own state folder, own server, real sshd, real processes, stub GPU."""

import json
import os
import pty
import re
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urljoin

import pytest
import yaml
from playwright.sync_api import sync_playwright

from deployments.lab import zombie_gpu
from deployments.lab.scenario import Scene
from tasks.this_machine import start_ticks
from tests.support.cli import ANY, CLI, Cli
from tests.support.ui import LANDS_MS, landed, lands, launched

BEGIN = ("What waits for a person", "What is wrong now", "How to run something")  # the page to begin with, in this order
OF_THIS_MACHINE = ("host-limits", "memory-pressure")  # what the machine under the tests itself lacks


@pytest.fixture(scope="module")
def served(cli: Cli) -> Cli:
    """With its server up."""
    cli.json("up")
    return cli


@pytest.fixture
def stuck(tmp_path: Path) -> Iterator[Scene]:
    with zombie_gpu.scene(tmp_path) as scene:
        yield scene


JUDGED_WITHOUT_A_GPU = (("host-limits", "threads"), ("host-limits", "disks"), ("host-limits", "clock"), ("memory-pressure", "host"))


def test_nightly_of_this_machine_writes_a_report(cli: Cli) -> None:
    facts = cli.json("nightly")
    assert Path(facts["report"]).is_file()
    report = json.loads(Path(facts["json"]).read_text())
    assert [r["node"] for r in report["results"]] == ["local"] * len(report["results"])
    by = {r["runbook"]: r for r in report["results"]}
    saved = {slug: json.loads(Path(by[slug]["report"]).with_suffix(".json").read_text()) for slug, _ in JUDGED_WITHOUT_A_GPU}
    kinds = {name: saved[slug]["evidence"][name]["kind"] for slug, name in JUDGED_WITHOUT_A_GPU}
    assert kinds == dict.fromkeys(kinds, "known"), kinds
    zombie = by["zombie-gpu"]
    assert zombie["outcome"] in ("not-applicable", "healthy", "sick", "cannot-tell")
    if not Path("/dev/nvidiactl").exists():
        assert zombie["outcome"] == "not-applicable"
        assert "no GPU here (" in zombie["headline"]


def test_the_log_in_that_up_prints_opens_every_link_that_a_command_prints(cli: Cli) -> None:
    """`up` at a terminal says what to type; each link is opened by a browser without cookies."""
    leader, terminal = pty.openpty()
    assert subprocess.run([*CLI, "up"], stdout=terminal, stderr=subprocess.DEVNULL, env=cli.env, check=False).returncode == 0
    said = os.read(leader, 1 << 16).decode()
    os.close(leader)
    os.close(terminal)
    start, page, log_in = (re.search(rf"^{word}: +(\S+)", said, re.M) for word in ("start", "UI", "log-in"))
    assert start is not None, said
    assert page is not None, said
    assert log_in is not None, said
    base = cli.json("up")["api"].removesuffix("/api")
    by_hand, night = cli.json("run", "host-limits", "local", code=ANY), cli.json("nightly")
    report = re.search(r"run in Prefect: <(\S+)>", Path(by_hand["report"]).read_text())
    assert report is not None
    links = {page[1]: "Flow Runs", by_hand["ui"]: "host-limits local", night["ui"]: "nightly", report[1]: "host-limits local"}
    with sync_playwright() as p:
        browser = launched(p)
        assert [link for link, text in links.items() if not lands(browser, base, link, log_in[1], text)] == []
        with landed(browser, base, start[1], log_in[1], BEGIN[-1]) as begin:
            assert [h for h in begin.get_by_role("heading").all_inner_texts() if h in BEGIN] == list(BEGIN)
            form = begin.get_by_role("link", name="host-limits", exact=True).last.get_attribute("href")
            begin.goto(urljoin(base, str(form)), wait_until="domcontentloaded")
            begin.get_by_role("button", name="Submit").wait_for(timeout=LANDS_MS)  # the form of that runbook
            assert begin.url.endswith("/run")
        browser.close()


def test_nightly_one_dead_node_hides_nobody(cli: Cli, stuck: Scene, tmp_path: Path) -> None:
    """A sick node, a node that refuses, a system that answers and one that doesn't: all in one report; then gone."""
    fleet = yaml.safe_load(stuck.fleet.read_text())
    fleet["nodes"].insert(0, fleet["nodes"][0] | {"name": "dead-node", "port": 1})
    ui = cli.json("up")["ui"]
    fleet["systems"] = [{"name": "prefect", "url": ui}, {"name": "store", "url": "tcp://127.0.0.1:1"}]
    stuck.fleet.write_text(yaml.safe_dump(fleet))
    report = json.loads(Path(cli.json("nightly", "--fleet", str(stuck.fleet))["json"]).read_text())
    found = {r["node"]: r["outcome"] for r in report["results"] if r["runbook"] == "zombie-gpu"}
    assert found == {"lab-node": "sick"}
    assert [(r["runbook"], r["outcome"]) for r in report["results"] if r["node"] == "dead-node"] == [("ssh-auth-failure", "sick")]
    assert [s["reachable"] for s in report["systems"]] == [True, False]
    assert any(line.startswith("dead-node: could not be entered") for line in report["not_read"])
    changes = {(t["node"], t["runbook"]): t["change"] for t in report["troubles"] if t["runbook"] not in OF_THIS_MACHINE}
    assert changes == {("dead-node", "ssh-auth-failure"): "first", ("lab-node", "zombie-gpu"): "first"}
    os.killpg(int(stuck.proof().split("pid ")[1].split(")")[0]), signal.SIGKILL)
    again = json.loads(Path(cli.json("nightly", "--fleet", str(stuck.fleet))["json"]).read_text())
    changes = {(t["node"], t["runbook"]): t["change"] for t in again["troubles"] if t["runbook"] not in OF_THIS_MACHINE}
    assert changes == {("dead-node", "ssh-auth-failure"): "persisting", ("lab-node", "zombie-gpu"): "gone"}


def test_rehearsal_finds_fixes_and_proves(served: Cli) -> None:
    facts = served.json("lab", "zombie-gpu")
    assert facts["first"]["outcome"] == "waiting"
    assert facts["last"]["outcome"] == "fixed"
    assert "runs again" in facts["proof"]  # the mildest plan is the first
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert "train_selfplay.py --run lab" not in listed  # it cleans up after itself


def test_diagnose_by_address_without_a_fleet_file(cli: Cli, stuck: Scene, tmp_path: Path) -> None:
    node = yaml.safe_load(stuck.fleet.read_text())["nodes"][0]
    ssh = tmp_path / "home" / ".ssh"
    ssh.mkdir(parents=True, mode=0o700)
    (ssh / "id_ed25519").write_bytes(Path(node["key"]["file"]).read_bytes())
    (ssh / "id_ed25519").chmod(0o600)
    (ssh / "known_hosts").write_bytes(Path(node["known_hosts"]).read_bytes())
    target = f"{node['user']}@{node['host']}:{node['port']}"
    env = {"HOME": str(tmp_path / "home"), "SSH_AUTH_SOCK": ""}
    done = cli("run", "zombie-gpu", target, "--json", env=env)
    assert done.returncode in (0, 1, 3), done.stderr
    facts = json.loads(done.stdout)
    assert facts["outcome"] in ("not-applicable", "healthy", "sick", "cannot-tell")
    refused = cli("run", "zombie-gpu", target, "--mode", "auto", "--json", env=env)
    assert json.loads(refused.stdout)["outcome"] != "fixed"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["run", "nothing", "local"], "there are:"),
        (["run", "zombie-gpu", "nobody"], "no node of that name"),
        (["run", "zombie-gpu", "local", "--fleet", "/nonexistent.yaml"], "/nonexistent.yaml"),
        (["approve", "no-such-run"], "no waiting run"),
        (["show", "no-such-run"], "is none of the newest"),
        (["lab", "nothing"], "no rehearsal"),
    ],
)
def test_bad_words_say_what_is_possible(served: Cli, words: list[str], says: str) -> None:
    done = served(*words)
    assert done.returncode == 2, done.stdout + done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr


CANARIES = {
    "HF_TOKEN": "hf_" + secrets.token_hex(17),
    "WANDB_API_KEY": secrets.token_hex(20),
    "AWS_SECRET_ACCESS_KEY": secrets.token_urlsafe(30),
}


def test_no_secret_reaches_report_database_logs_or_artifacts(cli: Cli, tmp_path: Path) -> None:
    """Canaries in environment, command line, URL, log and key; nothing of them is found below the state folder."""
    on_argv = {"token": "hf_" + secrets.token_hex(17), "password": secrets.token_urlsafe(18)}
    in_url = secrets.token_hex(12)
    log = tmp_path / "steps.log"
    log.write_text(f"step 1\nAuthorization: Bearer {secrets.token_hex(20)}\n")
    in_log = log.read_text().split("Bearer ")[1].strip()
    with zombie_gpu.scene(tmp_path) as scene:
        secret_words = [f"--password={on_argv['password']}", f"https://svc:{in_url}@example.org/repo.git"]
        script = str(tmp_path / "train_selfplay.py")
        victim = subprocess.Popen(
            [sys.executable, script, "--run", "lab", "--token", on_argv["token"], *secret_words],
            env=os.environ | CANARIES,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            from deployments.lab.gpu import StubDriver, holding

            StubDriver(tmp_path / "gpu").show(holding(victim.pid))
            victim.send_signal(signal.SIGSTOP)
            fleet = yaml.safe_load(scene.fleet.read_text())
            fleet["jobs"][0]["progress"] = [{"kind": "log", "path": str(log)}]
            key_text = Path(fleet["nodes"][0]["key"]["file"]).read_text()
            fleet["nodes"][0]["key"] = {"env": "LAB_KEY"}
            scene.fleet.write_text(yaml.safe_dump(fleet))
            words = ["run", "zombie-gpu", scene.target, "--mode", "approve", "--fleet", str(scene.fleet)]
            facts = cli.json(*words, code=1, env={"LAB_KEY": key_text})
            assert "<secret:token:" in Path(facts["report"]).with_suffix(".json").read_text()
            cli("reject", facts["run"])
        finally:
            os.killpg(victim.pid, signal.SIGKILL)
            victim.wait()
    body = "".join(key_text.splitlines()[1:-1])
    planted = [*CANARIES.values(), *on_argv.values(), in_url, in_log, body[40:100], key_text.splitlines()[2]]
    for path in cli.home.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            found = [c for c in planted if c.encode() in data]
            assert not found, f"{path} holds {len(found)} planted secret(s)"


def test_up_again_and_again_leaves_no_duplicates_and_down_leaves_nothing(cli: Cli) -> None:
    first = cli.json("up")
    assert cli.json("up") == first
    script = (
        "from deployments.state import *; use_server(read_state()); from flows import store;"
        "print([d.name for d in store.ask(lambda c: c.read_deployments())])"
    )
    names = subprocess.run(
        [sys.executable, "-c", script], env=cli.env, capture_output=True, text=True, check=True
    ).stdout
    found = yaml.safe_load(names.strip().splitlines()[-1])
    assert len(found) == len(set(found))
    assert "zombie-gpu" in found
    pids = [p["pid"] for p in json.loads((cli.home / "server.json").read_text())["processes"]]
    assert len(pids) == 3
    assert set(cli.json("down")["stopped"]) == {"server", "worker", "reaper"}
    assert [start_ticks(pid) for pid in pids] == [None] * 3


def test_a_switch_starts_the_server_alone(cli: Cli) -> None:
    """`freeze` and its like need neither worker nor reaper."""
    assert cli("down").returncode == 0
    assert cli("status").returncode == 5
    assert cli("freeze", "a test").returncode == 0
    assert [n for n, up in cli.json("status")["processes"].items() if up] == ["server"]
    assert cli("unfreeze").returncode == 0
    assert cli("reset-breaker").returncode == 0
    assert [n for n, up in cli.json("status")["processes"].items() if up] == ["server"]
