"""A temporary folder of the run's own: nothing may be left in it, nor a process, mount or network namespace of the run.

Should the run be killed, everything that it started ends with it: servers, engines, mounts (tests/support/leftovers.py).
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support import leftovers

PATIENCE_S = 20.0  # what is ending by itself may end


def pytest_addoption(parser: pytest.Parser) -> None:
    """To find which tests leave something: the run takes it away in any case."""
    parser.addoption("--leave-nothing", action="store_true", help="fail if a file, process, mount or network namespace is left")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Once a run: its processes inherit the folder. Not for each mutant, which is a run of its own in one process."""
    if not hasattr(config, "workerinput") and leftovers.ROOM not in os.environ and "MUTANT_UNDER_TEST" not in os.environ:
        config.pluginmanager.register(Room(config), "room-of-the-run")


class Room:
    """Made before the first test, looked through after the last."""

    def __init__(self, config: pytest.Config) -> None:
        self.config, self.left = config, {}  # type: pytest.Config, dict[str, list[str]]
        usual = tempfile.gettempdir()
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", usual)  # pytest's own folders stay where they are looked for
        self.folder = Path(tempfile.mkdtemp(prefix="gt"))
        self.folder.chmod(0o1777)  # programs run as other users, too
        self._share_ports(Path(usual))
        env = dict(os.environ)
        os.environ |= {"TMPDIR": str(self.folder), leftovers.ROOM: str(self.folder), "PATH": self._plain_python()}
        tempfile.tempdir = None  # read anew
        self.guard = subprocess.Popen(
            [sys.executable, "-S", leftovers.__file__, str(self.folder)], stdin=subprocess.PIPE, start_new_session=True, env=env
        )

    def _plain_python(self) -> str:
        """PATH with a `python3` that starts at once: a version manager's takes 0.1 s, and each probe of a node starts one."""
        (self.folder / "bin").mkdir()
        (self.folder / "bin/python3").symlink_to(Path(sys.base_prefix, "bin", "python3").resolve())
        (self.folder / "bin").chmod(0o755)
        return f"{self.folder / 'bin'}:{os.environ['PATH']}"

    def _share_ports(self, usual: Path) -> None:
        """Ports are given in turn to all that run on this machine, other runs of the tests among them."""
        counter = f"gpu-runbooks-ports-{os.geteuid()}"
        os.close(os.open(usual / counter, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600))
        (self.folder / counter).hardlink_to(usual / counter)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """After the last fixture of every process. A green run leaves no folder of pytest's either."""
        tests = Path(self.config._tmp_path_factory.getbasetemp())  # type: ignore[attr-defined]
        end = time.monotonic() + PATIENCE_S
        while (found := leftovers.left(self.folder, tests)) and time.monotonic() < end:
            time.sleep(0.2)
        self.left = found
        leftovers.take_away(self.folder, tests)
        if found and self.config.getoption("--leave-nothing") and not session.exitstatus:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        if not session.exitstatus and not self.config.getoption("basetemp"):
            shutil.rmtree(tests, ignore_errors=True)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Names it."""
        if self.left:
            terminalreporter.section("left behind by the tests")
            for kind, names in self.left.items():
                terminalreporter.write_line(f"{kind}: {len(names)}, like {'; '.join(names[:3])}")

    def pytest_unconfigure(self) -> None:
        """The guard is no longer needed."""
        assert self.guard.stdin is not None
        with suppress(BrokenPipeError):
            self.guard.stdin.write(leftovers.DONE)
            self.guard.stdin.close()  # a fork of a test may still hold it
        with suppress(subprocess.TimeoutExpired):
            self.guard.wait(timeout=PATIENCE_S)
