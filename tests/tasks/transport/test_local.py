"""Commands on this machine: real processes, limits for the whole group, capped output."""

import os
import resource
import threading
import time
from pathlib import Path

import pytest

from runbooks.core.reading import UnknownReason
from tasks.transport.base import TransportError
from tasks.transport.local import LocalHost, read_state
from tests.support.waiting import until

HOST = LocalHost()


def test_arguments_streams_and_exit_code() -> None:
    done = HOST.run(["sh", "-s", "--", "a b; $(x)'\n"], stdin='printf "%s" "$1"; echo err >&2; exit 3')
    assert (done.out, done.err, done.exit) == ("a b; $(x)'\n", "err\n", 3)
    assert HOST.run(["cat"]).out == ""
    assert HOST.run(["sh", "-c", "kill -9 $$"]).exit == 137


def test_large_stdin_and_a_command_that_does_not_read_it() -> None:
    text = "x" * 3_000_000
    assert HOST.run(["wc", "-c"], stdin=text).out.strip() == "3000000"
    assert HOST.run(["true"], stdin=text).exit == 0


def test_commands_begin_at_home_never_in_the_folder_of_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As over SSH: a worker's folder is removed after the run, with whatever a command has left in it."""
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert HOST.run(["pwd"]).out.strip() == str(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "never"))
    assert HOST.run(["pwd"]).out.strip() == "/"


def test_missing_and_forbidden_tools(tmp_path: Path) -> None:
    (tmp_path / "tool").write_text("x")
    for argv, why in ((["no-such-tool"], UnknownReason.TOOL_MISSING), ([str(tmp_path / "tool")], UnknownReason.DENIED)):
        with pytest.raises(TransportError) as caught:
            HOST.run(argv)
        assert caught.value.reason is why


@pytest.mark.parametrize(
    "script", ["sleep 60 & sleep 60", "kill -STOP $$", "trap '' TERM; while :; do sleep 0.1; done"]
)
def test_the_limit_ends_the_whole_group(tmp_path: Path, script: str) -> None:
    began = time.monotonic()
    with pytest.raises(TransportError, match="it was ended") as caught:
        HOST.run(["sh", "-c", f"echo $$ > {tmp_path}/pid; {script}"], timeout_s=0.5)
    assert caught.value.reason is UnknownReason.TIMED_OUT
    assert time.monotonic() - began < 30
    group = int((tmp_path / "pid").read_text())
    assert read_state(group) in ("", "Z")
    until(lambda: not [p for p in Path("/proc").glob("[0-9]*/stat") if _group(p) == group], 10, "the end of its children")


def _group(stat: Path) -> int:
    try:
        words = stat.read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return int(words[2]) if words[0] != "Z" else 0


def test_what_cannot_be_ended_is_said_and_not_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.transport.local._end_group", lambda _: False)  # no process can be put in D here
    host, argv = LocalHost(), ["sh", "-c", f"echo x >> {tmp_path}/runs; exec sleep 3"]
    for said in (r"left running, pid \d+", "not started again"):
        with pytest.raises(TransportError, match=said):
            host.run(argv, timeout_s=0.3)
    assert (tmp_path / "runs").read_text() == "x\n"


def test_a_flood_is_capped_and_a_long_output_is_cut() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(TransportError):
        HOST.run(["yes"], timeout_s=1, limit_bytes=1000)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 30_000  # KiB
    done = HOST.run(["head", "-c", "3000000", "/dev/zero"], limit_bytes=1000)
    assert (len(done.out), done.truncated) == (1000, True)


def test_a_child_that_goes_on_does_not_hold_the_answer() -> None:
    began = time.monotonic()
    assert HOST.run(["sh", "-c", "echo started; sleep 30 & exit 0"]).out == "started\n"
    assert time.monotonic() - began < 15


def test_secrets_of_the_engine_are_not_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNPOD_API_KEY", "canary-1")
    monkeypatch.setenv("PREFECT_API_URL", "http://canary-2")
    monkeypatch.setenv("PATH", os.environ["PATH"].replace("/usr/sbin", "/x"))
    out = HOST.run(["env"]).out
    assert "canary" not in out
    assert "/usr/sbin" in out


def test_no_descriptors_are_left_over() -> None:
    HOST.run(["true"])
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(20):
        HOST.run(["true"], stdin="x")
    left = len(list(Path("/proc/self/fd").iterdir())) - before
    assert left < 10  # one a call would be 20; threads of the test runner come and go


def test_what_runs_when_its_host_is_closed_is_ended(tmp_path: Path) -> None:
    """By another thread: the one that was told to end."""
    host, pid = LocalHost(), tmp_path / "pid"

    def close() -> None:
        until(lambda: pid.exists() and bool(pid.read_text()), 30)
        host.close()

    closer = threading.Thread(target=close)
    closer.start()
    began = time.monotonic()
    with pytest.raises(TransportError, match="was closed") as caught:
        host.run(["sh", "-c", f"echo $$ > {pid}; exec sleep 60"], timeout_s=60)
    closer.join()
    assert caught.value.reason is UnknownReason.UNREACHABLE
    assert time.monotonic() - began < 30
    assert read_state(int(pid.read_text())) == ""


def test_a_closed_host_raises() -> None:
    host = LocalHost("here")
    assert host.name == "here"
    host.close()
    with pytest.raises(TransportError, match="closed"):
        host.run(["true"])
