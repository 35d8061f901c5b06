"""A run outlives the pipe that its log was written to."""

import subprocess
import sys
from pathlib import Path

LOGS_AND_GOES_ON = """
import logging, sys
from prefect.logging.configuration import setup_logging
from prefect.logging import get_logger
from flows.engine.log_pipe import outlive_the_pipe
setup_logging()
log = get_logger("engine")
if sys.argv[1] == "outlive":
    outlive_the_pipe()
sys.stdin.readline()
log.warning("into the broken pipe")
log.warning("and again")
open(sys.argv[2], "w").write("went on")
"""


def goes_on(how: str, proof: str) -> bool:
    """True if a process whose reader has gone gets past its log lines."""
    child = subprocess.Popen(
        [sys.executable, "-c", LOGS_AND_GOES_ON, how, proof],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert child.stdin
    assert child.stdout
    assert child.stderr
    child.stdout.close()
    child.stderr.close()
    child.stdin.write(b"\n")
    child.stdin.close()
    return child.wait(timeout=60) == 0


def test_a_broken_pipe_does_not_end_a_run(tmp_path: Path) -> None:
    assert goes_on("outlive", str(tmp_path / "a"))
    assert (tmp_path / "a").exists()
    assert not goes_on("plain", str(tmp_path / "b"))  # what it protects from is still there
