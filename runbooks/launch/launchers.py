"""Judges who has the launch's port: a stranger, an earlier start of the launch itself, or one of several launchers of its own."""


from runbooks.core.launch_config import Launch
from runbooks.core.program import program
from runbooks.core.reading import Known
from runbooks.core.times import utc
from runbooks.core.verdict import Cause
from runbooks.launch.causes import failed
from runbooks.launch.evidence import Evidence, Launcher, LaunchNodeFacts
from runbooks.launch.parsers.slurm_batch import Batch
from runbooks.parsers.torchrun_cmdline import parse_launch

HELD = "what listens is the job itself: another port does not help"


def batch_causes(evidence: Evidence) -> list[Cause]:
    """A batch script that starts a launcher for each task, or every node with the same number."""
    batch = evidence.batch.value if isinstance(evidence.batch, Known) else None
    if batch is not None and batch.rank_fixed and (batch.nodes or 1) > 1:
        same = f"srun starts this on each of {batch.nodes} nodes, all with the same node rank: {batch.rank_fixed}"
        ask = "whether that step runs on one node only"
        return [failed("launch-command", "batch script", same, sure=False, decides=(ask,))]
    if batch is None or not batch.launcher or (batch.tasks or 1) < 2 or batch.per_node == "1":
        return []
    words = [f"{batch.tasks_said}: {batch.tasks} tasks on each node, and each starts a launcher: {batch.launcher}"]
    words += [f"each launcher starts {batch.per_node} processes"] if batch.per_node else []
    words += [f"the number of the task is taken for that of the node: {batch.rank_by_task}"] if batch.rank_by_task else []
    sure = batch.by_srun or bool(batch.rank_by_task)
    decides = () if sure else ("whether srun starts this script, once for each task",)
    return [failed("launcher-per-task", "batch script", *words, HELD, sure=sure, decides=decides)]


def port_causes(node: LaunchNodeFacts, launch: Launch, evidence: Evidence) -> list[Cause]:
    """Whose the port is, where somebody has it."""
    if not node.port_open:
        return []
    mine = [x for x in node.launchers if x.port in (launch.port, None) and _is_of(x, launch)]
    holder = next((x for x in mine if x.listens), None)
    if holder is None:
        return [failed("port-taken", node.node, f"port {launch.port} is held by {_holders(node)}")]
    who = f"pid {holder.pid}, a launcher of this launch ({holder.launch.script})"
    words = f"port {launch.port} is held by {who}, since {utc(holder.started_s)}"
    several = [x for x in mine if x is not holder and x.slurm_job == holder.slurm_job]
    tasks = _tasks(holder)
    if holder.launch.per_node != "1" and (tasks > 1 or several):
        pids = ", ".join(f"pid {x.pid}" for x in several[:8])
        beside = f"{len(several)} more launchers of it run on {node.node}: {pids}" if several else ""
        told = f"Slurm gave it {holder.tasks} tasks on a node" if tasks > 1 else ""
        return [failed("launcher-per-task", node.node, words, *(w for w in (told, beside) if w), HELD)]
    batch = evidence.batch.value if isinstance(evidence.batch, Known) else Batch()
    if (batch.tasks or 1) > 1 and batch.launcher:
        return []  # the batch script's own cause says it
    decides = ("whether that start is to go on: its age, its workers, its job in the scheduler",)
    return [failed("launch-already-there", node.node, words, HELD, sure=True, decides=decides)]


def _is_of(launcher: Launcher, launch: Launch) -> bool:
    """The same script, or the same run id where both name one."""
    meant = parse_launch(list(launch.command), b"")
    if meant is None or not meant.script:
        return False
    same_id = meant.run_id == launcher.launch.run_id
    return launcher.launch.script.rpartition("/")[2] == meant.script.rpartition("/")[2] and (same_id or "$" in meant.run_id)


def _tasks(launcher: Launcher) -> int:
    """The largest number of tasks on a node that Slurm told it: "8", "8(x16)", "8,4(x2)"."""
    numbers = [part.partition("(")[0] for part in launcher.tasks.split(",")]
    return max((int(n) for n in numbers if n.isdecimal()), default=0)


def _holders(node: LaunchNodeFacts) -> str:
    known = {h.pid: f"pid {h.pid} ({program(h.command)}, since {utc(h.started_s)})" for h in node.holders}
    words = ", ".join(known.get(p, f"pid {p}") for p in node.port_holders)
    return words or "a process that this user may not see"

