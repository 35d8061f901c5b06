"""Arguments of the actions on workers, their pods, rows and variables."""

from pydantic import Field

from runbooks.core.args.base import Args


class StartWorker(Args):
    """A worker's command in its pod, for the boot that was judged."""

    pod: str
    worker: str
    boot_id: str
    argv: tuple[str, ...]


class SetVariable(Args):
    """A variable and the fingerprint of its new key."""

    name: str
    fingerprint: str


class MarkWorkerRow(Args):
    """A row as it was read, and its new status."""

    worker: str
    was: str = Field(alias="from")
    to: str
    pod: str
    heartbeat: str | None  # ISO 8601
    gone: bool = False  # only if the provider has neither that pod nor one of the worker's name, right before


class RecoverPodId(Args):
    """A row that names no pod, with the status that was read, and the one pod that has its name."""

    worker: str
    was: str = Field(alias="from")
    pod: str


class RowWas(Args):
    """A row that owns a pod, as it was read."""

    worker: str
    status: str
    pod: str


class EndPod(Args):
    """A pod as it was judged, its worker, and the tasks that the plan listed."""

    pod: str
    name: str
    status: str
    machine: str
    worker: str
    tasks: tuple[str, ...]
    rows: tuple[RowWas, ...] | None = None  # all rows that own it by its id or its name; None: not compared
