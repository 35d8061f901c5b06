"""No command ends in a traceback, whatever it is given: every command and option of the parser's own registry, in this process."""

import builtins
import contextlib
import io
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Set
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from deployments import contact
from deployments.cli.main import main
from deployments.errors import FAULT
from tests.support.commands import EXPECTED, alone, bad_files, calls, leaves
from tests.support.silent_servers import refusing
from tests.support.smallfs import tmpfs

COMMANDS = dict(leaves())
CODES = {0, 1, 2, 3, 4, 5, 130}
LONGEST_S = 20.0
MOST_MEMORY = 1 << 30


@pytest.fixture(autouse=True)
def without_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One that refuses; and what reads without end is seen, and alone."""
    monkeypatch.setattr(contact, "CONTACT_S", 0.05)
    least, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (size_now() + MOST_MEMORY, most))
    with alone(tmp_path, monkeypatch), refusing() as api, temporary_settings({PREFECT_API_URL: api}):
        monkeypatch.setenv("PREFECT_API_URL", api)
        yield
    resource.setrlimit(resource.RLIMIT_AS, (least, most))


def size_now() -> int:
    """Address space of this process, bytes."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def wrong(argv: list[str], capsys: pytest.CaptureFixture[str], codes: Set[int] = CODES) -> str:
    """What is wrong with how this call ends; "" if it ends as it should."""
    began = time.monotonic()
    try:
        code = main(argv)
    except SystemExit as e:
        code = e.code if isinstance(e.code, int) else 1
    except BaseException as e:
        capsys.readouterr()
        return f"{argv}: raised {type(e).__name__}: {e}"
    took = time.monotonic() - began
    out, err = capsys.readouterr()
    if code == FAULT or code not in codes or "Traceback" in out + err:
        return f"{argv}: exit {code}: {err[-600:]}"
    if code == 2 and not (out + err).strip():
        return f"{argv}: exit 2 without a word"
    return f"{argv}: {took:.0f} s" if took > LONGEST_S else ""


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_option_wrong_in_turn(words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = bad_files(tmp_path)
    found = calls(words, COMMANDS[words], files, tmp_path / "out")
    assert [w for argv in found if (w := wrong(argv, capsys))] == []
    assert files["device"].is_char_device()
    assert files["endless"].is_char_device()


HOMES = ("/proc/nothing", "/dev/null/x", "{file}", "~nobody-here/x")


OWN_FILES = ("server.json", "auth.json", "registered", "gateway.token", "FREEZE", "lock", "redact.key", "link.key",
             "approver-codes.json", "notifications.yaml", "steps", "watch", "logs", "prefect", "nightlies")  # fmt: skip
DAMAGED = {"random bytes": bytes(range(255, 0, -1)), "another shape": b"[1]", "a folder": None}


@pytest.mark.parametrize("damage", DAMAGED)
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_damaged_file_of_the_state_folder(
    words: tuple[str, ...], damage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each in turn, then all of them."""
    found, home = [], tmp_path / "home"
    for names in [*((n,) for n in OWN_FILES), OWN_FILES]:
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(mode=0o700)
        for name in names:
            content = DAMAGED[damage]
            (home / name).mkdir() if content is None else (home / name).write_bytes(content)
        said = wrong(meant(words, tmp_path), capsys)
        found.append(f"{names}: {said}" if said else "")
    assert [w for w in found if w] == []


def meant(words: tuple[str, ...], tmp_path: Path) -> list[str]:
    (tmp_path / "file").write_text("{}")
    return [*words, *(w.format(file=tmp_path / "file", out=tmp_path) for w in EXPECTED.get(words, []))]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_state_folder_that_cannot_be_used(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = []
    for home in HOMES:
        argv = meant(words, tmp_path)
        monkeypatch.setenv("GPU_RUNBOOKS_HOME", home.format(file=tmp_path / "file"))
        found.append(wrong(argv, capsys))
    assert [w for w in found if w] == []


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_an_input_that_has_ended(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Closed before the start, at its end, and Ctrl-D and Ctrl-C at a terminal."""

    found = []
    for stdin in (None, io.StringIO(""), Terminal()):
        for how in (EOFError(), KeyboardInterrupt()):
            monkeypatch.setattr(sys, "stdin", stdin)
            monkeypatch.setattr(builtins, "input", partial(ends, how))
            monkeypatch.setattr("getpass.getpass", partial(ends, how))
            found.append(wrong(meant(words, tmp_path), capsys))
    assert [w for w in found if w] == []


def ends(how: BaseException, _prompt: str = "") -> str:
    """What a prompt does then."""
    raise how


class Terminal(io.StringIO):
    """Somebody sits there and presses Ctrl-D."""

    def isatty(self) -> bool:
        """Yes."""
        return True


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_disk_that_is_full(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = meant(words, tmp_path)
    with tmpfs(tmp_path / "full", size="16k") as full:
        with contextlib.suppress(OSError), (full / "ballast").open("wb") as f:
            f.write(bytes(1 << 20))
        monkeypatch.setenv("GPU_RUNBOOKS_HOME", str(full))
        monkeypatch.setenv("TMPDIR", str(full))
        assert wrong([a.replace(f"{tmp_path}", str(full)) if "out" in a else a for a in argv], capsys) == ""


def run(script: str, **env: str) -> "subprocess.CompletedProcess[str]":
    """A command in a shell, as somebody types it."""
    argv = ["bash", "-c", script.replace("gpu-runbooks", f"{sys.executable} -m deployments.cli.main")]
    root = str(Path(contact.__file__).parents[1])
    return subprocess.run(argv, cwd=root, env=os.environ | env, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize(
    ("script", "codes"),
    [
        ("gpu-runbooks list > /dev/full", {2}),
        ("gpu-runbooks list --json > /dev/full 2> /dev/full", {2}),
        ("gpu-runbooks list >&-", {0}),
        ("gpu-runbooks list >&- 2>&- <&-", {0}),
        ("gpu-runbooks nonsense >&- 2>&- <&-", {2}),
        ("gpu-runbooks approve abc <&-", {5}),
        ("LC_ALL=C PYTHONUTF8=0 PYTHONIOENCODING=ascii gpu-runbooks list --json", {0}),
        ("LC_ALL=C PYTHONUTF8=0 PYTHONIOENCODING=ascii gpu-runbooks run zombie-gpu ☃ --no-server", {2}),
    ],
)
def test_streams_that_are_closed_full_or_narrow(script: str, codes: set[int]) -> None:
    done = run(script)
    assert done.returncode in codes, done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as s:
        done = run(f"gpu-runbooks gateway --no-warm-processes --port {s.getsockname()[1]}")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "in use" in done.stderr


def test_the_fuzz_sees_a_fault(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """It fails where something unexpected comes up."""

    def broken(_place: str) -> Any:
        raise KeyError("container")

    monkeypatch.setattr("deployments.cli.main._function", broken)
    assert "exit 6" in wrong(["list"], capsys)


def test_json_stays_json_where_a_command_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["approve", "abc", "--json"]) == 5
    assert json.loads(capsys.readouterr().out)["exit_code"] == 5
