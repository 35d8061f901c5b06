"""Which torch a process has loaded is read from the process, whatever is installed for others."""

import sys
from contextlib import AbstractContextManager
from importlib.metadata import version

from tasks.gpu.probes.torch_version import torch_version
from tests.support.said_up import said_up


def running(code: str) -> AbstractContextManager[int]:
    return said_up([sys.executable, "-c", f"{code}; print('up', flush=True); import sys; sys.stdin.read()"])


def test_a_process_that_has_loaded_it() -> None:
    with running("import torch") as pid:
        assert torch_version(pid, "S") == version("torch")
        assert torch_version(pid, "D") == "", "stuck in the kernel: it is not asked"


def test_a_process_without_it_and_one_that_has_ended() -> None:
    with running("pass") as pid:
        assert torch_version(pid, "S") == ""
    assert torch_version(pid, "S") == ""
