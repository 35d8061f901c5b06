"""The fleet file's `orchestrator` section: provider, worker and task tables, deployment platform, worker logs."""

from typing import ClassVar, Literal

from pydantic import Field, model_validator

from runbooks.core.base import Frozen, Regex
from runbooks.core.logs_config import COLUMN, SQL_NAME, LogSources

ENV = r"^[A-Za-z_][A-Za-z0-9_]{0,99}$"
URL = r"^https?://[^\s]+$"


class RunPodConfig(Frozen):
    """Where the pod provider answers. Three surfaces, because none of them has every field."""

    rest_url: str = Field(default="https://rest.runpod.io/v1", pattern=URL)
    rest2_url: str = Field(default="https://api.runpod.io/v2", pattern=URL)
    graphql_url: str = Field(default="https://api.runpod.io/graphql", pattern=URL)
    key_env: str = Field(default="RUNPOD_API_KEY", pattern=ENV)
    name_prefix: str = Field(default="gpu-", min_length=1)  # pods of this orchestrator; others are never touched
    timeout_s: float = Field(default=30, gt=0, le=120)


class WorkerTable(Frozen):
    """Columns of the workers' table; empty where there is none."""

    table: str = Field(default="workers", pattern=SQL_NAME)
    id: str = Field(default="id", pattern=COLUMN)
    status: str = Field(default="status", pattern=COLUMN)
    created: str = Field(default="created_at", pattern=COLUMN)
    heartbeat: str = Field(default="last_heartbeat", pattern=COLUMN)
    changed: str = Field(default="updated_at", pattern=COLUMN)
    pod_id: str = Field(default="runpod_id", pattern=COLUMN)  # a column, or a key of `metadata`
    metadata: str = ""  # JSON column that holds `pod_id`; empty: `pod_id` is a column itself
    live: tuple[str, ...] = Field(default=("active", "spawning"), min_length=1)  # states of a worker that should have a pod
    ended: tuple[str, ...] = Field(default=("terminated", "terminating", "crashed", "inactive", "error"), min_length=1)  # or none
    marked: str = Field(default="terminated", min_length=1)  # the one of `ended` that fleet-sync writes where the pod is gone

    @model_validator(mode="after")
    def _either(self) -> "WorkerTable":
        if both := sorted(set(self.live) & set(self.ended)):
            raise ValueError(f"live and ended: {both[0]} is in both; name it in one of them")
        if self.marked not in self.ended:
            raise ValueError(f"marked: {self.marked} is none of `ended`; name one of them")
        return self


class TaskTable(Frozen):
    """Columns of the tasks' table."""

    table: str = Field(default="tasks", pattern=SQL_NAME)
    id: str = Field(default="id", pattern=COLUMN)
    status: str = Field(default="status", pattern=COLUMN)
    worker: str = Field(default="worker_id", pattern=COLUMN)
    claimed: str = Field(default="generation_started_at", pattern=COLUMN)
    in_progress: str = "In Progress"
    queued: str = "Queued"


class DatabaseConfig(Frozen):
    """The orchestrator's database: SQL by connection string first, the REST interface where that is all one has."""

    url_env: str = Field(default="DATABASE_URL", pattern=ENV)  # postgresql://…
    rest_url_env: str = Field(default="SUPABASE_URL", pattern=ENV)
    rest_key_env: str = Field(default="SUPABASE_SERVICE_ROLE_KEY", pattern=ENV)
    workers: WorkerTable = WorkerTable()
    tasks: TaskTable = TaskTable()
    timeout_s: float = Field(default=10, gt=0, le=60)

    WAYS: ClassVar = (("url_env",), ("rest_url_env", "rest_key_env"))  # one of them, whole, is enough


class RailwayConfig(Frozen):
    """The platform on which the orchestrator itself runs."""

    url: str = Field(default="https://backboard.railway.com/graphql/v2", pattern=URL)
    token_env: str = Field(default="RAILWAY_TOKEN", pattern=ENV)
    token_kind: Literal["project", "account"] = "project"  # noqa: S105 - the two are sent in different headers
    project: str  # ids (UUIDs), not names: the API knows no names
    environment: str
    service: str
    timeout_s: float = Field(default=15, gt=0, le=60)


class WorkerLogs(Frozen):
    """Where workers upload their logs. `{worker}` is the worker's id."""

    bucket: str
    key: str = "logs/{worker}.log"
    endpoint: str | None = Field(default=None, pattern=URL)
    region: str | None = None
    profile: str | None = None
    lines: int = Field(default=200, ge=1, le=5000)

    @model_validator(mode="after")
    def _has_worker(self) -> "WorkerLogs":
        if "{worker}" not in self.key:
            raise ValueError("key: give {worker} where the worker's id goes")
        return self


class WorkerProcess(Frozen):
    """How the worker runs inside its pod."""

    match: Regex = Field(default=r"python.*worker\.py", min_length=3)  # Python regular expression on command lines
    start: tuple[str, ...] = ()  # argument list inside the pod; empty: it cannot be started from here
    log: str = "/workspace/logs/{worker}.log"
    lock: str = Field(default="", pattern=r"^(/.*)?$")  # on the pod; empty: in /run/gpu-runbooks or the login's home
    disks: tuple[str, ...] = ("/", "/workspace")


class PodSsh(Frozen):
    """How pods are reached by SSH. The key is the one whose public half pods are created with."""

    user: str = "root"
    key_env: str = Field(default="RUNPOD_SSH_PRIVATE_KEY", pattern=ENV)
    public_key_env: str = Field(default="RUNPOD_SSH_PUBLIC_KEY", pattern=ENV)
    trust_file: str = "pod_host_keys.json"  # host keys by pod id; relative: in the state folder
    host_keys: dict[str, str] = {}  # pinned: pod id to "ssh-ed25519 AAAA…"; wins over what was seen or published


class PodRequest(Frozen):
    """What the orchestrator asks the provider for. Empty: it is read from the orchestrator's variable of that name."""

    gpu_type: str = ""
    data_center: str = ""
    storage: str = ""  # name or id of a network volume
    cloud_type: str = Field(default="", pattern=r"^(SECURE|COMMUNITY|ALL)?$")
    gpus: int = Field(default=1, ge=1, le=64)
    gpu_type_variable: str = Field(default="RUNPOD_GPU_TYPE", pattern=ENV)
    data_center_variable: str = Field(default="RUNPOD_DATA_CENTER", pattern=ENV)
    storage_variable: str = Field(default="RUNPOD_STORAGE_NAME", pattern=ENV)
    cloud_type_variable: str = Field(default="RUNPOD_CLOUD_TYPE", pattern=ENV)


class Orchestrator(Frozen):
    """Everything that starts and supervises workers on rented pods."""

    runpod: RunPodConfig = RunPodConfig()
    database: DatabaseConfig = DatabaseConfig()
    railway: RailwayConfig | None = None
    logs: WorkerLogs | None = None
    process: WorkerProcess = WorkerProcess()
    ssh: PodSsh = PodSsh()
    request: PodRequest = PodRequest()
    log_sources: LogSources = LogSources()
