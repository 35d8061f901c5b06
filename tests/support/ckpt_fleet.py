"""A fleet of one local node whose tiers are folders of a test, and a job's checkpoints in them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from runbooks.checkpoint.diagnose import diagnose
from runbooks.checkpoint.evidence import Evidence
from runbooks.checkpoint.limits import Limits
from runbooks.core.checkpoints import Checkpoints, Tier
from runbooks.core.fleet import Fleet, Node
from runbooks.core.knowledge import load_runbook
from runbooks.core.plan import Plan, Step
from runbooks.core.verdict import Diagnosis
from tasks.checkpoint import act_node as acts
from tasks.checkpoint.read import gather_checkpoint_fallback
from tasks.context import ActionResult, Context
from tasks.transport.local import LocalHost
from tests.support.ckpt_files import save

LIMITS = load_runbook("checkpoint-fallback").limit_values()
ACTS = {
    "copy-checkpoint": acts.copy_checkpoint, "repoint-latest": acts.repoint_latest,
    "prune-checkpoints": acts.prune_checkpoints,
    "quarantine-checkpoint": acts.quarantine_checkpoint, "create-checkpoint-folder": acts.create_checkpoint_folder,
    "restore-folder-mode": acts.restore_folder_mode, "abort-upload": acts.abort_upload,
    "restore-archived": acts.restore_archived, "put-back-checkpoint": acts.put_back_checkpoint,
    "finish-deletion": acts.finish_deletion,
}  # fmt: skip


def context(*tiers: Tier, options: dict[str, Any] | None = None, **config: Any) -> Context:
    """A run on the local node `a`."""
    fleet = Fleet(nodes=(Node(name="a", local=True),), checkpoints=Checkpoints(tiers=tiers, **config))
    return Context(fleet=fleet, target="a", open_host=lambda n: LocalHost(n.name), limits=LIMITS, options=options or {})


def folder(name: str, path: Path, kind: str = "nvme", **more: Any) -> Tier:
    """A tier of a folder."""
    return Tier(name=name, kind=kind, path=str(path), **more)


def look(ctx: Context) -> tuple[Evidence, Diagnosis]:
    """Gather and judge."""
    evidence = gather_checkpoint_fallback(ctx)
    return evidence, diagnose(evidence, Limits(**LIMITS))


def plan(got: Diagnosis, name: str) -> Plan:
    """The plan of that name."""
    found = [p for p in got.plans if p.name == name]
    assert found, f"no plan {name!r}; there are: {[p.name for p in got.plans]}"
    return found[0]


def do(step: Step, ctx: Context) -> ActionResult:
    """What the engine's table would call."""
    return ACTS[step.kind](step, ctx)


class Shelf:
    """Whole torch checkpoints by step, written once and copied where a test needs them."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def put(self, where: Path, *steps: int, form: str = "torch-zip") -> list[Path]:
        """Copies of whole checkpoints of those steps, as `checkpoint_step_N.pt` (or a folder `step_N`)."""
        where.mkdir(parents=True, exist_ok=True)
        out = []
        for step in steps:
            master = self.root / form / str(step)
            if not master.exists():
                save(form, master, step=step, seed=step)
            if form == "torch-zip":
                out.append(Path(shutil.copy(master / "ckpt.pt", where / f"checkpoint_step_{step}.pt")))
            else:
                out.append(Path(shutil.copytree(master, where / f"step_{step}")))
        return out
