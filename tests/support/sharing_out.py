"""Which tests share a process of `pytest -n`: those of a file, which share its servers; and what takes longest begins first.

pytest 9 no longer lets xdist mark groups in test ids, so `--dist loadgroup` does nothing there.
"""

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

TOGETHER = {"test_torchrun_v2.py": "torchrun", "test_torchrun_others.py": "torchrun", "test_old_agent.py": "torchrun"}
"""Files of which only one test may run on a machine at a time."""
LONGEST_FIRST = (
    "tests/tasks/rendezvous/test_torchrun",
    "tests/tasks/rendezvous/test_old_agent",
    "tests/deployments/test_end_to_end",
    "tests/faults/test_faults",
    "tests/tasks/ray/",
    "tests/watch/",
    "tests/faults/",
    "tests/flows/",
    "tests/gateway/",
    "tests/notify/",
    "tests/deployments/",
    "tests/tasks/",
)


class ByFile(LoadScopeScheduling):  # type: ignore[misc]
    """One file, one process; some files together."""

    def __init__(self, config: pytest.Config, log: Producer | None = None) -> None:
        config.option.loadscopereorder = False
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.split("::", 1)[0]
        return TOGETHER.get(path.rsplit("/", 1)[-1], path)


def rank(nodeid: str) -> int:
    """Place in the order of beginning."""
    return next((i for i, start in enumerate(LONGEST_FIRST) if nodeid.startswith(start)), len(LONGEST_FIRST))
