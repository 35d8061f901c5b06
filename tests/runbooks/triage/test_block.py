"""What a file of a folder or archive can say."""

import io
import tarfile
from pathlib import Path

import pytest

from deployments.cli import triage as cli_triage
from runbooks.triage.block import Block, is_code, without_comments

FAULT = "OSError: [Errno 28] No space left on device"


@pytest.mark.parametrize("name", ["train.py", "a/b/kernel.CU", "page.html", "x.tar/src/main.go"])
def test_source_code_is_known_by_its_name(name: str) -> None:
    assert is_code(name)


@pytest.mark.parametrize("name", ["train.log", "notes.md", "train", "py", "stdout.1", "a.py.log", "launch.sh"])
def test_output_notes_and_scripts_are_not_source_code(name: str) -> None:
    assert not is_code(name)


def test_comments_of_settings_are_no_evidence_and_lines_keep_their_numbers() -> None:
    block = Block(file="etc/ray.conf", first=1, data=b"a=1\n  # No space left on device\n; x\n// y\nb=2")
    assert without_comments(block).data == b"a=1\n\n\n\nb=2"


@pytest.mark.parametrize("name", ["train.log", "train.log.1", "notes.md", "out.txt", "x.JSON"])
def test_output_keeps_lines_that_look_like_comments(name: str) -> None:
    block = Block(file=name, first=1, data=b"# nvidia-smi\n; a")
    assert without_comments(block) is block


def test_a_folder_is_judged_by_what_ran_not_by_its_source(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "save.py").write_text(f"# {FAULT}\nraise OSError('{FAULT}')\n")
    (tmp_path / "job.conf").write_text(f"# {FAULT}\nx = 1\n")
    assert cli_triage.main([str(tmp_path)]) == 3
    assert "1 file of source code not read" in capsys.readouterr().out
    (tmp_path / "job.log").write_text(f"{FAULT}\n")
    assert cli_triage.main([str(tmp_path)]) == 1
    assert "job.log:1" in capsys.readouterr().out


def test_a_source_file_that_is_named_is_read(tmp_path: Path) -> None:
    (tmp_path / "printed.py").write_text(f"{FAULT}\n")
    assert cli_triage.main([str(tmp_path / "printed.py")]) == 1


def test_an_archive_is_judged_alike(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with tarfile.open(tmp_path / "bundle.tar.gz", "w:gz") as tar:
        for name, text in (("src/save.py", FAULT), ("etc/job.conf", f"# {FAULT}")):
            info = tarfile.TarInfo(name)
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))
    assert cli_triage.main([str(tmp_path / "bundle.tar.gz")]) == 3
    assert "1 file of source code not read" in capsys.readouterr().out


def test_empty_files_are_told_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for n in range(9):
        (tmp_path / f"{n}.log").touch()
    assert cli_triage.main([str(tmp_path)]) == 3
    assert "0.log, 1.log, 2.log and 6 more: empty" in capsys.readouterr().out
