"""What is read about a job's checkpoints before one is trusted. Bytes, seconds, Unix times; steps are optimizer
steps."""

from datetime import datetime
from typing import Any, Literal

from pydantic import ConfigDict, Field

from runbooks.core.base import Frozen
from runbooks.core.checkpoints import Checkpoints, TierKind
from runbooks.core.reading import NOT_RECORDED, Reading


class FaultSeen(Frozen):
    """Proof against a checkpoint, or a limit of its reader (kinds: runbooks/checkpoint/parsers/types.py)."""

    kind: str
    detail: str
    file: str = ""


class ParamGroup(Frozen):
    """A parameter group of an optimizer, as a checkpoint keeps it."""

    name: str  # "optimizer.param_groups.0"
    params: int = -1  # how many; -1: its names do not say
    settings: tuple[str, ...] = ()  # "lr", "betas" …


class Candidate(Frozen):
    """One checkpoint on one tier, as far as it was checked."""

    name: str  # below the tier
    step: int
    folder: bool = False
    size: int = 0
    files: int = 1
    mtime_s: float = 0.0
    identity: str = ""  # changes when it is written or replaced
    format: str = "unknown"
    faults: tuple[FaultSeen, ...] = ()
    limits: tuple[FaultSeen, ...] = ()  # what its reader could not see: says nothing against it
    suspects: tuple[FaultSeen, ...] = ()
    notes: tuple[str, ...] = ()
    checksummed: bool = False  # its format or manifest can prove its content
    content: Literal["not-read", "proven", "unprovable", "damaged"] = "not-read"
    keys: tuple[str, ...] = ()
    scalars: dict[str, Any] = {}
    tensors: int = 0
    prefix: str = ""  # "module." or "_orig_mod." where tensor names carry it
    refused_globals: tuple[str, ...] = ()
    unsafe_globals: tuple[str, ...] = ()
    archived: str = ""  # storage class from which it must be restored first
    restoring: bool = False
    read_bytes: int = 0
    fingerprint: str = ""  # of the checksums that its format stores; alike in copies of one save
    digest: str = ""  # of all its bytes, where they were compared
    loader_limits: tuple[str, ...] = ()  # why a usual loader refuses it although it is whole
    groups: tuple[ParamGroup, ...] = ()
    has: dict[str, int] = {}  # of an incomplete one: file -> bytes
    needs: dict[str, int] = {}  # of an incomplete one: file -> bytes that it must have, -1: of any size

    @property
    def whole(self) -> bool:
        """Nothing speaks against it, and all that its check needs was seen."""
        return not self.faults and not self.limits and self.content != "damaged" and not self.archived


class Space(Frozen):
    """The folder of a tier and the file system below it."""

    path: str
    exists: bool
    nearest: str = ""  # the deepest folder above it that exists
    folder: bool = True
    mode: int = 0
    uid: int = 0
    gid: int = 0
    owner: str = ""
    asking_uid: int = 0  # who the probe ran as
    fs_type: str = ""
    device: str = ""
    disks: tuple[str, ...] = ()  # names by which the kernel's log calls it and what lies below it
    read_only: bool = False
    total: int = 0
    free: int = 0
    available: int = 0  # to processes without privileges
    inodes: int = 0
    inodes_free: int = 0
    network: bool = False  # other machines may use it, unseen from here
    write: str = "not-tried"  # "ok", an errno name, or "not-tried": an unnamed file of 4 KiB
    error: str = ""  # errno name when the folder could not be listed


class FileHolder(Frozen):
    """A process that has a file below the tier open."""

    pid: int
    start_ticks: int
    command: str
    path: str
    writing: bool


class Leftover(Frozen):
    """A file or folder with a temporary name."""

    name: str
    size: int = 0
    mtime_s: float = 0.0
    doing: str = ""  # "copy", "pointer" or "deletion": left by this program
    was: str = ""  # the final name; "": not said
    identity: str = ""  # of what a deletion left
    untouched: bool = False  # the deletion had not begun to remove anything
    files: int = 1


class Pointer(Frozen):
    """The `latest` file of a tier."""

    text: str
    identity: str
    step: int | None = None
    mtime_s: float = 0.0


class Upload(Frozen):
    """An unfinished multipart upload."""

    key: str
    upload_id: str
    begun_s_ago: float
    newest_part_s_ago: float | None = None  # None: it has no part
    parts: int = 0
    bytes: int = 0


class InstanceRole(Frozen):
    """How the instance's metadata service answers in one network, and what else holds credentials there, by name only."""

    pid: int = 0  # a process of that network; 0: the machine itself
    command: str = ""
    places: tuple[str, ...] = ()  # variables and files of that process that hold credentials: then the service was not asked
    off: bool = False  # switched off by AWS_EC2_METADATA_DISABLED
    error: str = ""  # why there is no connection
    token: int = 0  # status of the answer to the token request (PUT); 0: it never came
    plain: int = 0  # status of a read
    role: str = ""


class Store(Frozen):
    """How the object store answered. Codes as it sent them."""

    reached: bool
    bucket: str
    prefix: str
    list_code: str = "ok"
    list_status: int = 200
    get_code: str = ""  # of a ranged read of an object that the listing names; "" not tried
    head_code: str = ""  # of an object that the configuration names
    credentials: str = ""  # where they came from ("env", "shared-credentials-file", "iam-role"); "" none found
    looked_in: tuple[str, ...] = ()
    instance_role: InstanceRole | None = None  # asked where the engine found no credentials
    skew_s: float | None = None  # store's clock minus the engine's
    region_says: str = ""
    message: str = ""


class TierFacts(Frozen):
    """One tier as one look saw it."""

    model_config = ConfigDict(title="tier")

    tier: str
    kind: TierKind
    node: str  # "" for s3
    where: str  # path or s3://bucket/prefix
    space: Reading[Space] = NOT_RECORDED
    candidates: Reading[tuple[Candidate, ...]] = NOT_RECORDED
    leftovers: tuple[Leftover, ...] = ()
    pointer: Reading[Pointer] = NOT_RECORDED
    holders: Reading[tuple[FileHolder, ...]] = NOT_RECORDED
    store: Reading[Store] = NOT_RECORDED
    uploads: Reading[tuple[Upload, ...]] = NOT_RECORDED


class OtherNode(Frozen):
    """What another node has on a tier that is not shared: steps that look whole."""

    model_config = ConfigDict(title="node")

    node: str
    tier: str
    steps: Reading[tuple[int, ...]]
    checked_from: int = 0  # older steps were not looked at
    parts: tuple[Candidate, ...] = ()  # those of which only a part lies there


class LoadProof(Frozen):
    """What torch said when it loaded the chosen checkpoint in a sandbox."""

    ok: bool
    where: str = ""
    torch: str = ""
    tensors: int = 0
    seconds: float = 0.0
    alone: bool = False  # without network
    error: str = ""


class Evidence(Frozen):
    """Everything that the checkpoint judgment looks at."""

    node: str
    taken_at: datetime
    config: Reading[Checkpoints] = Field(NOT_RECORDED, title="configuration")  # Absent: the fleet file has no `checkpoints`
    tiers: tuple[TierFacts, ...] = ()
    others: tuple[OtherNode, ...] = ()
    kernel: Reading[tuple[str, ...]] = Field(NOT_RECORDED, title="kernel log")  # lines on storage devices and file systems
    log: Reading[str] = NOT_RECORDED  # the job's last lines, secrets replaced
    crashed_step: int | None = None  # the last step that the log names
    torch: Reading[str] = Field(NOT_RECORDED, title="version of torch")  # version on the node
    load: Reading[LoadProof] = Field(NOT_RECORDED, title="test load")  # the last proof, where it was asked for
    node_credentials: Reading[tuple[str, ...]] = Field(NOT_RECORDED, title="S3 credentials on the node")
    instance_roles: Reading[tuple[InstanceRole, ...]] = Field(NOT_RECORDED, title="instance roles")  # of the node and its jobs' containers
    hands_off: bool = False
    not_looked: tuple[str, ...] = ()  # nodes with such a tier that the look left out: there were too many
