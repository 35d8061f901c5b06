"""Changes checkpoints on a node: copy, repoint, quarantine, prune, create the folder, restore its mode."""

from typing import Any

from runbooks.core.args.checkpoints import (
    AbortUpload,
    CopyCheckpoint,
    CreateCheckpointFolder,
    InterruptedDeletion,
    PruneCheckpoints,
    QuarantineCheckpoint,
    RepointLatest,
    RestoreArchived,
    RestoreFolderMode,
)
from runbooks.core.checkpoints import Checkpoints, Tier, TierKind
from runbooks.core.reading import Known
from runbooks.core.refusal import RefusalCode
from tasks.arguments import takes
from tasks.checkpoint import act_store as store
from tasks.checkpoint.node import read_node_tier, spec_of
from tasks.context import ActionRefused, ActionResult, Context
from tasks.remote.changing import change

SLOWEST = 20e6  # bytes/s assumed for the time limit of a copy


def act_on_node(context: Context, node: str, ask: dict[str, Any], timeout_s: float = 60) -> dict[str, Any]:
    """Runs the changing program on the node. Raises ActionRefused (nothing changed), TransportError."""
    host = context.open_host(context.fleet.node(node))
    return change(context, host, "ckpt_act", ask, timeout_s)


def config_of(context: Context) -> Checkpoints:
    """The fleet file's section. Raises ActionRefused."""
    if context.fleet.checkpoints is None:
        raise ActionRefused(RefusalCode.CONFIG, "the fleet file has no `checkpoints` section any more")
    return context.fleet.checkpoints


def tier_of(context: Context, name: str) -> Tier:
    """A tier by name. Raises ActionRefused."""
    try:
        return config_of(context).tier(name)
    except KeyError as e:
        raise ActionRefused(RefusalCode.CONFIG, str(e)) from e


def _result(got: dict[str, Any], **facts: str) -> ActionResult:
    return ActionResult(said=tuple(str(s) for s in got["said"]), facts=dict(facts))


@takes(CopyCheckpoint)
def copy_checkpoint(a: CopyCheckpoint, context: Context) -> ActionResult:
    """Copy one judged checkpoint to another tier: temporary name, fsync, checked there, published without replacing."""
    config = config_of(context)
    source, target = tier_of(context, a.from_tier), tier_of(context, a.to_tier)
    timeout = 120 + 4 * a.size / SLOWEST
    spec = spec_of(config)._replace(step=a.step)._asdict()
    ask = {"name": a.name, "identity": a.identity, "spec": spec, "root": target.path, "from": source.path}
    if target.kind is TierKind.S3:
        return store.upload(
            context, config, target, a, ask, lambda more, s: act_on_node(context, a.node, ask | more, s)
        )
    if source.kind is TierKind.S3:
        more = store.download_ask(config, source, a)
        return _result(act_on_node(context, a.node, ask | more | {"do": "download"}, timeout), copy=f"{target.path}/{a.name}")
    return _result(act_on_node(context, a.node, ask | {"do": "copy"}, timeout), copy=f"{target.path}/{a.name}")


@takes(RepointLatest)
def repoint_latest(a: RepointLatest, context: Context) -> ActionResult:
    """Let `latest` name another checkpoint, only if it still is what was judged (compare-and-set)."""
    tier = tier_of(context, a.tier)
    if config_of(context).others_write:
        raise ActionRefused(RefusalCode.CONFIG, "the fleet file says that others write or read here")
    if tier.kind is TierKind.S3:
        return store.repoint(config_of(context), tier, a)
    if tier.shared:
        raise ActionRefused(RefusalCode.CANNOT_CHECK, "other clients of a shared file system can't be seen from here")
    return _result(act_on_node(context, a.node, {**a.plain(), "do": "point", "root": tier.path}))


@takes(QuarantineCheckpoint)
def quarantine_checkpoint(a: QuarantineCheckpoint, context: Context) -> ActionResult:
    """Rename a proven-bad checkpoint aside on its node; nothing is deleted or replaced."""
    tier = tier_of(context, a.tier)
    return _result(act_on_node(context, a.node, {**a.plain(), "do": "quarantine", "root": tier.path}), root=tier.path)


@takes(PruneCheckpoints)
def prune_checkpoints(a: PruneCheckpoints, context: Context) -> ActionResult:
    """Delete the listed old checkpoints on a node while every one that must stay is unchanged and proven again."""
    tier, config = tier_of(context, a.tier), config_of(context)
    if tier.shared or config.others_write:
        raise ActionRefused(RefusalCode.CANNOT_CHECK, "another reader or writer can't be ruled out")
    if len(a.keep) < tier.keep:
        raise ActionRefused(RefusalCode.CONFIG, f"{len(a.keep)} proven ones stay, the fleet file wants {tier.keep}")
    _prove_kept(context, tier, config, a)
    ask = {**a.plain(), "do": "prune", "root": tier.path, "pointer": tier.latest}
    return _result(act_on_node(context, a.node, ask, 600))


def _prove_kept(context: Context, tier: Tier, config: Checkpoints, a: PruneCheckpoints) -> None:
    """Structure of those that stay, once more right before. Raises ActionRefused."""
    look = read_node_tier(context, context.fleet.node(a.node), config, tier, 10_000)
    if not isinstance(look.candidates, Known):
        raise ActionRefused(RefusalCode.CANNOT_CHECK, "the tier could not be read again")
    now = {c.name: c for c in look.candidates.value}
    for k in a.keep:
        c = now.get(k.name)
        if c is None or not c.whole or c.identity != k.identity:
            raise ActionRefused(RefusalCode.TARGET_CHANGED, f"{k.name}, which must stay, is not what it was")
    last = min(now[k.name].step for k in a.keep)
    for d in a.delete:
        if d.name in now and now[d.name].step >= last:
            raise ActionRefused(RefusalCode.TARGET_CHANGED, f"{d.name} is not older than those that stay")
    _prove_elsewhere(context, config, a)


def _prove_elsewhere(context: Context, config: Checkpoints, a: PruneCheckpoints) -> None:
    """The other copy of each one that goes is still the one whose content was proven. Raises ActionRefused."""
    for name in sorted({d.elsewhere.tier for d in a.delete}):
        now = _identities(context, config, tier_of(context, name), a.node)
        for d in a.delete:
            other = d.elsewhere
            if other.tier == name and now.get(other.name) != other.identity:
                raise ActionRefused(RefusalCode.TARGET_CHANGED, f"{other.name} on {name}, the other copy of {d.name}, is not what it was")


def _identities(context: Context, config: Checkpoints, tier: Tier, node: str) -> dict[str, str]:
    """Name -> identity of everything on a tier now. Raises ActionRefused if it can't be listed."""
    if tier.kind is TierKind.S3:
        return store.identities(config, tier)
    look = read_node_tier(context, context.fleet.node(node), config, tier, 0)
    if not isinstance(look.candidates, Known):
        raise ActionRefused(RefusalCode.CANNOT_CHECK, f"{tier.name} could not be read again")
    return {c.name: c.identity for c in look.candidates.value}


@takes(InterruptedDeletion)
def put_back_checkpoint(a: InterruptedDeletion, context: Context) -> ActionResult:
    """Give a checkpoint its name back whose deletion was broken off before it began; nothing is replaced."""
    tier = tier_of(context, a.tier)
    return _result(act_on_node(context, a.node, {**a.plain(), "do": "put-back", "root": tier.path}), root=tier.path)


@takes(InterruptedDeletion)
def finish_deletion(a: InterruptedDeletion, context: Context) -> ActionResult:
    """Delete what a broken-off deletion left of a checkpoint: it is not whole any more."""
    tier = tier_of(context, a.tier)
    if tier.shared or config_of(context).others_write:
        raise ActionRefused(RefusalCode.CANNOT_CHECK, "another reader or writer can't be ruled out")
    return _result(act_on_node(context, a.node, {**a.plain(), "do": "finish", "root": tier.path}))


@takes(CreateCheckpointFolder)
def create_checkpoint_folder(a: CreateCheckpointFolder, context: Context) -> ActionResult:
    """Create a tier's folder on the node, on the device that was judged."""
    return _result(act_on_node(context, a.node, {**a.plain(), "do": "mkdir"}))


@takes(RestoreFolderMode)
def restore_folder_mode(a: RestoreFolderMode, context: Context) -> ActionResult:
    """Give a tier's folder the mode back that its owner needs."""
    return _result(act_on_node(context, a.node, {**a.plain(), "do": "mode"}))


@takes(AbortUpload)
def abort_upload(a: AbortUpload, context: Context) -> ActionResult:
    """Abort one unfinished multipart upload, only if it got no part since it was judged and none is young."""
    return store.abort(tier_of(context, a.tier), a, context.now())


@takes(RestoreArchived)
def restore_archived(a: RestoreArchived, context: Context) -> ActionResult:
    """Ask the store to make an archived checkpoint readable for some days."""
    return store.restore(config_of(context), tier_of(context, a.tier), a)
