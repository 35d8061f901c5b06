"""A terminal obeys nothing that was read, and no line that we did not print stands on it."""

import json
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deployments.cli.list import print_summary
from deployments.cli.main import main
from deployments.cli.terminal import cleaned, rewrite
from runbooks.core.report import Report
from tests.core.samples import report
from tests.support.foreign import NASTY

CODES = "\x1b[2J\x1b]0;title\x07\x1b]8;;https://evil.example\x07link\x1b]8;;\x07\x9b31m\u202e\u200b\r\x08\x7f"


def obeyed(text: str) -> list[str]:
    """What a terminal would obey, or not show; a blank of any width is shown."""
    return [c for c in text if not c.isprintable() and c not in "\n\t" and unicodedata.category(c) != "Zs"]


def test_the_oracle_sees_what_a_terminal_obeys() -> None:
    assert len(obeyed(CODES)) > 8


def holding(text: str) -> Report:
    """A report with that text wherever the terminal shows one."""
    found = report(target=text, headline=text, title=text, outcome="sick")
    cause = found.diagnosis.causes[0].model_copy(update={"subject": text, "evidence": (text, text)})
    said = {"do_now": (text, text), "causes": (cause,), "symptom": text}
    return found.model_copy(update={"diagnosis": found.diagnosis.model_copy(update=said)})


@given(text=st.one_of(NASTY, st.just(CODES)))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_no_summary_obeys_or_forges(capsys: pytest.CaptureFixture[str], text: str) -> None:
    capsys.readouterr()
    with cleaned():
        print_summary(holding(text), Path("/r/x.md"), Path("/r/x.json"))
        print(f"also where somebody forgot: {text}", file=sys.stderr)
    shown = capsys.readouterr()
    assert obeyed(shown.out) + obeyed(shown.err) == []
    print_summary(holding("a word"), Path("/r/x.md"), Path("/r/x.json"))
    lines, plain = shown.out.splitlines(), capsys.readouterr().out.splitlines()
    assert (len(lines), lines[-2:]) == (len(plain), ["report: /r/x.md", "        /r/x.json"])


def test_a_command_prints_no_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / f"a{CODES[:4]}.log"
    log.write_text(f"RuntimeError: CUDA out of memory {CODES}\nFixed and verified\n", encoding="utf-8")
    for words in (["triage", str(log)], ["triage", "--json", str(log)], ["run", f"no{CODES}", "x"], ["replay", f"{log}{CODES}"]):
        main(words)
        shown = capsys.readouterr()
        assert shown.out or shown.err
        assert obeyed(shown.out) + obeyed(shown.err) == []
        if "--json" in words:
            assert json.loads(shown.out)["verdict"]
    assert not hasattr(sys.stdout, "raw_text")  # given back


def test_progress_is_rewritten_and_carries_no_code(capsys: pytest.CaptureFixture[str]) -> None:
    with cleaned():
        rewrite(f"reading {CODES.replace(chr(13), '')}")
    shown = capsys.readouterr().err
    assert shown.startswith("\rreading ")
    assert obeyed(shown[1:]) == []


def test_the_installed_command_is_cleaned_to_its_last_line(tmp_path: Path) -> None:
    """A real process, its own streams: what argparse and the last error say as well."""
    for words in (["run", "zombie-gpu", "x", f"--{CODES}"], ["replay", str(tmp_path / CODES[:4])]):
        done = subprocess.run(
            [sys.executable, "-m", "deployments.cli.main", *words], capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 2
        assert obeyed(done.stdout) + obeyed(done.stderr) == []
