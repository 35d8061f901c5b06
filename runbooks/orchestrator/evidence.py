"""Both sides of the fleet, each listed whole and twice: the database's rows of workers and the provider's pods."""

from datetime import datetime

from pydantic import Field

from runbooks.core.base import Frozen
from runbooks.core.reading import NOT_RECORDED, Reading
from runbooks.core.typed_pods import OwnNames
from runbooks.parsers.runpod import Pod
from runbooks.parsers.worker_rows import TaskRow, WorkerRow


class Evidence(Frozen):
    """What is read for fleet-sync. The order of the reads is: pods, rows, a pause, pods again, rows again."""

    taken_at: datetime
    prefix: str = ""  # with which the names of this orchestrator's pods begin
    pods: Reading[tuple[Pod, ...]] = Field(NOT_RECORDED, title="the provider's pods")  # all of the account, strangers too
    rows: Reading[tuple[WorkerRow, ...]] = Field(NOT_RECORDED, title="the workers' rows")  # all, however old
    pods_again: Reading[tuple[Pod, ...]] = Field(NOT_RECORDED, title="the provider's pods, read again")
    rows_again: Reading[tuple[WorkerRow, ...]] = Field(NOT_RECORDED, title="the workers' rows, read again")
    pods_by_id: Reading[dict[str, str]] = Field(
        NOT_RECORDED, title="the pods that the list lacks, asked for by id"
    )  # id -> the provider's word for its state, "" where there is no such pod
    rows_by_id: Reading[dict[str, str]] = Field(
        NOT_RECORDED, title="the rows that the table lacks, asked for by id"
    )  # name of a pod -> the status of the row of that id, "" where there is no such row
    tasks: Reading[tuple[TaskRow, ...]] = Field(NOT_RECORDED, title="the tasks in progress")
    names: OwnNames = OwnNames()
    live: tuple[str, ...] = ("active", "spawning")  # what the fleet file calls states of a worker that should have a pod
    ended: tuple[str, ...] = ("terminated", "terminating", "crashed", "inactive", "error")  # or should have none
    marked: str = "terminated"  # the one that is written where the pod is gone
