"""Arguments of the actions on checkpoints. A checkpoint is a name on a tier, with an identity that changes when it is written."""

from pydantic import Field

from runbooks.core.args.base import Args, Seconds, Whole


class CopyCheckpoint(Args):
    """Which checkpoint a node copies from one tier to another; its size in bytes."""

    from_tier: str
    to_tier: str
    node: str
    name: str
    identity: str
    size: Whole
    step: Whole


class CreateCheckpointFolder(Args):
    """A folder, its nearest existing parent, and the device of that parent."""

    path: str
    parent: str
    device: str
    node: str


class RepointLatest(Args):
    """The pointer, its expected identity, its new text, and the checkpoint that the text names."""

    tier: str
    node: str
    pointer: str
    expect: str
    text: str
    name: str
    identity: str


class QuarantineCheckpoint(Args):
    """A checkpoint and its new name."""

    node: str
    tier: str
    name: str
    to: str
    identity: str


class RestoreFolderMode(Args):
    """A folder with its owner and mode, and its new mode."""

    path: str
    was: Whole = Field(alias="from")
    to: Whole
    uid: Whole
    node: str


class RestoreArchived(Args):
    """An archived checkpoint, the number of days to keep it readable, and the retrieval tier."""

    tier: str
    name: str
    identity: str
    days: Whole
    retrieval: str


class AbortUpload(Args):
    """An unfinished upload, the number of its parts, and its least age."""

    tier: str
    key: str
    upload_id: str
    parts: Whole
    older_than_s: Seconds


class KeptCheckpoint(Args):
    """A checkpoint that must stay unchanged."""

    name: str
    identity: str


class OtherCopy(Args):
    """A copy of the checkpoint on another tier."""

    tier: str
    name: str
    identity: str


class PrunedCheckpoint(Args):
    """A checkpoint to delete, and the copy that remains."""

    name: str
    identity: str
    size: Whole
    elsewhere: OtherCopy


class PruneCheckpoints(Args):
    """Checkpoints to delete, and those that must stay."""

    node: str
    tier: str
    delete: tuple[PrunedCheckpoint, ...]
    keep: tuple[KeptCheckpoint, ...]


class InterruptedDeletion(Args):
    """What an interrupted deletion left: its present name, and the checkpoint's own name in `was`."""

    node: str
    tier: str
    name: str
    was: str
    identity: str
