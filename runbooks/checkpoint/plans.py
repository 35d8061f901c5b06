"""Plans: repairs of the places, each step with the identities it was judged on. Reasons why a plan is not offered
come along."""

import json

from runbooks.checkpoint.aside import plan_quarantine
from runbooks.checkpoint.choose import CheckpointChoice, trusted
from runbooks.checkpoint.copies import SPEED, Copy, aws, command
from runbooks.checkpoint.evidence import Evidence, Space, TierFacts
from runbooks.checkpoint.leftovers import plans_for_leftovers
from runbooks.checkpoint.limits import Limits
from runbooks.checkpoint.prune import plan_prune
from runbooks.checkpoint.typed import copying, pointing, split
from runbooks.checkpoint.unseen import unseen_clients
from runbooks.core.args.checkpoints import (
    AbortUpload,
    CopyCheckpoint,
    CreateCheckpointFolder,
    RepointLatest,
    RestoreArchived,
    RestoreFolderMode,
)
from runbooks.core.base import Frozen
from runbooks.core.checkpoints import Checkpoints, Tier, TierKind
from runbooks.core.plan import Plan, Step
from runbooks.core.reading import Known
from runbooks.core.sizes import size as sized
from runbooks.core.verdict import Cause, Certainty

ROOM = 1.05  # of the size, before a copy is offered


class CheckpointPlans(Frozen):
    """Plans, and why others are not among them."""

    plans: tuple[Plan, ...] = ()
    withheld: tuple[str, ...] = ()


def offer(evidence: Evidence, config: Checkpoints, limits: Limits, choice: CheckpointChoice, causes: tuple[Cause, ...]) -> CheckpointPlans:
    """Everything that can safely be put right, most useful first. Nothing on a node that opted out."""
    if evidence.hands_off:
        return CheckpointPlans(withheld=(f"{evidence.node} is marked hands_off: nothing is offered",))
    sure = {c.slug for c in causes if c.certainty is Certainty.CONFIRMED}
    plans: list[Plan | None] = []
    withheld: list[str] = []
    for look in evidence.tiers:
        plans.append(_folder(look, sure))
        settled, notes = plans_for_leftovers(config, look, unseen_clients(config, look, config.tier(look.tier)))
        plans.extend(settled)
        withheld.extend(notes)
        pruned, why = plan_prune(evidence, config, limits, look, causes)
        plans.append(pruned)
        withheld.extend(why)
    if choice.open:
        withheld.append(f"nothing is copied or pointed to an older step: {choice.open[0].where} is newer and may be whole")
    else:
        plans.append(_copy(evidence, config, choice, causes, withheld))
        plans.extend(_repoint(config, look, choice, sure, withheld) for look in evidence.tiers)
    plans.append(plan_quarantine(evidence, causes, withheld))
    plans.extend(_uploads(config, look, limits) for look in evidence.tiers)
    plans.append(_restore(config, limits, choice))
    return CheckpointPlans(plans=tuple(p for p in plans if p is not None), withheld=tuple(dict.fromkeys(withheld)))


def lock_of(look: TierFacts, tier: Tier | None = None) -> str:
    """The physical owner of a tier."""
    return f"store:{look.where}" if look.kind == TierKind.S3 or (tier and tier.shared) else look.node


def _folder(look: TierFacts, sure: set[str]) -> Plan | None:
    if not isinstance(look.space, Known):
        return None
    s = look.space.value
    if "directory-missing" in sure and not s.exists and s.nearest == s.path.rpartition("/")[0]:
        return _create(look, s)
    if "permissions" in sure and s.exists and s.folder and s.mode & 0o700 != 0o700:
        mode = s.mode | 0o700
        step = Step(
            kind="restore-folder-mode", owner=look.node, commands=(command("chmod", f"{mode:04o}", s.path),),
            args=RestoreFolderMode(path=s.path, was=s.mode, to=mode, uid=s.uid, node=look.node).plain(),
            effect=f"the owner of {s.path} ({s.owner}) can write to it again",
        )  # fmt: skip
        return Plan(name=f"restore modes of {look.tier}", steps=(step,), for_causes=("permissions",))
    return None


def _create(look: TierFacts, s: Space) -> Plan:
    step = Step(
        kind="create-checkpoint-folder", owner=look.node, commands=(command("mkdir", "-m", "0755", s.path),),
        args=CreateCheckpointFolder(path=s.path, parent=s.nearest, device=s.device, node=look.node).plain(),
        effect=f"{s.path} exists on {s.device}",
    )  # fmt: skip
    why = f"it would lie on {s.device} ({s.fs_type}, {sized(s.available)} available); is a mount missing instead?"
    return Plan(name=f"create folder of {look.tier}", steps=(step,), for_causes=("directory-missing",), why=why)


def _copy(
    evidence: Evidence, config: Checkpoints, choice: CheckpointChoice, causes: tuple[Cause, ...], withheld: list[str]
) -> Plan | None:
    """The chosen step to the first tier (as the file lists them) that surely lacks it and has room."""
    lacking = {c.subject: c for c in causes if c.slug == "tier-lacks-it"}
    withheld += [f"no copy to {where}: it is not known {c.decides[0]}" for where, c in lacking.items() if c.decides]
    source = next((c for c in choice.copies if c.candidate.content in ("proven", "unprovable")), None)
    if source is None:
        return None
    for look in evidence.tiers:
        tier = config.tier(look.tier)
        if look.where not in lacking or lacking[look.where].decides or not _has_room(look, source, withheld):
            continue
        step = Step(
            kind="copy-checkpoint", owner=lock_of(look, tier), commands=copying(config, source, look),
            args=CopyCheckpoint(
                from_tier=source.look.tier, to_tier=look.tier, node=evidence.node, name=source.candidate.name,
                identity=source.candidate.identity, size=source.candidate.size, step=source.candidate.step,
            ).plain(),
            effect=f"step {source.candidate.step} lies whole on {look.where}, checked again there",
        )  # fmt: skip
        name = f"copy step {source.candidate.step} to {look.tier}"
        return Plan(
            name=name, steps=(step,), for_causes=("tier-lacks-it",), why="never replaces anything that is there"
        )
    return None


def lacks(look: TierFacts, choice: CheckpointChoice) -> bool:
    """The tier could be read, lacks the chosen step, and is faster than every copy, or is a store without any."""
    if choice.best is None or look.kind == TierKind.MEMORY or not isinstance(look.candidates, Known):
        return False
    if look.tier in {c.look.tier for c in choice.copies}:
        return False
    speed = SPEED.index(TierKind(look.kind))
    faster = all(speed < SPEED.index(TierKind(c.look.kind)) for c in choice.copies)
    return faster or (look.kind == TierKind.S3 and not any(trusted(c) for c in look.candidates.value))


def _has_room(look: TierFacts, source: Copy, withheld: list[str]) -> bool:
    if look.kind == TierKind.S3:
        return isinstance(look.candidates, Known)
    if (
        not isinstance(look.space, Known)
        or not look.space.value.exists
        or look.space.value.write not in ("ok", "not-tried")
    ):
        return False
    name = source.candidate.name
    if isinstance(look.candidates, Known) and any(c.name == name for c in look.candidates.value):
        withheld.append(f"no copy to {look.tier}: {name} is there, and nothing is ever replaced (quarantine it first)")
        return False
    return look.space.value.available > source.candidate.size * ROOM


def _repoint(config: Checkpoints, look: TierFacts, choice: CheckpointChoice, sure: set[str], withheld: list[str]) -> Plan | None:
    here = next((c for c in choice.copies if c.look.tier == look.tier), None)
    if "pointer-wrong" not in sure or here is None or not isinstance(look.pointer, Known):
        return None
    p, tier = look.pointer.value, config.tier(look.tier)
    if here.candidate.name.rpartition("/")[2] == p.text.rstrip("/").rpartition("/")[2]:
        return None
    why = unseen_clients(config, look, tier)
    if why:
        withheld.append(f"the pointer of {look.tier} stays as it is: {why}")
        return None
    text = str(here.candidate.step) if p.text.isdecimal() else here.candidate.name
    step = Step(
        kind="repoint-latest", owner=lock_of(look, tier),
        commands=pointing(look, tier, p, text),
        args=RepointLatest(
            tier=look.tier, node=look.node, pointer=tier.latest, expect=p.identity, text=text,
            name=here.candidate.name, identity=here.candidate.identity,
        ).plain(),
        effect=f"`{tier.latest}` of {look.tier} names {text}", loses=f"the pointer's old text, {p.text}",
    )  # fmt: skip
    return Plan(name=f"repoint latest of {look.tier}", steps=(step,), for_causes=("pointer-wrong",))


def _uploads(config: Checkpoints, look: TierFacts, limits: Limits) -> Plan | None:
    if not isinstance(look.uploads, Known):
        return None
    steps = tuple(
        Step(
            kind="abort-upload", owner=f"store:{look.where}",
            commands=(command(*aws(config.tier(look.tier), "s3api", "abort-multipart-upload"), "--bucket", split(look.where)[0],
                              "--key", u.key, "--upload-id", u.upload_id),),
            args=AbortUpload(
                tier=look.tier, key=u.key, upload_id=u.upload_id, parts=u.parts, older_than_s=limits.upload_age_s
            ).plain(),
            effect=f"the unfinished upload of {u.key} is gone", loses=f"{u.parts} uploaded parts, {sized(u.bytes)}",
        )
        for u in look.uploads.value
        if (u.newest_part_s_ago if u.newest_part_s_ago is not None else u.begun_s_ago) > limits.upload_age_s
    )  # fmt: skip
    return Plan(name="abort old uploads", steps=steps, for_causes=("s3-incomplete-multipart",)) if steps else None


def _restore(config: Checkpoints, limits: Limits, choice: CheckpointChoice) -> Plan | None:
    """The newest archived checkpoint, if it is newer than what can be had now. Cost is shown."""
    best = choice.best.candidate.step if choice.best else -1
    wanted = next(
        (c for c in choice.newer if c.candidate.archived and not c.candidate.restoring and c.candidate.step > best),
        None,
    )
    if wanted is None:
        return None
    c = wanted.candidate
    cost = c.size / 2**30 * limits.restore_price_per_gib
    days = json.dumps({"Days": limits.restore_days, "GlacierJobParameters": {"Tier": "Standard"}})
    step = Step(
        kind="restore-archived", owner=f"store:{wanted.look.where}",
        commands=(command(*aws(config.tier(wanted.look.tier), "s3api", "restore-object"), "--bucket", split(wanted.where)[0],
                          "--key", split(wanted.where)[1], "--restore-request", days),),
        args=RestoreArchived(
            tier=wanted.look.tier, name=c.name, identity=c.identity, days=limits.restore_days, retrieval="Standard"
        ).plain(),
        effect=f"{wanted.where} can be read for {limits.restore_days} days, some hours from now",
        loses=f"about {cost:.2f} (currency of the price limit) for {c.size / 2**30:.1f} GiB",
    )  # fmt: skip
    return Plan(name=f"restore archived step {c.step}", steps=(step,), for_causes=("archived",), settle_s=60)
