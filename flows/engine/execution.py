"""Which execution of a run this process is: a run may be handed to a second process while the first only starts slowly.

Each execution takes the next number, a row beside the run that one asker gets. Only the newest may act.
"""

from uuid import uuid4

from flows import store
from runbooks.core.refusal import RefusalCode
from tasks.context import ActionRefused

MOST = 1000  # executions of one run: every answer to a question is one


def _key(n: int) -> str:
    return f"run-{n}"


def number(run_id: str) -> int:
    """Takes the next number of the run for this process."""
    token = uuid4().hex
    for n in range(len(store.inputs(run_id, "run-", MOST)) + 1, MOST + 1):
        if store.store_input_once(run_id, _key(n), token) == token:
            return n
    raise ActionRefused(RefusalCode.SUPERSEDED, f"run {run_id} was started {MOST} times")


def check_newest(run_id: str, n: int) -> None:
    """Raises ActionRefused if another process has begun the same run after this one did."""
    if store.read_input(run_id, _key(n + 1)) is not None:
        said = f"another process started this run later (execution {n + 1}); this one stops"
        raise ActionRefused(RefusalCode.SUPERSEDED, said)
