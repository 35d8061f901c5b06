"""What the actions on a node's processes, jobs and GPUs and on its Ray are told."""

from runbooks.core.args.base import Args, Pid, ProcessArgs, Seconds, Whole


class ContinueProcesses(Args):
    """Stopped processes that go on."""

    boot_id: str
    processes: tuple[ProcessArgs, ...]


class TerminateProcesses(Args):
    """Processes of one session or cgroup that are ended."""

    boot_id: str
    processes: tuple[ProcessArgs, ...]
    cgroup: str
    sid: Whole
    gpu_uuids: tuple[str, ...]  # whose memory must come back
    expect_freed_bytes: Whole
    grace_s: Seconds  # between TERM and KILL


class RestartJob(Args):
    """A job of the fleet file and its command as it was planned."""

    job: str
    argv: tuple[str, ...]


class Gone(Args):
    """A process that must be gone."""

    pid: Pid
    start_ticks: Whole


class ResetNodeJobs(Args):
    """The node whose count the leader sets to zero."""

    node: str
    leader_url: str
    gone: tuple[Gone, ...]
    boot_id: str


class ResetGpu(Args):
    """One GPU where it was seen."""

    uuid: str
    bus_id: str
    boot_id: str


class QuarantineNode(Args):
    """The mark and where it is written."""

    node: str
    reason: str
    path: str


class StopRayJob(Args):
    """A job in the state that it was judged in; `actor_id` is its supervisor, "" for none."""

    dashboard: str
    submission_id: str
    state: str
    actor_id: str


class RestartRaylet(Args):
    """The fleet file's command for a node."""

    node: str
    start: tuple[str, ...]
    head: str
