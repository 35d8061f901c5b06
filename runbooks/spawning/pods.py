"""Judges the provider's side: is the pod there, what stopped it, what does its image pull do."""

from runbooks.core.judgment import LIKELY, POSSIBLE, SURE
from runbooks.core.reading import Unknown, UnknownReason
from runbooks.core.times import utc
from runbooks.core.verdict import Certainty
from runbooks.parsers.runpod import LogEvent, Phase, Pod, Runtime, StoppedBy, last_phase, read_log_line
from runbooks.spawning.around import CLOCKS_S, refused, unnamed
from runbooks.spawning.capacity import judge_capacity
from runbooks.spawning.inside import FULL, judge_step
from runbooks.spawning.parsers.orchestrator_log import line_time
from runbooks.spawning.parsers.refusals import refusals, shell_refusals
from runbooks.spawning.view import SpawningView
from runbooks.triage.closing import closing_error
from runbooks.triage.text import meanings, says

TOLD: dict[str, tuple[str, ...]] = {
    slug: (f"stuck-spawning/{slug}",)
    for slug in (
        "disk-full-on-host", "image-auth", "image-not-found", "image-registry-limit", "driver-too-old",
        "gpu-broken-on-host", "image-unpullable", "start-command-fails",
    )
}  # fmt: skip  # causes that a pod's system log names, and their names in the knowledge base
TOLD["disk-full-on-host"] += ("container-death/disk-full", "checkpoint-fallback/quota")
OF_A_HOST = ("driver-too-old", "gpu-broken-on-host")
OF_A_START = (*OF_A_HOST, "start-command-fails")
STOPS = {
    StoppedBy.USER: "pod-stopped-by-user", StoppedBy.PROVIDER: "pod-stopped-by-provider", StoppedBy.OUTBID: "outbid",
    StoppedBy.CREDIT: "out-of-credit",
}  # fmt: skip


def judge_pod(v: SpawningView) -> None:
    """Everything about the pod that the provider says."""
    if isinstance(v.e.pod, Unknown):
        if v.e.pod.reason is UnknownReason.DENIED:
            refused(v, v.e.pod)
        return
    if v.row and not v.row.pod_id:
        _never(v)
        return
    if not v.reads:
        return
    if v.pod is None:
        _missing(v)
        return
    _log(v)
    if v.pod.phase in (Phase.EXITED, Phase.ERROR, Phase.TERMINATED) or v.pod.terminated:
        _stopped(v, v.pod)
    elif v.pod.phase is Phase.UNKNOWN:
        v.say("pod-status-unknown", POSSIBLE, f"the provider says {v.pod.status!r}", about=f"pod {v.pod.id}")
    else:
        _coming(v, v.pod)


def _never(v: SpawningView) -> None:
    lines = v.orch.no_capacity if v.orch else ()
    old = (v.age(v.row.created if v.row else None) or 0.0) > v.limits.spawning_s
    poor = v.orch.out_of_credit if v.orch else ()
    if poor:
        v.say("out-of-credit", LIKELY, "the row has no pod, and the orchestrator's log says:", *poor[-2:],
              decides=("the account's balance now", "is that line about this worker's create call?"))  # fmt: skip
    elif lines:
        judge_capacity(v, lines)
    elif v.orch and (denied := refusals(v.orch.step_failed)):
        check = ("one call by hand with the same key that creates something: it may only read",)
        words = "the row has no pod, and the orchestrator's words about it end with a refusal:"
        v.say("api-refused", LIKELY, words, *denied[-2:], about="the provider's API", decides=check)
    elif v.orch and v.orch.step_failed:
        judge_step(v, "the row has no pod")
    elif old and v.row:
        age = v.age(v.row.created) or 0.0
        mine = [p for p in unnamed(v) if (v.age(p.created_at or p.started_at) or 0.0) <= age + CLOCKS_S]
        asks = tuple(f"whether pod {p.id} ({p.name}) is its own: no live row names it, and it is no older" for p in mine[:3])
        v.say("pod-never-existed", SURE if v.cycling is not None and not mine else LIKELY,
              f"the row has no pod id {age:.0f} s after it was created", decides=asks)  # fmt: skip


def _missing(v: SpawningView) -> None:
    """Not in this answer. Gone only when two reads apart say so, and nothing says otherwise."""
    pod = v.row.pod_id if v.row else "?"
    about, doubt = f"pod {pod}", _doubt(v, pod)
    young = max((s for s in (v.age(v.row.created), v.age(v.row.changed)) if s is not None), default=None) if v.row else None
    if young is None or young <= v.limits.visible_s:
        age = "of an age that it does not say" if young is None else f"only {young:.0f} s old"
        doubt = doubt or f"its row is {age}: the provider may not list it yet"
    if v.gone and not doubt:
        v.say(
            "pod-gone", SURE, f"pod {pod} is not at the provider, on two reads {v.limits.gap_s:g} s apart", about=about
        )
    elif v.gone:
        v.say("pod-gone", POSSIBLE, f"pod {pod} was not in two answers, but {doubt}", about=about,
              decides=("does the API key belong to the account that holds the pods?", "the provider's console"))  # fmt: skip
    else:
        v.say("pod-gone", POSSIBLE, f"pod {pod} was not in one answer", about=about,
              decides=("a second read some seconds later",))  # fmt: skip


def _doubt(v: SpawningView, pod: str) -> str:
    """What speaks against a pod's being gone although it was not found."""
    if v.reports:
        return "its worker reports: the row's heartbeat is fresh"
    if any(p.id == pod for p in v.pods):
        return "the provider's listing shows it"
    others = {
        w.pod_id for w in v.workers if w.pod_id and w.pod_id != pod and w.status in ("active", "processing", "idle")
    }
    if others and not others & {p.id for p in v.pods}:
        return f"none of the {len(others)} other pods that live rows name is listed either"
    return ""


def _log(v: SpawningView) -> None:
    """What the pod's system log says last: an error that the lines after it have not outlived."""
    known = bool(meanings(v.log, TOLD))
    last: dict[str, str] = {}
    sure: dict[str, Certainty] = {}
    starts = 0
    for line in v.log:
        found = meanings(line, TOLD) if known else {}
        told = next((s for s, c in found.items() if c.certainty is LIKELY), "")
        if told:
            last.pop("image-unpullable", None)
            last[told], sure[told] = line, SURE
        elif read_log_line(line) is LogEvent.STARTED:
            starts += 1
            last = {k: x for k, x in last.items() if k in OF_A_START}
        elif found and not last:  # the general word for a pull that failed
            last["image-unpullable"], sure["image-unpullable"] = line, LIKELY
    up = v.running and v.ssh is not None and not v.ssh.cause
    full = v.inside is not None and any(free < FULL for free in v.inside.free_bytes.values())
    if any(host in last for host in OF_A_HOST):
        last.pop("start-command-fails", None)  # the general word for the start that this host refused
    for slug, line in last.items():
        if not up or (full and slug == "disk-full-on-host"):  # its disk may be the host's
            v.say(slug, sure[slug], f"the pod's log: {line.strip()[:300]}", about=f"pod {v.pod.id if v.pod else '?'}")
    if starts >= 4 and not up and not last:
        v.say(
            "start-command-fails",
            SURE,
            f"the container was started {starts} times",
            about=f"pod {v.pod.id if v.pod else '?'}",
        )


def _stopped(v: SpawningView, pod: Pod) -> None:
    word = f"{pod.status or pod.phase}" + (f": {pod.last_change}" if pod.last_change else "")
    if says(v.log, "stuck-spawning/host-gpus-taken"):
        v.say("host-gpus-taken", SURE, f"pod {pod.id}: its machine's GPUs are taken", about=f"pod {pod.id}")
    slug = STOPS.get(pod.stop)
    if slug:
        v.say(slug, SURE, f"pod {pod.id} is {word}", about=f"pod {pod.id}")
    elif not v.causes:
        v.say("pod-stopped", SURE if v.apart else LIKELY, f"pod {pod.id} is {word}; nothing shows by whom", about=f"pod {pod.id}",
              decides=("the provider's own page of the pod", "the account's balance"))  # fmt: skip


def _coming(v: SpawningView, pod: Pod) -> None:
    """It should run: no container yet, no GPUs, no address."""
    about = f"pod {pod.id}"
    container = pod.runtime is not Runtime.NULL and pod.phase is Phase.RUNNING
    seen = any(r.pod is not None and r.pod.runtime is Runtime.THERE for r in v.reads)
    if not container and not seen and not v.causes:
        phase, line = last_phase(v.log)
        if told := shell_refusals(v.log):
            _shell_refuses(v, pod, told)
        elif phase is LogEvent.STARTED:
            _started(v, pod, line)
        else:
            _pulling(v, pod)
    if container and pod.gpus == 0:
        v.say(
            "gpus-lost-on-resume",
            SURE if v.apart else LIKELY,
            f"pod {pod.id} runs with 0 GPUs of {pod.gpus_wanted or '?'}",
            about=about,
        )
    if container and pod.wants_ssh is False:
        v.say("port-22-not-exposed", SURE, f"pod {pod.id} was created without 22/tcp", about=about)
    elif container and not (pod.ip and pod.ssh_port) and not v.causes and not (v.ssh and not v.ssh.cause):
        late = LIKELY if v.waits_s > v.limits.boot_s and v.apart else POSSIBLE
        v.say("running-without-address", late, f"pod {pod.id}: no address for port 22 after {v.waits_s:.0f} s",
              about=about, decides=("the pod's log", "its list of ports in the provider's page"))  # fmt: skip


def _started(v: SpawningView, pod: Pod, line: str) -> None:
    """The log says that the container was started, and there is none: it comes up this moment, or it has ended."""
    about, at = f"pod {pod.id}", line_time(line)
    since = v.age(at) if at else None
    fresh = since <= v.limits.container_s if since is not None else v.waits_s <= v.limits.boot_s and not v.unusual
    when = f"{since:.0f} s ago" if since is not None else f"within the {v.waits_s:.0f} s since the pod's start"
    said = (f"its log says “{line.strip()[:120]}”, {when}. So the image is there and its container was started",
            f"there is no container {'on two reads apart' if v.apart else 'in one answer'}", *_usually(v))  # fmt: skip
    if fresh:
        v.say("image-pulling", LIKELY, *said, about=about, benign=True)
        return
    said += tuple(f"the log ends with an error: {x}" for x in closing_error(v.log)[-3:])
    check = ("the container's own log", "the start command, run by hand in that image", "do other pods of this start command stay up?")
    v.say("start-command-fails", LIKELY if v.apart else POSSIBLE, *said, about=about, decides=check)


def _shell_refuses(v: SpawningView, pod: Pod, told: list[str]) -> None:
    """A shell speaks in the pod's log: so the image is there, its container was started, and the shell could not run a command."""
    check = ("the container's own log", "the start command, run by hand in that image")
    words = f"a shell in its container says ({len(told)} lines of that kind): {told[-1][:200]}"
    v.say("start-command-fails", LIKELY if v.apart or len(told) > 1 else POSSIBLE, words, about=f"pod {pod.id}", decides=check)


def _usually(v: SpawningView) -> tuple[str, ...]:
    if not v.usual:
        return ()
    return (f"{len(v.usual)} earlier starts of this image took {min(v.usual):.0f} to {max(v.usual):.0f} s to their container",)


def _pulling(v: SpawningView, pod: Pod) -> None:
    size = f"{v.image_gb:.1f} GB of layers seen" if v.image_gb else "size not known"
    lines = [line for line in v.log if read_log_line(line) is LogEvent.PULLING]
    said = [f"pod {pod.id}: no container yet after {v.waits_s:.0f} s of {v.budget_s:.0f} s ({size})"]
    said += [f"last: {lines[-1].strip()[:200]}"] if lines else []
    said += _usually(v)
    unread = isinstance(v.e.pod_log, Unknown)
    ends = [f"the log ends with an error: {x}" for x in closing_error(v.log)[-3:]]
    if v.waits_s <= v.budget_s and not (v.unusual and not lines):
        v.say(
            "image-pulling",
            SURE if lines else POSSIBLE if unread and v.waits_s > v.limits.spawning_s else LIKELY,
            *said,
            f"wait until {utc(v.until)}",
            about=f"pod {pod.id}",
            benign=True,
        )
    elif lines and not ends:
        v.say(
            "pull-over-budget",
            LIKELY,
            *said,
            about=f"pod {pod.id}",
            decides=("does the pull still move? two looks at the log",),
        )
    else:
        silent = v.apart and v.e.pod_log.kind == "known" and not ends
        v.say("no-container", LIKELY if silent else POSSIBLE, *ends, *said, about=f"pod {pod.id}",
              decides=("the pod's system log", "the account's balance", "another machine"))  # fmt: skip
