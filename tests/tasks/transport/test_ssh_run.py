"""Commands over a real sshd: arguments, streams, limits, ends."""

import resource
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from runbooks.core.reading import UnknownReason
from tasks.transport.base import TransportError
from tasks.transport.local import read_state
from tasks.transport.ssh import SshHost
from tests.support.cost import cpu_seconds
from tests.support.sshd import Sshd

HOSTILE = ["; rm -rf /nowhere", "a'b\"c", "new\nline", "$(id)`id`$HOME", "*", "-n", "", "tab\there", "ü ✓", "\\", "!x"]


def until_gone(pid: int, limit_s: float = 5.0) -> bool:
    """True once the process is gone or a zombie."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        if read_state(pid) in ("", "Z"):
            return True
        time.sleep(0.05)
    return False


def test_hostile_arguments_arrive_as_they_are(host: SshHost) -> None:
    done = host.run(["printf", "[%s]\\n", *HOSTILE])
    assert done.out == "".join(f"[{a}]\n" for a in HOSTILE)
    assert done.exit == 0


def test_streams_exit_code_and_stdin_are_kept_apart(host: SshHost) -> None:
    done = host.run(["sh", "-s", "--", "x y"], stdin='echo "out $1"; echo err >&2; exit 7')
    assert (done.out, done.err, done.exit) == ("out x y\n", "err\n", 7)
    assert done.command == "sh -s -- 'x y'"
    assert host.run(["cat"]).out == ""  # no stdin is an empty stdin, never a wait


def test_large_stdin_comes_back_whole(host: SshHost) -> None:
    text = "0123456789abcdef" * 200_000
    done = host.run(["cat"], stdin=text, limit_bytes=1 << 22)
    assert done.out == text
    assert not done.truncated


def test_a_missing_tool_is_told_from_a_command_that_says_127(host: SshHost) -> None:
    with pytest.raises(TransportError, match="no-such-tool is not installed") as caught:
        host.run(["no-such-tool", "--x"])
    assert caught.value.reason is UnknownReason.TOOL_MISSING
    assert host.run(["sh", "-c", "exit 127"]).exit == 127


def test_a_file_that_may_not_be_executed_is_denied(host: SshHost, tmp_path: Path) -> None:
    (tmp_path / "tool").write_text("x")
    with pytest.raises(TransportError) as caught:
        host.run([str(tmp_path / "tool")])
    assert caught.value.reason is UnknownReason.DENIED


@pytest.mark.parametrize("script", ["sleep 60", "kill -STOP $$", "trap '' TERM; sleep 60 & wait; sleep 60"])
def test_the_limit_ends_the_command_on_the_node(host: SshHost, tmp_path: Path, script: str) -> None:
    pid_file = tmp_path / "pid"
    began = time.monotonic()
    with pytest.raises(TransportError, match="it was ended on the node") as caught:
        host.run(["sh", "-c", f"echo $$ > {pid_file}; {script}"], timeout_s=1)
    assert caught.value.reason is UnknownReason.TIMED_OUT
    assert time.monotonic() - began < 30
    assert until_gone(int(pid_file.read_text()))
    assert host.run(["true"]).exit == 0  # the connection goes on


def test_a_slow_command_with_exit_124_of_its_own_is_an_answer(host: SshHost) -> None:
    assert host.run(["sh", "-c", "exit 124"], timeout_s=5).exit == 124


def test_what_cannot_be_ended_is_said_and_not_started_again(
    shared_sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node's own limit is stopped, as a process in state D would hold it; the second channel is refused too."""
    host = SshHost(shared_sshd.node())
    monkeypatch.setattr(host, "_ask_to_stop", lambda _: "left D")  # no process can be put in state D here
    runs = tmp_path / "runs"
    script = f"echo x >> {runs}; kill -STOP $PPID; sleep 9"
    with pytest.raises(TransportError, match=r"left running, pid \d+ \(state D\)"):
        host.run(["sh", "-c", script], timeout_s=1)
    with pytest.raises(TransportError, match="not started again"):
        host.run(["sh", "-c", script], timeout_s=1)
    assert runs.read_text() == "x\n"
    monkeypatch.undo()
    assert host._ask_to_stop(_pid_of(script)) == "gone"
    host.close()


def _pid_of(script: str) -> int:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it can end between any two lines
            words = path.read_bytes().split(b"\0")
            if words[:1] == [b"timeout"] and script.encode() in words:
                return int(path.parent.name)
    return 0


def test_a_stopped_limit_is_ended_through_a_second_channel(host: SshHost) -> None:
    script = "kill -STOP $PPID; sleep 61"
    with pytest.raises(TransportError, match="it was ended on the node"):
        host.run(["sh", "-c", script], timeout_s=1)
    pid = _pid_of(script)
    assert pid == 0 or until_gone(pid)


def test_a_flood_is_capped_in_memory_and_ended(host: SshHost) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(TransportError) as caught:
        host.run(["sh", "-c", "yes | head -c 200000000; sleep 60"], timeout_s=4, limit_bytes=1000)  # less than new keys are made for
    assert caught.value.reason is UnknownReason.TIMED_OUT
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 40_000  # KiB
    done = host.run(["head", "-c", "3000000", "/dev/zero"], limit_bytes=1000)
    assert (len(done.out), done.truncated, done.exit) == (1000, True, 0)


def test_a_child_that_goes_on_does_not_hold_the_answer(host: SshHost) -> None:
    began = time.monotonic()
    done = host.run(["sh", "-c", "echo started; sleep 40 & exit 0"])
    assert done.out == "started\n"
    assert time.monotonic() - began < 20


def test_waiting_for_a_command_that_closed_its_streams_costs_no_cpu(host: SshHost) -> None:
    host.run(["true"])

    def wait() -> None:
        assert host.run(["sh", "-c", "exec >&- 2>&-; sleep 2; exit 4"]).exit == 4

    assert cpu_seconds(wait, 0.5, clock=time.process_time) < 0.5


def test_noise_of_login_scripts_is_no_output(tmp_path: Path) -> None:
    with Sshd(tmp_path, "noisy", options={"SetEnv": f"BASH_ENV={tmp_path}/noise"}) as sshd:
        (tmp_path / "noise").write_text("echo WELCOME; echo warning >&2\n")
        host = SshHost(sshd.node())
        done = host.run(["echo", "hello"])
        host.close()
    assert done.out == "hello\n"
    assert "warning" not in done.err


def test_an_account_whose_shell_runs_nothing(tmp_path: Path) -> None:
    with Sshd(
        tmp_path, "forced", options={"ForceCommand": "echo This account is currently not available.; exit 1"}
    ) as sshd:
        host = SshHost(sshd.node())
        with pytest.raises(TransportError, match="shell did not run the command: This account") as caught:
            host.run(["true"])
        host.close()
    assert caught.value.reason is UnknownReason.FAILED


def test_without_timeout_on_the_node_the_shell_ends_it(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for tool in ("sh", "sleep", "cat", "bash"):
        (tools / tool).symlink_to(f"/bin/{tool}")
    with Sshd(tmp_path, "bare", options={"SetEnv": f"PATH={tools}"}) as sshd:
        host = SshHost(sshd.node())
        with pytest.raises(TransportError, match="it was ended on the node"):
            host.run(["sleep", "30"], timeout_s=1)
        assert host.run(["cat"], stdin="through").out == "through"
        assert host.run(["sh", "-c", "exit 5"]).exit == 5
        host.close()


def test_at_most_eight_channels_and_fewer_where_the_server_allows_fewer(tmp_path: Path) -> None:
    for allowed, most in (("10", 8), ("3", 3)):
        with Sshd(tmp_path, f"sessions{allowed}", options={"MaxSessions": allowed}) as sshd:
            assert _most_at_once(SshHost(sshd.node()), tmp_path / allowed) <= most
            assert sshd.read_log().count("Accepted publickey") == 1


def _most_at_once(host: SshHost, folder: Path) -> int:
    """Run 14 commands at once; each says how many of them it sees at work."""
    folder.mkdir()
    script = 'd=$1; mkdir "$d/$$"; sleep 0.3; ls "$d" | wc -l; sleep 0.1; rmdir "$d/$$"'
    seen: list[int] = []

    def one() -> None:
        seen.append(int(host.run(["sh", "-c", script, "sh", str(folder)]).out))

    threads = [threading.Thread(target=one) for _ in range(14)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    host.close()
    assert len(seen) == 14
    return max(seen)


def test_no_session_allowed_at_all(tmp_path: Path) -> None:
    with Sshd(tmp_path, "none", options={"MaxSessions": "0"}) as sshd:
        host = SshHost(sshd.node())
        with pytest.raises(TransportError, match="opens no session channel") as caught:
            host.run(["true"])
        host.close()
    assert caught.value.reason is UnknownReason.DENIED


def test_a_closed_host_raises(shared_sshd: Sshd) -> None:
    host = SshHost(shared_sshd.node())
    host.run(["true"])
    host.close()
    with pytest.raises(TransportError, match="closed"):
        host.run(["true"])
