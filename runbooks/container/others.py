"""Who else restarts a container, or owns it: loops, units, supervisord, cron, Compose and orchestrators."""

from runbooks.container.backoff import is_kept
from runbooks.container.evidence import ContainerFacts, Evidence, Sibling, Supervisor
from runbooks.container.words import Limits, cause
from runbooks.core.reading import value_of
from runbooks.core.verdict import Cause, Certainty, Finding

ORCHESTRATORS = (
    ("io.kubernetes.pod.name", "kubernetes", "pod"),
    ("com.docker.swarm.service.name", "swarm", "service"),
    ("com.hashicorp.nomad.alloc_id", "nomad", "allocation"),
    ("com.amazonaws.ecs.task-arn", "ecs", "task"),
)  # labels by which an agent on the node knows what it has to bring back
PROJECT = "com.docker.compose.project"


def labelled(labels: dict[str, str]) -> tuple[Supervisor, ...]:
    """Orchestrators and the Compose project that a container's labels name."""
    found = [Supervisor(kind=kind, name=f"{what} {labels[label]}{_part(labels)}") for label, kind, what in ORCHESTRATORS
             if labels.get(label)]  # fmt: skip
    if labels.get(PROJECT):
        files = labels.get(f"{PROJECT}.config_files", "")
        name = f"project {labels[PROJECT]}, service {labels.get('com.docker.compose.service', '?')}"
        found.append(Supervisor(kind="compose", name=name, command=files, rests=True))
    return tuple(found)


def _part(labels: dict[str, str]) -> str:
    more = (("io.kubernetes.pod.namespace", "namespace"), ("io.kubernetes.container.name", "container"))
    return "".join(f", {what} {labels[label]}" for label, what in more if labels.get(label))


def systemctl(s: Supervisor) -> str:
    """How a person asks the systemd that has the unit."""
    return "systemctl" if s.uid is None else f"systemctl --user -M {s.user}@"


def judge_supervisors(e: Evidence) -> list[Cause]:
    """Anything else that restarts this container: two that do not know each other fight."""
    found = []
    for s in value_of(e.supervisors) or ():
        if s.rests:
            continue
        of = f" of user {s.user}" if s.user else ""
        what = f"{s.kind} {s.name}{of}" + (f" (pid {s.pid}): {s.command}" if s.pid else "")
        loop = s.kind == "retry-loop"
        says = f"it says: {s.command[:200]}" if s.kind in ("systemd", "supervisord", "cron") and s.command else ""
        found.append(cause("second-supervisor", Certainty.CONFIRMED, what, f"found: {what}", says, benign=not loop))
    return found


def stopped_unit(e: Evidence, c: ContainerFacts, limits: Limits) -> Supervisor | None:
    """The unit that was in charge and was stopped while it still ran: one that ends by itself leaves after its container."""
    for s in value_of(e.supervisors) or ():
        gap = (c.finished_at - s.left_at).total_seconds() if s.rests and s.left_at and c.finished_at else -1.0
        if 0 <= gap <= limits.stop_window_s:
            return s
    return None


def resting_findings(e: Evidence) -> list[Finding]:
    """Units that rest: no fight now. A boot starts the container by its name, which the recreated one then has."""
    return [
        Finding(
            priority="MEDIUM", category="container", action=f"{systemctl(s)} disable {s.name}, or leave {e.name} to it",
            issue=f"{s.name} rests, and a boot starts it: {s.command[:200]}; two that restart {e.name} must know each other",
        )
        for s in value_of(e.supervisors) or ()
        if s.rests and s.boots
    ]  # fmt: skip


def compose_findings(e: Evidence) -> list[Finding]:
    """Compose owns it and brings nothing back by itself; what it would do to the new one and to the one that was set aside."""
    mine = [s for s in value_of(e.supervisors) or () if s.kind == "compose"]
    kept = [s.name for s in value_of(e.siblings) or () if is_kept(s.name, e.name)]
    found = []
    for s in mine:
        issue = f"it belongs to Compose: {s.name}" + (f" ({s.command})" if s.command and not s.pid else "")
        if s.pid:
            issue = f"pid {s.pid} holds it in the foreground ({s.command}): it starts nothing again, and stops it when it ends"
        action = "the recreated one keeps its labels, so Compose goes on knowing it; change its options in the file as well"
        found.append(Finding(priority="LOW", category="container", issue=issue, action=action))
    if mine and kept:
        issue = f"{kept[0]} still has the labels of Compose: `compose up` would remove the new one and start this old one"
        action = "have it removed (--option remove_kept=yes) before Compose is used on this project"
        found.append(Finding(priority="HIGH", category="container", issue=issue, action=action))
    return found


def pod_mates(e: Evidence, c: ContainerFacts) -> list[Sibling]:
    """The other containers of its Kubernetes pod: a proxy, a mount's server."""
    pod = c.labels.get(ORCHESTRATORS[0][0], "")
    return [s for s in value_of(e.siblings) or () if pod and s.pod == pod and s.role != "POD"]


def mate(s: Sibling) -> str:
    """One of them in words."""
    how = f", code {s.exit_code}" if s.status != "running" else ""
    return f"{s.role} is {s.status}{how}{', OOMKilled' if s.oom_killed else ''}"


def only_on_failure(e: Evidence, c: ContainerFacts) -> str:
    """Who restarts it after a failure only, and so not after code 0; "" if nobody does."""
    units = [s.name for s in value_of(e.supervisors) or () if s.restart == "on-failure"]
    who = [*(["the engine"] if c.restart_policy == "on-failure" else []), *units]
    return f"{' and '.join(who)} would restart it after a failure only: code 0 counts as none" if who else ""


def meant_to_last(e: Evidence, c: ContainerFacts) -> bool:
    """Whether anybody says that it goes on after code 0: its own restart policy, a unit, or the fleet file by what runs in it."""
    w, units = e.wanted, value_of(e.supervisors) or ()
    asked = w is not None and bool(w.start or w.ray_ip or w.match)
    return asked or c.restart_policy not in ("", "no", "on-failure") or any(s.restart == "always" for s in units)
