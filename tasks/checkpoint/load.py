"""Loads the chosen checkpoint in a sandbox on its node, where the run asks for it. Changes nothing."""

from pydantic import ValidationError

from runbooks.checkpoint.choose import choose
from runbooks.checkpoint.copies import Copy
from runbooks.checkpoint.evidence import Evidence, LoadProof
from runbooks.core.checkpoints import Checkpoints, TierKind
from runbooks.core.reading import Absent, Known, Reading, Source, Unknown, UnknownReason
from tasks.checkpoint.node import ask_node
from tasks.checkpoint.proof import YES
from tasks.context import Context
from tasks.diagnostic import diagnostic
from tasks.remote.probe import run_program
from tasks.remote.program import program
from tasks.transport.base import TransportError

SECONDS = 600
ROOM = 16 << 30  # address space of torch itself
WEIGHTS = (".pt", ".pth", ".bin", ".ckpt", ".safetensors")


@diagnostic("trial load of the checkpoint · {context.target}")
def read_load(context: Context, config: Checkpoints, evidence: Evidence) -> Reading[LoadProof]:
    """What torch says of the checkpoint that the judgment would choose."""
    if str(context.options.get("load", "")).lower() not in YES:
        return Unknown(reason=UnknownReason.NOT_ASKED, detail="option load")
    best = choose(evidence, config).best
    if best is None or best.look.kind == TierKind.S3:
        return Unknown(reason=UnknownReason.NOT_ASKED, detail="the chosen checkpoint does not lie on the node")
    if not isinstance(evidence.torch, Known):
        return Absent(proof="the node's python3 has no torch")
    if best.candidate.unsafe_globals or (best.candidate.format == "dcp" and best.candidate.refused_globals):
        return Unknown(reason=UnknownReason.NOT_ASKED, detail="it names what must not be loaded")
    return _run(context, best)


def _run(context: Context, best: Copy) -> Reading[LoadProof]:
    c = best.candidate
    source = Source(command=f"python3 ckpt_load.py {best.where}", host=context.node.name, taken_at=context.now())
    try:
        listed = ask_node(context.host, {"do": "members", "root": best.look.where, "name": c.name}, 60)
        files = sorted(n for n in listed["files"] if n.endswith(WEIGHTS)) if listed["folder"] else []
        ask = {"path": best.where, "form": c.format, "files": files, "seconds": SECONDS, "bytes": ROOM + 2 * c.size}
        got = run_program(context.host, "load", program("ckpt_load"), ask, timeout_s=SECONDS + 30)
        proof = LoadProof(**{**got, "error": context.redactor.text(got.get("error", "")), "where": best.where})
    except TransportError as e:
        return Unknown(reason=e.reason, detail=e.detail, source=source)
    except (ValueError, ValidationError) as e:
        return Unknown(reason=UnknownReason.UNPARSABLE, detail=str(e)[:300], source=source)
    return Known[LoadProof](value=proof, source=source)
