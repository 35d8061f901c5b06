"""An independent scanner finds nothing in whatever a run leaves behind, and does find what was planted in its evidence."""

import json
import os
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

from runbooks.core.redact import Redactor
from tests.notify.conftest import Channels
from tests.support.engine_rig import REPO, Rig
from tests.support.kingfisher import findings
from tests.support.planted import Planted, leaked, log_line, made, planted
from tests.support.server_database import rows_of
from tests.support.yaml_file import read_yaml

EVERYDAY = read_yaml(REPO / "tests/data/redact/everyday.yaml")["secrets"]
R = Redactor(b"0123456789abcdef-test")
KNOWN_TO_THE_SCANNER = 50  # forms of our table that it must find, so that its silence means something


def lines_with(secrets: dict[str, Planted]) -> dict[str, str]:
    """Each secret in a line of a log: file name -> text."""
    return {f"{name}.log": log_line(s) for name, s in secrets.items()}


def everyday(seed: int) -> dict[str, str]:
    """The everyday shapes, each with a random value."""
    forms = [f for kind in EVERYDAY for f in EVERYDAY[kind] if kind != "words"]
    return {f"everyday-{i}.log": f.format(made("{A24}", seed + i).text) + "\n" for i, f in enumerate(forms)}


def write(folder: Path, files: dict[str, str]) -> Path:
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def test_the_scanner_finds_what_we_do_not_replace_and_nothing_after(tmp_path: Path) -> None:
    raw = lines_with(planted(7)) | everyday(7)
    found = findings(write(tmp_path / "raw", raw))
    assert len([name for name in found if not name.startswith("everyday")]) >= KNOWN_TO_THE_SCANNER
    assert len([name for name in found if name.startswith("everyday")]) >= 5
    assert findings(write(tmp_path / "clean", {name: R.text(text) for name, text in raw.items()})) == {}


def run_as_a_user(rig: Rig, *words: str) -> str:
    """The command line in a process of its own, whose log goes to the server. Returns what it printed."""
    env = os.environ | {"PYTHONPATH": f"{REPO / 'tests/faults/inject'}:{REPO}", "PREFECT_API_URL": rig.state.api}
    command = [sys.executable, "-m", "deployments.cli.main", *words]
    done = subprocess.run(command, env=env, cwd=REPO, capture_output=True, text=True, timeout=150)
    return done.stdout + done.stderr


def test_nothing_that_a_run_leaves_behind_holds_a_secret(rig: Rig, channels: Channels, tmp_path: Path) -> None:
    """Evidence, an act's words and an error are full of them: reports, database, messages, logs and bundle are not."""
    secrets = planted(3)
    log = tmp_path / "job.log"
    log.write_text("".join(lines_with(secrets).values()) + "OSError: [Errno 24] Too many open files: 'x'\n")
    assert len(findings(write(tmp_path / "raw", lines_with(secrets)))) >= KNOWN_TO_THE_SCANNER
    w = rig.world(log=str(log), says=log.read_text(), raises="chain", raised=log.read_text(), raises_at_look=3)
    files = ["--fleet", str(w.fleet), "--out", str(w.out)]
    printed = run_as_a_user(rig, "run", "zombie-gpu", w.name, "--mode", "auto", "--policy", str(rig.policy), *files)
    bundle = tmp_path / "bundle.tar.gz"
    printed += run_as_a_user(
        rig, "bundle", w.name, "--fleet", str(w.fleet), "--seconds", "60", "--log", str(log), "--out", str(bundle)
    )
    (report,) = w.reports()
    assert report["acts"][0]["said"][1].count("<secret:") == 1  # it went through every place
    assert len(report["evidence"]["log"]["value"].splitlines()) > len(secrets)
    assert "RuntimeError: unexpected answer" in report["headline"]
    deadline = time.monotonic() + 20
    while "prefect.flow-run.Failed" not in (kept := "\n".join(rows_of(rig.home))) or w.name not in kept:
        assert time.monotonic() < deadline
        time.sleep(0.3)
    left = {"database.sql": kept, "printed.txt": printed, "messages.json": json.dumps(channels.hook.got)}
    left |= {p.name: p.read_text() for p in w.out.rglob("*") if p.is_file()}
    left |= {f"log-{i}.log": p.read_text(errors="replace") for i, p in enumerate(rig.home.rglob("*.log"))}
    with tarfile.open(bundle) as tar:
        for i, m in enumerate(m for m in tar if m.isfile()):
            part = tar.extractfile(m)
            left[f"bundle-{i}.txt"] = part.read().decode() if part else ""
    assert len(channels.hook.got) >= 1
    assert any(name.endswith(".md") for name in left)
    assert any("Too many open files" in text for name, text in left.items() if name.startswith("bundle"))
    assert {name: leaked(text, secrets.values()) for name, text in left.items() if leaked(text, secrets.values())} == {}
    assert findings(write(tmp_path / "left", {n: t.replace(w.name, "NODE") for n, t in left.items()})) == {}


@pytest.mark.parametrize("row", ["huggingface", "slack-webhook", "stripe"])
def test_the_judge_sees_one_secret_among_much(tmp_path: Path, row: str) -> None:
    """What the last test would say if one message had kept one."""
    text = "line of a log\n" * 2000 + lines_with(planted(3))[f"{row}.log"]
    assert set(findings(write(tmp_path / "one", {"messages.json": json.dumps({"message": text})}))) == {"messages.json"}
