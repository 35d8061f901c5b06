"""Four views of one worker that often disagree: database row, provider's pod, network, inside; and the orchestrator."""

from datetime import datetime

from pydantic import Field

from runbooks.core.base import Frozen
from runbooks.core.reading import NOT_RECORDED, Reading
from runbooks.core.typed_pods import OwnNames
from runbooks.parsers.railway import Deployment
from runbooks.parsers.runpod import Pod
from runbooks.parsers.worker_rows import TaskRow, WorkerRow
from runbooks.spawning.parsers.orchestrator_log import OrchestratorLog


class PodRead(Frozen):
    """One read of the pod: there, or not there at that moment."""

    at: datetime
    pod: Pod | None


class SshStages(Frozen):
    """What the stages of ssh-auth-failure say of the pod."""

    stage: str
    cause: str  # slug; "" when the log-in works
    certainty: str
    headline: str
    first_seen: bool = False  # nobody vouches for its host key: it was only seen first and recorded
    trust: str = ""  # "pinned", "published" (by the start script, in the pod's log) or "first-seen <when> <machine>"
    key_of_pod_changed: bool = False  # or it is none of those that the start script published


class PodProcess(Frozen):
    """A worker process inside the pod."""

    pid: int
    start_ticks: int
    age_s: float
    command: str


class PodOther(Frozen):
    """Another process of the pod, and how far it moved while it was watched."""

    pid: int
    age_s: float
    command: str
    cpu_s: float = 0.0
    io_bytes: int = 0  # read and written, pipes and files
    first: bool = False  # it began all the others: its own age says nothing of what it does


class PodInside(Frozen):
    """What the pod itself shows."""

    boot_id: str
    pod_id: str = ""  # as its own environment says
    processes: tuple[PodProcess, ...] = ()
    others: tuple[PodOther, ...] | None = None  # all else that the pod's start began; None: not read, or not told apart
    watched_s: float = 0.0  # how long `others` were watched
    log_exists: bool = False
    log: tuple[str, ...] = ()
    log_age_s: float | None = None
    free_bytes: dict[str, int] = {}
    gpus: int | None = None
    driver_cuda: str = ""
    image_cuda: str = ""


class Variables(Frozen):
    """The orchestrator's variables: which are set, and the fingerprints of the key halves. Never a value."""

    names: tuple[str, ...]
    private_fingerprint: str = ""
    private_fault: str = ""
    public_fingerprint: str = ""
    private_name: str = ""  # the variable that should hold the private half
    here_fingerprint: str = ""  # of the private half that this machine has under the same name
    sealed_known: bool = True  # False: whether a variable that seems missing is a sealed one could not be read


class Stock(Frozen):
    """What the provider has of what the orchestrator asks for. Words are the provider's (High, Medium, Low); empty: none."""

    gpu_type: str
    gpus: int
    anywhere: str
    data_center: str = ""  # the one that the request is tied to
    tied_by: str = ""  # what ties it
    here: str = ""  # stock in that data centre
    others: tuple[str, ...] = ()  # types with at least as much memory that are in stock where the request may go
    cloud: str = ""  # SECURE or COMMUNITY, where the request is tied to one of them; `anywhere` and `here` are for both
    in_cloud: str = ""  # stock in that cloud, anywhere
    here_in_cloud: str = ""  # stock in that cloud, in the data centre


class Usual(Frozen):
    """How long pods of one image took from their start to their container, by earlier reports of this runbook."""

    image: str
    seconds: tuple[float, ...]  # one for each pod


class Evidence(Frozen):
    """Everything read about one worker; with `each`, about all that are past their limit in spawning."""

    worker: str
    taken_at: datetime
    row: Reading[WorkerRow] = Field(title="the worker's row")
    pod: Reading[tuple[PodRead, ...]] = NOT_RECORDED  # two reads apart
    pod_log: Reading[tuple[str, ...]] = NOT_RECORDED
    ssh: Reading[SshStages] = Field(NOT_RECORDED, title="SSH to the pod")
    inside: Reading[PodInside] = Field(NOT_RECORDED, title="the inside of the pod")
    stored_log: Reading[tuple[str, ...]] = NOT_RECORDED  # S3
    orchestrator: Reading[OrchestratorLog] = NOT_RECORDED
    deployment: Reading[str] = NOT_RECORDED  # the platform's word on the deployment in service: SUCCESS, CRASHED, …
    service: Deployment | None = None  # which one that is
    newer: tuple[Deployment, ...] = ()  # made after it, newest first: failed, or still on their way
    variables: Reading[Variables] = NOT_RECORDED
    tasks: Reading[tuple[TaskRow, ...]] = NOT_RECORDED  # in progress, of all workers
    queued: Reading[int] = Field(NOT_RECORDED, title="queued tasks")
    workers: Reading[tuple[WorkerRow, ...]] = NOT_RECORDED  # all rows
    pods: Reading[tuple[Pod, ...]] = NOT_RECORDED  # all pods of this orchestrator
    stock: Reading[Stock] = NOT_RECORDED  # read only where a row has no pod
    usual: Reading[Usual] = Field(NOT_RECORDED, title="usual start time")  # Absent: no earlier report saw this image come up
    can_start: bool = False  # the fleet file knows how the worker is started
    start_argv: tuple[str, ...] = ()
    names: OwnNames = OwnNames()
    waited_s: float = 0.0  # how long this look waited for the pod to come up
    each: tuple["Evidence", ...] = ()  # one per worker past its limit; what all share stands only outside
    not_looked_at: tuple[str, ...] = ()  # workers past their limit beyond the most that one run looks at
