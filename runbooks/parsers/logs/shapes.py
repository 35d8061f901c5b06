"""What the lines of the seed's orchestrator and of its workers look like. A fleet file can name others. Pure."""

from runbooks.core.logs_config import LogMark, LogShape, LogSources

_LEVEL = r"(?P<severity>DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL)"
_STAMP = r"(?P<time>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?)"
_DECISIONS = (
    (r"Task counts endpoint returned", "counts"),
    (r"Fallback returned: (?P<total>\d+) total, (?P<queued>\d+) queued", "counts"),
    (r"Failed to get workers", "counts"),
    (r"DETAILED TASK BREAKDOWN", "counts"),
    (r"Queued only: (?P<queued>\d+)", "counts"),
    (r"Current state: (?P<spawning>\d+) spawning, (?P<active>\d+) active", "counts"),
    (r"SCALING DECISION ANALYSIS", "scaling"),
    (r"FINAL DESIRED: (?P<desired>\d+)", "scaling"),
    (r"Current capacity: (?P<idle>\d+) idle \+ (?P<busy>\d+) busy = (?P<active>\d+) active, (?P<spawning>\d+) spawning", "scaling"),
    (r"Failure rate check: ", "scaling"),
    (r"\[FAILURE_RATE\]", "scaling"),
    (r"SCALING BLOCKED", "scaling"),
    (r"Scaling (?:up|down): ", "scaling"),
    (r"Terminated idle worker ", "scaling"),
    (r"no longer any instances available", "scaling"),
)
_STEPS = (
    (r"Creating worker pod: |Pod created with ID: |Worker pod created successfully: ", "pod"),
    (r"MANUAL INTERVENTION REQUIRED|CRITICAL: Failed to update worker", "pod"),
    (r"SSH_AUTH |SSH_EXEC |checking SSH access|SSH available for |SSH EXECUTION FAILED", "spawning"),
    (r"Starting worker process on |Worker startup script executed with exit code (?P<exit_code>\d+)", "spawning"),
    (r"HEALTH_CHECK |\[WORKER_HEALTH\]|WORKER_LIFECYCLE ", "health"),
    (r"Terminating pod: |Error terminating pod: |Pod terminated: ", "end"),
    (r"Reset (?P<reset>\d+) orphaned tasks|Failed to reset orphaned tasks", "reset"),
    (r"\[ERROR_CLEANUP\]|FAILSAFE: |ZOMBIE (?:DETECTED|CLEANUP): ", "clean-up"),
    (r"ENV_VALIDATION |Missing important environment variable: |initialized with scaling: ", "start"),
    (r"Cycle took (?P<took_s>[\d.]+)s, longer than", "cycle"),
)
ORCHESTRATOR = LogShape(
    time=("timestamp", "asctime", "attributes.asctime", "time"),
    severity=("levelname", "attributes.levelname"),  # `level` is "info" on every line of an export
    message=("message", "msg"),
    logger=("name", "attributes.name"),
    worker=("worker_id", "attributes.worker_id"),
    task=("task_id", "attributes.task_id"),
    cycle=("cycle_number", "attributes.cycle_number"),
    lines=(
        rf"^{_STAMP}\s+(?:-\s+)?(?:(?P<logger>[A-Za-z_][\w.]{{0,80}})\s+-\s+)?\[?{_LEVEL}\]?\s*[-:]?\s+(?P<message>.*)$",
        rf"^{_STAMP}\s+(?P<message>.*)$",
    ),
    marks=(
        LogMark(pattern=r"ORCHESTRATOR CYCLE #(?P<cycle>\d+)", kind="cycle", phase="cycle"),
        LogMark(pattern=r"^Cycle #(?P<cycle>\d+): scaling=(?P<scaling>\d+) active=(?P<active>\d+)", kind="cycle", phase="cycle"),
        LogMark(
            pattern=r"(?:Orchestrator cycle completed in (?P<seconds>[\d.]+)s|Cycle completed): (?P<counts>\{.*\})",
            kind="summary", phase="cycle",
        ),
        *(LogMark(pattern=text, kind="decision", phase=phase) for text, phase in _DECISIONS),
        *(LogMark(pattern=text, kind="step", phase=phase) for text, phase in _STEPS),
    ),
)  # fmt: skip
WORKER = ORCHESTRATOR.model_copy(
    update={
        "lines": (rf"^\[(?P<time>\d\d:\d\d:\d\d)\]\s+(?:{_LEVEL}\s+)?(?P<message>.*)$", *ORCHESTRATOR.lines),
        "marks": (
            LogMark(pattern=r"\[HEARTBEAT\]", phase="heartbeat"),
            LogMark(pattern=r"\[CLAIM\]|Found task of type:", phase="claim"),
            LogMark(pattern=r"Finished task \(Success: ", phase="task"),
            LogMark(pattern=r"MODEL SWITCH", phase="model"),
            LogMark(pattern=r"\[EDGE_FAIL:", phase="platform"),
        ),
    }
)
BUILT_IN = {"orchestrator": ORCHESTRATOR, "worker": WORKER}


def shape_named(name: str, config: LogSources) -> LogShape:
    """The fleet file's shape of that name, completed by the built-in one; else the built-in one."""
    built_in = BUILT_IN.get(name, ORCHESTRATOR)
    own = config.shapes.get(name)
    if own is None:
        return built_in
    return built_in.model_copy(update={n: v for n, v in own if v})
