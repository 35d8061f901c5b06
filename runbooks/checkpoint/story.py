"""The words around a judgment: what to resume from, what is lost, what must not be done, what to change."""

from shlex import quote

from runbooks.checkpoint.choose import CheckpointChoice, why_not
from runbooks.checkpoint.copies import Copy
from runbooks.checkpoint.cross import alike
from runbooks.checkpoint.evidence import Evidence
from runbooks.checkpoint.limits import Limits
from runbooks.core.checkpoints import Checkpoints, TierKind
from runbooks.core.reading import Known
from runbooks.core.sizes import size
from runbooks.core.verdict import Cause

ALWAYS = (
    "use `ls -t | tail -n +4 | xargs rm` (or any deletion by age alone): it keeps the newest three even if all three are "
    "broken, and "
    "deletes the last good one",
    "take a checkpoint for whole because torch.load took it: it accepts flipped bits, zeroed holes and trailing bytes "
    "silently",
)


TRUST_WORDS = {
    "proven": "structure and every byte's checksum verified",
    "unprovable": "structure verified; its format has no checksum and no manifest names it, so its content is unproven",
    "not-read": "structure verified; its content was not read",
}


MENDED = {
    "parts-on-hosts": "its parts lie on several hosts. Join them, then resume from it",
    "rename-missing": "its commit marker still has a temporary name. Give it the final one, then resume from it",
}  # what makes an open one whole
OPEN = {
    "part-elsewhere": "a part of it may lie on a host that was not read", "unreadable": "it could not be read",
    "other-format": "its format is not checked here", "beyond-reader": "it is beyond what is read here",
}  # fmt: skip


def headline(choice: CheckpointChoice, causes: tuple[Cause, ...]) -> str:
    """One line: resume from where, or that there is nothing. What may be newer and whole stands first."""
    if choice.open:
        return _open(choice, causes)
    if choice.best is None:
        found = f"; {len(choice.newer)} candidates were rejected" if choice.newer else ""
        return f"No checkpoint that can be trusted was found{found}"
    c = choice.best.candidate
    rejected = len([x for x in choice.newer if x.candidate.step > c.step])
    more = f"; {rejected} newer {'was' if rejected == 1 else 'were'} rejected" if rejected else ""
    return f"Resume from step {c.step} on {choice.best.look.tier} ({TRUST_WORDS[c.content]}){more}"


def _open(choice: CheckpointChoice, causes: tuple[Cause, ...]) -> str:
    first = choice.open[0]
    slug = next((c.slug for c in causes if c.subject == first.where), "")
    older = f"; older and checked: step {choice.best.candidate.step} on {choice.best.look.tier}" if choice.best else ""
    if slug in MENDED:
        return f"Step {first.candidate.step} on {first.look.tier} is whole, but {MENDED[slug]}{older}"
    why = OPEN.get(slug, "not all of it was seen")
    return f"Cannot tell whether step {first.candidate.step} on {first.look.tier} is whole: {why}{older}"


def resume(evidence: Evidence, config: Checkpoints, limits: Limits, choice: CheckpointChoice) -> tuple[str, ...]:
    """The resume setting, how long a copy takes, and why newer ones were rejected."""
    lines = []
    if choice.best is not None:
        best = choice.best
        setting = config.resume.format(path=best.where, step=best.candidate.step)
        resume = f"Only if step {choice.open[0].candidate.step} cannot be had: resume" if choice.open else "Resume"
        lines.append(
            f"{resume} with `{setting}` ({best.candidate.format}, {size(best.candidate.size)} on {best.look.tier})"
        )
        lines.append(_copy_time(config, limits, best))
        same = alike(evidence, best)
        lines.append(f"{', '.join(same[:3])} has the same bytes" if same else "")
    lines.append(_last_proof(evidence) if choice.best is not None else "")
    lines += [f"{'Open' if c in choice.open else 'Not'} {c.where}: {why_not(c.candidate)}" for c in choice.newer[:10]]
    return tuple(x for x in lines if x)


def _last_proof(evidence: Evidence) -> str:
    """What the load in a sandbox said, or how to have it."""
    if isinstance(evidence.load, Known) and evidence.load.value.ok:
        p = evidence.load.value
        where = "without network" if p.alone else "with the node's network: it could not be cut off"
        return f"Last proof: torch {p.torch} loaded its {p.tensors} tensors in {p.seconds:.0f} s, {where}"
    if isinstance(evidence.torch, Known) and not isinstance(evidence.load, Known):
        return f"As the last proof, have torch {evidence.torch.value} load it in a sandbox: option load=yes"
    return ""


def _copy_time(config: Checkpoints, limits: Limits, best: Copy) -> str:
    tier = config.tier(best.look.tier)
    rates = {
        TierKind.MEMORY: limits.memory_bytes_per_s, TierKind.NVME: limits.nvme_bytes_per_s,
        TierKind.S3: limits.s3_bytes_per_s,
    }  # fmt: skip
    rate = tier.bytes_per_s or rates[tier.kind]
    return f"Reading it takes about {best.candidate.size / rate:.0f} s on each node (at {rate / 1e6:.0f} MB/s)"


def waiting_costs(evidence: Evidence, config: Checkpoints, choice: CheckpointChoice) -> tuple[str, ...]:
    """Steps and GPU-hours that must be done again, where both ends are known."""
    if choice.best is None:
        return ("without a checkpoint everything since the start is lost",)
    if choice.open:
        return (f"an older one costs {choice.open[0].candidate.step - choice.best.candidate.step} steps more than the newest",)
    newest = max([evidence.crashed_step or 0, *(c.candidate.step for c in choice.newer)], default=0)
    lost = newest - choice.best.candidate.step
    if lost <= 0:
        return ()
    what = "the log's last step" if evidence.crashed_step == newest else "the newest step that was saved at all"
    out = [f"{lost} steps must be done again ({what} is {newest})"]
    if config.step_seconds and config.gpus:
        out.append(f"{lost * config.step_seconds * config.gpus / 3600:.1f} GPU-hours")
    return tuple(out)


def must_not(choice: CheckpointChoice) -> tuple[str, ...]:
    """What must not be done, whatever the cause."""
    rejected = "delete or overwrite any of the rejected ones: a part may still be needed to repair the run"
    return ALWAYS if choice.best else (rejected, *ALWAYS)


def by_hand(choice: CheckpointChoice) -> tuple[str, ...]:
    """How to check without this program."""
    if choice.best is None:
        return ()
    where = quote(choice.best.where)
    out = [f"python3 -m zipfile -t {where}" if choice.best.candidate.format == "torch-zip" else f"ls -la {where}"]
    proof = "import torch,sys; torch.load(sys.argv[1], map_location='cpu', weights_only=True, mmap=True)"
    out.append(f'as the last proof, in a process of its own without network: unshare -n python3 -c "{proof}" {where}')
    return tuple(out)
