"""Rows of the tables of workers and tasks, as the clients of the database and of its REST interface give them."""

from datetime import datetime

from runbooks.core.base import Frozen


class WorkerRow(Frozen):
    """A row of the workers' table."""

    id: str
    status: str
    created: datetime | None = None
    heartbeat: datetime | None = None
    changed: datetime | None = None
    pod_id: str = ""
    ended: str = ""  # a mark of its end in its metadata: key and value


class TaskRow(Frozen):
    """A task that a worker holds."""

    id: str
    status: str
    worker: str
    claimed: datetime | None = None
