"""Reads a memory or NVMe tier on a node: the scan of tasks/checkpoint/probes/ckpt_node.py as readings. Changes nothing."""

from typing import Any

from pydantic import ValidationError

from runbooks.checkpoint.evidence import Candidate, FileHolder, Leftover, Pointer, Space, TierFacts
from runbooks.checkpoint.parsers.sets import CheckpointSpec
from runbooks.core.checkpoints import Checkpoints, Tier, step_pattern
from runbooks.core.fleet import Node
from runbooks.core.reading import Absent, Known, Reading, Source, Unknown, UnknownReason
from tasks.checkpoint.s3 import candidate, with_content
from tasks.context import Context
from tasks.diagnostic import diagnostic
from tasks.remote.probe import run_program
from tasks.remote.program import program
from tasks.transport.base import Host, TransportError

LARGEST_ANSWER = 32 << 20


def spec_of(config: Checkpoints) -> CheckpointSpec:
    """What the fleet file says that a checkpoint must be."""
    return CheckpointSpec(
        world_size=config.world_size, parts=config.parts, ranks=config.ranks, required_keys=config.required_keys,
        manifest=config.manifest,
    )  # fmt: skip


def ask_node(host: Host, ask: dict[str, Any], timeout_s: float, script: str = "ckpt_node") -> dict[str, Any]:
    """Runs the constant program of that script there. Raises TransportError."""
    return run_program(host, "ckpt", program(script), ask, timeout_s=timeout_s, limit_bytes=LARGEST_ANSWER)


@diagnostic("checkpoint tier {tier.name} · {node.name}")
def read_node_tier(
    context: Context, node: Node, config: Checkpoints, tier: Tier, newest: int, timeout_s: float = 120
) -> TierFacts:
    """One look at one tier of one node."""
    none = Absent(proof="this tier is a folder, no object store")
    look: dict[str, Any] = {"tier": tier.name, "kind": tier.kind, "node": node.name, "where": tier.path, "store": none, "uploads": none}
    source = Source(command=f"ls -la {tier.path}; df {tier.path}", host=node.name, taken_at=context.now())
    ask = {
        "do": "scan", "root": tier.path.rstrip("/"), "pattern": step_pattern(config.naming_on(tier)), "newest": newest,
        "spec": spec_of(config)._asdict(), "try_write": True, "latest": tier.latest,
    }  # fmt: skip
    try:
        got = ask_node(context.open_host(node), ask, timeout_s)
        space = Space(**got["space"])
    except TransportError as e:
        no = Unknown(reason=e.reason, detail=e.detail, source=source)
        return TierFacts(**look, space=no, candidates=no, holders=no, pointer=no)
    except (ValidationError, KeyError) as e:
        no = Unknown(reason=UnknownReason.UNPARSABLE, detail=str(e)[:300], source=source)
        return TierFacts(**look, space=no, candidates=no, holders=no, pointer=no)
    look.update(
        space=Known[Space](value=space, source=source), leftovers=tuple(Leftover(**x) for x in got.get("leftovers", ()))
    )
    if "candidates" not in got:
        return TierFacts(**look, candidates=_no_list(space, source), pointer=Absent(proof="no folder", source=source))
    look["candidates"] = Known[tuple[Candidate, ...]](
        value=tuple(candidate(c, {}) for c in got["candidates"]), source=source
    )
    look["holders"] = _holders(context, got["holders"], source)
    return TierFacts(**look, pointer=_pointer(got["pointer"], source))


def _no_list(space: Space, source: Source) -> Reading[tuple[Candidate, ...]]:
    if not space.exists:
        return Absent(proof=f"{space.path} does not exist", source=source)
    why = UnknownReason.DENIED if space.error in ("EACCES", "EPERM") else UnknownReason.FAILED
    return Unknown(reason=why, detail=f"{space.path}: {space.error or 'not a folder'}", source=source)


def _holders(context: Context, got: dict[str, Any], source: Source) -> Reading[tuple[FileHolder, ...]]:
    found = tuple(FileHolder(**{**h, "command": context.redactor.text(h["command"])}) for h in got["list"])
    if not got["all"]:
        words = f"not every process could be looked at; {len(found)} holders were seen"
        return Unknown(reason=UnknownReason.DENIED, detail=words, source=source)
    return Known[tuple[FileHolder, ...]](value=found, source=source)


def _pointer(got: dict[str, Any] | None, source: Source) -> Reading[Pointer]:
    if got is None:
        return Absent(proof="there is none", source=source)
    if "error" in got:
        return Unknown(reason=UnknownReason.FAILED, detail=str(got["error"]), source=source)
    return Known[Pointer](value=Pointer(**got), source=source)


def prove_on_node(
    context: Context,
    node: Node,
    config: Checkpoints,
    tier: Tier,
    wanted: Candidate,
    timeout_s: float,
    spec: CheckpointSpec | None = None,
) -> Candidate:
    """Reads the whole content of one candidate on its node. Raises TransportError."""
    ask = {
        "do": "content", "root": tier.path.rstrip("/"), "name": wanted.name,
        "spec": (spec or spec_of(config))._asdict(), "threads": 4,
    }  # fmt: skip
    got = ask_node(context.open_host(node), ask, timeout_s)
    if got["identity"] != wanted.identity or got["changed"]:
        return wanted.model_copy(update={"notes": (*wanted.notes, "it changed while it was read: it is being written")})
    return with_content(wanted, got)
