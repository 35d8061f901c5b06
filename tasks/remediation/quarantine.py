"""Marks a node as quarantined by a file on it, and takes the engine's own mark away again."""

from runbooks.core.plan import Step
from runbooks.zombie_gpu.plans import MARK
from tasks.context import ActResult, Context
from tasks.remediation.changing import change


def quarantine_node(step: Step, context: Context) -> ActResult:
    """Write the mark file on the node. A mark that is there already stays as it is; somebody else's is a refusal."""
    return _mark(step, context, undo=False)


def release_node(step: Step, context: Context) -> ActResult:
    """Remove the mark file, only if this engine wrote it."""
    return _mark(step, context, undo=True)


def _mark(step: Step, context: Context, *, undo: bool) -> ActResult:
    ask = {
        "path": str(step.args.get("path") or MARK),
        "node": step.args["node"],
        "reason": step.args.get("reason", ""),
        "at": context.now().isoformat(),
        "id": str(step.args.get("id", "")),
        "undo": undo,
    }
    got = change(context, context.host, "quarantine", ask, timeout_s=20)
    return ActResult(said=(f"{step.args['node']}: {got['said']}",))
