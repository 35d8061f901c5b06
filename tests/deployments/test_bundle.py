"""`gpu-runbooks bundle`: on this machine, over a real sshd by fleet name and by user@host, and where nothing answers."""

import json
import shutil
import stat
import tarfile
from pathlib import Path

import pytest
import yaml

from deployments.cli.bundle import _report_text
from deployments.cli.main import main
from deployments.lab.sshd import Sshd
from deployments.ports import free_port
from runbooks.core.kinds import KINDS
from runbooks.core.redact import Redactor
from tests.core.samples import report

REDACT = Redactor(b"0123456789abcdef-test")
SECRET = "pl4nt3dS3cr3tV4lu3XYZ987"


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GPU_RUNBOOKS_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    (tmp_path / "job.log").write_text(f"--token {SECRET}\nOSError: [Errno 24] Too many open files: 'x'\n")


def bundle(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, dict[str, object]]:
    code = main(["bundle", "--seconds", "60", *args, "--json"])
    return code, json.loads(capsys.readouterr().out)


def names(path: object) -> set[str]:
    with tarfile.open(str(path)) as tar:
        assert SECRET not in "".join(tar.extractfile(m).read().decode() for m in tar if m.isfile())  # type: ignore[union-attr]
        return set(tar.getnames())


def test_this_machine_and_triage_reads_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = bundle(capsys, "local", "--out", str(tmp_path), "--log", str(tmp_path / "job.log"))
    assert code == 0
    path = Path(str(said["bundle"]))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert {"bundle.json", "README.txt", "readings/memory.txt", "versions/system.txt"} <= names(path)
    assert path.stat().st_size < 20 << 20
    main(["triage", str(path), "--json"])
    judged = json.loads(capsys.readouterr().out)
    assert "fd-limit" in [c["slug"] for c in judged["causes"]]


def test_over_ssh_by_fleet_name_and_by_address(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Sshd(tmp_path, "far") as sshd:
        fleet = tmp_path / "fleet.yaml"
        fleet.write_text(yaml.safe_dump({"nodes": [sshd.node().model_dump(mode="json", exclude_defaults=True)]}))
        code, said = bundle(capsys, "far", "--fleet", str(fleet), "--out", str(tmp_path / "a.tar.gz"))
        assert code == 0
        assert "readings/memory.txt" in names(said["bundle"])
        (tmp_path / ".ssh").mkdir()
        shutil.copy(sshd.key, tmp_path / ".ssh" / "id_ed25519")
        shutil.copy(sshd.known_hosts, tmp_path / ".ssh" / "known_hosts")
        address = f"{sshd.node().user}@127.0.0.1:{sshd.port}"
        code, said = bundle(capsys, address, "--out", str(tmp_path / "b.tar.gz"), "--seconds", "3")
        assert code == 0
        assert "logs/kernel.log" in names(said["bundle"]) | {p["name"] for p in said["pieces"]}  # type: ignore[attr-defined]


def test_nobody_answers_and_what_is_known_here_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "id_ed25519").write_text("no key\n")
    code, said = bundle(capsys, f"root@127.0.0.1:{free_port()}", "--out", str(tmp_path))
    assert code == 3
    assert said["machine_read"] is False
    assert "readings/connection.txt" in names(said["bundle"])


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("nobody",), "no node of that name"),
        (("local", "--out", "/nowhere/x/y.tar.gz"), "no such folder"),
        (("local", "--fleet", "/nowhere.yaml"), "nowhere.yaml"),
    ],
)
def test_errors_are_one_line(args: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bundle", *args]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1


def test_a_report_in_it_keeps_its_own_words_and_no_secret(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    whole = report(risks={kind: row.risk for kind, row in KINDS.items()}, connection=(f"--token {SECRET}",))
    path.write_text(whole.model_dump_json())
    kept = json.loads(_report_text(path, REDACT))
    assert kept["risks"] == {kind: row.risk.value for kind, row in KINDS.items()}
    assert SECRET not in json.dumps(kept)
    path.write_text(f'{{"an": "older form", "api_token": "{SECRET}"}}')
    assert SECRET not in _report_text(path, REDACT)
