"""Marks a node as quarantined by a file on it. A person takes the mark away, by the command that the next report prints."""

from runbooks.core.plan import Step
from tasks.context import ActResult, Context
from tasks.remote.changing import change


def quarantine_node(step: Step, context: Context) -> ActResult:
    """Write the mark file on the node. A mark that is there already stays as it is; somebody else's is a refusal."""
    named = {k: step.args[k] for k in ("path", "node", "reason")}
    got = change(context, context.host, "quarantine", named | {"at": context.now().isoformat()}, timeout_s=20)
    return ActResult(said=(f"{step.args['node']}: {got['said']}",))
