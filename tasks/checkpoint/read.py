"""Reads every tier of a job's checkpoints, proves content newest first, and what explains a failed save. Changes
nothing."""

import re
from typing import Any

from runbooks.checkpoint.choose import trusted
from runbooks.checkpoint.evidence import Evidence, OtherNode, TierFacts
from runbooks.core.checkpoints import Checkpoints, Tier, TierKind
from runbooks.core.fleet import Node
from runbooks.core.reading import Absent, Known, Reading, Source, Unknown, UnknownReason
from tasks.checkpoint.load import read_load
from tasks.checkpoint.node import ask_node, read_node_tier, spec_of
from tasks.checkpoint.proof import candidates_of, prove_tiers
from tasks.checkpoint.s3 import read_s3_tier
from tasks.checkpoint.s3_metadata import read_instance_roles
from tasks.context import Context
from tasks.diagnostic import diagnostic
from tasks.remote.probe import run_probe
from tasks.transport.base import TransportError

STORAGE = (
    r"I/O error|blk_update_request|Buffer I/O|nvme.*(timeout|abort|reset|critical)|EXT4-fs "
    r"error|XFS.*(error|corruption|shutdown)|remount.*read-only|Remounting filesystem read-only|critical medium "
    r"error|Media error"
)
STEP = re.compile(r"(?:\bglobal_step|\biteration|\bstep)\b\W{0,4}(\d+)", re.IGNORECASE)
LOG_BYTES = 64 << 10


def gather_checkpoint_fallback(context: Context) -> Evidence:
    """The whole look from one node: its own tiers, shared ones, the object store, and what other nodes have."""
    node, config = context.node, context.fleet.checkpoints
    base: dict[str, Any] = {"node": node.name, "taken_at": context.now(), "hands_off": node.hands_off}
    if config is None:
        return Evidence(**base, config=Absent(proof="the fleet file has no `checkpoints` section"))
    newest, budget = int(context.limit("structure_newest", "checkpoint-fallback")), context.limit("content_seconds", "checkpoint-fallback")
    looks = tuple(_facts_of_tier(context, node, config, tier, newest) for tier in config.tiers_on(node.name))
    looks = prove_tiers(context, node, config, looks, budget, context.limit("free_saves", "checkpoint-fallback"))
    facts = _facts(context)
    log, crashed = _log(context)
    seen = Evidence(
        **base, config=Known[Checkpoints](value=config), tiers=looks, others=_others(context, node, config),
        kernel=_kernel(context), log=log, crashed_step=crashed, torch=facts[0], node_credentials=facts[1],
        instance_roles=read_instance_roles(context, config),
        not_looked=_left_out(context, node, config),
    )  # fmt: skip
    return seen.model_copy(update={"load": read_load(context, config, seen)})


def _facts_of_tier(context: Context, node: Node, config: Checkpoints, tier: Tier, newest: int) -> TierFacts:
    if tier.kind is TierKind.S3:
        return read_s3_tier(context, config, tier, spec_of(config), newest)
    return read_node_tier(context, node, config, tier, newest)


def _others(context: Context, node: Node, config: Checkpoints) -> tuple[OtherNode, ...]:
    """Steps that look whole on the other nodes' own tiers."""
    found, newest = [], int(context.limit("structure_newest", "checkpoint-fallback"))
    for tier in config.tiers:
        if tier.kind is TierKind.S3 or tier.shared:
            continue
        for other in _names(context, node, tier)[: int(context.limit("cross_nodes", "checkpoint-fallback"))]:
            look = read_node_tier(context, context.fleet.node(other), config, tier, newest, 60)
            steps: Reading[tuple[int, ...]]
            if isinstance(look.candidates, Known):
                whole = tuple(c.step for c in look.candidates.value if trusted(c))
                steps = Known[tuple[int, ...]](value=whole, source=look.candidates.source)
            else:
                steps = look.candidates
            oldest = min((c.step for c in candidates_of(look)[newest - 1 : newest]), default=0)
            parts = tuple(c for c in candidates_of(look) if c.has)
            found.append(OtherNode(node=other, tier=tier.name, steps=steps, checked_from=oldest, parts=parts))
    return tuple(found)


def _left_out(context: Context, node: Node, config: Checkpoints) -> tuple[str, ...]:
    """Nodes with such a tier beyond the limit of the look."""
    own = [t for t in config.tiers if t.kind is not TierKind.S3 and not t.shared]
    names = {n for t in own for n in _names(context, node, t)[int(context.limit("cross_nodes", "checkpoint-fallback")) :]}
    return tuple(sorted(names))


def _names(context: Context, node: Node, tier: Tier) -> list[str]:
    return [n for n in tier.nodes or tuple(n.name for n in context.fleet.nodes) if n != node.name]


@diagnostic("kernel log: storage · {context.target}")
def _kernel(context: Context) -> Reading[tuple[str, ...]]:
    source = Source(
        command="dmesg | grep -iE 'I/O error|nvme|EXT4-fs error'", host=context.node.name, taken_at=context.now()
    )
    try:
        got = run_probe(context.host, "kernel", {"match": STORAGE, "cap": 200}, timeout_s=25)
    except TransportError as e:
        return Unknown(reason=e.reason, detail=e.detail, source=source)
    if not got["tool"]:
        return Unknown(reason=UnknownReason.DENIED if got["denied"] else UnknownReason.FAILED, detail="no kernel log", source=source)
    return Known[tuple[str, ...]](value=tuple(context.redactor.text(x) for x in got["lines"][-50:]), source=source)


@diagnostic("job log · {context.target}")
def _log(context: Context) -> tuple[Reading[str], int | None]:
    """The last lines of the job's log, where the run was told which (`option log`)."""
    path = str(context.options.get("log", ""))
    if not path:
        return Unknown(reason=UnknownReason.NOT_ASKED, detail="no `log` was named for this run"), None
    source = Source(command=f"tail -c {LOG_BYTES} {path}", host=context.node.name, taken_at=context.now())
    try:
        done = context.host.run(("tail", "-c", str(LOG_BYTES), "--", path), timeout_s=20)
    except TransportError as e:
        return Unknown(reason=e.reason, detail=e.detail, source=source), None
    if done.exit:
        return Unknown(reason=UnknownReason.FAILED, detail=done.err.strip()[:300], source=source), None
    text = context.redactor.text(done.out)
    steps = [int(m[1]) for m in STEP.finditer(text)]
    return Known[str](value=text, source=source), max(steps[-20:], default=None)


@diagnostic("torch and credentials · {context.target}")
def _facts(context: Context) -> tuple[Reading[str], Reading[tuple[str, ...]]]:
    source = Source(command="python3 -m pip show torch; ls ~/.aws", host=context.node.name, taken_at=context.now())
    try:
        got = ask_node(context.host, {"do": "facts"}, 20, "ckpt_facts")
    except TransportError as e:
        no = Unknown(reason=e.reason, detail=e.detail, source=source)
        return no, no
    torch: Reading[str] = Absent(proof="not installed for python3", source=source)
    if got["torch"]:
        torch = Known[str](value=got["torch"], source=source)
    return torch, Known[tuple[str, ...]](value=tuple(got["found"]), source=source)
