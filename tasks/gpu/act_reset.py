"""Resets a GPU on its machine."""

from runbooks.core.args.nodes import ResetGpu
from tasks.arguments import takes
from tasks.context import ActionResult, Context
from tasks.remote.changing import change
from tasks.remote.gpus import smi_path
from tasks.remote.probe import redact


@takes(ResetGpu)
def reset_gpu(args: ResetGpu, context: Context) -> ActionResult:
    """`nvidia-smi --gpu-reset` of one GPU by its UUID.

    Refused inside a container, without root, after another boot, in MIG mode, at another bus id, and while any process
    holds the GPU or has a device file open (each is named).
    """
    ask = args.plain() | {"smi": smi_path(context), "timeout_s": 60}
    got = change(context, context.host, "reset_gpu", ask, timeout_s=200)
    return ActionResult(said=(f"GPU {args.uuid}: {redact(context, got['said'])}",))
