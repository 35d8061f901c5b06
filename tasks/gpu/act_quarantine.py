"""Marks a node as quarantined by a file on it. A person takes the mark away, by the command that the next report prints."""

from runbooks.core.args.nodes import QuarantineNode
from tasks.arguments import takes
from tasks.context import ActionResult, Context
from tasks.remote.changing import change


@takes(QuarantineNode)
def quarantine_node(args: QuarantineNode, context: Context) -> ActionResult:
    """Write the mark file on the node. A mark that is there already stays as it is; somebody else's is a refusal."""
    got = change(context, context.host, "quarantine", args.plain() | {"at": context.now().isoformat()}, timeout_s=20)
    return ActionResult(said=(f"{args.node}: {got['said']}",))
