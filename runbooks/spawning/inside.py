"""Judges network and inside: the stages of SSH, the worker's process, its log, GPUs, driver, disk."""

from runbooks.core.judgment import LIKELY, POSSIBLE, SURE
from runbooks.spawning.evidence import PodInside, SshStages
from runbooks.spawning.parsers.orchestrator_log import last_words, line_time
from runbooks.spawning.starting import start_at_work
from runbooks.spawning.view import SpawningView

FULL = 256 << 20  # bytes: less cannot hold a worker's log and its temporary files
UP = ("spawning", "starting")
LIVE = ("active", "processing", "idle")


def judge_inside(v: SpawningView) -> None:
    """Only for a pod that runs."""
    if not v.running or v.pod is None:
        return
    if v.ssh:
        _ssh(v, v.ssh)
    if v.inside:
        _machine(v, v.inside)
        _worker(v, v.inside)


def _ssh(v: SpawningView, s: SshStages) -> None:
    about = f"pod {v.pod.id if v.pod else '?'}"
    if s.key_of_pod_changed:
        v.say(
            "pod-host-key-changed",
            SURE,
            "not the host key that is pinned, published or recorded for this pod id",
            s.headline,
            about=about,
            decides=(
                "was the pod stopped and started again? its start script then made new keys: compare them in the pod's log",
                "the same pod's log in the provider's console",
            ),
        )
    elif s.cause == "no-sshd":
        late = v.waits_s > v.limits.boot_s
        v.say("no-sshd-in-image", SURE if late else POSSIBLE, f"{s.headline}; up for {v.waits_s:.0f} s", about=about,
              decides=("does the image or start command install and start sshd?",))  # fmt: skip
    elif s.cause and s.stage in ("tcp", "banner") and v.waits_s < v.limits.boot_s:
        v.say("image-pulling", LIKELY, f"its port does not answer yet: {s.headline}", about=about, benign=True)
    elif s.cause in ("private-half-missing", "key-missing", "key-pair-mismatch", "key-not-registered", "publickey-denied",
                     "key-file-unparsable", "key-truncated", "key-encrypted", "key-is-public"):  # fmt: skip
        sure = SURE if s.certainty == "confirmed" else LIKELY
        v.say("ssh-key-wrong", sure, f"ssh-auth-failure says {s.cause}: {s.headline}", about=about,
              decides=(f"gpu-runbooks run ssh-auth-failure on {about}",))  # fmt: skip
    elif s.cause and s.stage != "done":
        v.say(
            "ssh-fails",
            SURE if s.certainty == "confirmed" else POSSIBLE,
            f"ssh-auth-failure says {s.cause}: {s.headline}",
            about=about,
        )


def _machine(v: SpawningView, i: PodInside) -> None:
    about = f"pod {v.pod.id if v.pod else '?'}"
    if i.gpus == 0 and not v.has("gpus-lost-on-resume"):
        v.say("gpus-lost-on-resume", SURE, "no GPU inside the pod", about=about)
    if _number(i.driver_cuda) and _number(i.image_cuda) and _number(i.image_cuda) > _number(i.driver_cuda):
        v.say(
            "driver-too-old",
            SURE,
            f"the image needs CUDA {i.image_cuda}, the host's driver allows {i.driver_cuda}",
            about=about,
        )
    for path, free in i.free_bytes.items():
        if free < FULL:
            v.say("pod-disk-full", SURE, f"{path} has {free >> 20} MiB free", about=about)


def _number(text: str) -> tuple[int, ...]:
    return tuple(int(p) for p in text.split(".") if p.isdecimal())


def _worker(v: SpawningView, i: PodInside) -> None:
    """Never started, started and died, or runs and is not promoted."""
    if v.row is None:
        return
    words = last_words(i.log) or last_words(v.stored)
    if not i.processes and v.reports:
        doubt = "no process matches the fleet file's pattern, and the row's heartbeat is fresh: something reports"
        v.say("worker-died", POSSIBLE, doubt, decides=("ps inside, and orchestrator.process.match",))
        return
    if not i.processes:
        if v.row.status in LIVE:
            no = f"the row says {v.row.status}, and there is no worker process in the pod"
            v.say("worker-died", SURE, no, *_left(i), *(f"its last words: {w}" for w in words))
        elif i.log_exists or i.log or v.stored:
            v.say("worker-died", SURE, "no worker process, and it left a log", *_left(i), *(f"its last words: {w}" for w in words))
        elif v.orch and v.orch.started:
            odd = "no worker process and no log, though the orchestrator saw it start"
            v.say("worker-died", SURE, odd, f"the orchestrator says: {v.orch.started[-1]}")
        elif v.orch and v.orch.step_failed:
            judge_step(v, "no worker process and no log in the pod")
        elif v.waits_s > v.limits.boot_s:
            said = [f"no worker process and no log in the pod {v.waits_s:.0f} s after its start"]
            said += [f"the orchestrator says: {x}" for x in (v.orch.ssh_failed[-1:] if v.orch else ())]
            seen, decides = start_at_work(v, i)
            full = ("whether it starts once its disk has room: without room it cannot write a log",) if v.has("pod-disk-full") else ()
            v.say("worker-not-started", POSSIBLE if seen else LIKELY if full else SURE, *said, *seen, decides=(*decides, *full))
        return
    pid = i.processes[0].pid
    beat = v.age(v.row.heartbeat)
    if v.row.status in UP and i.processes[0].age_s > v.limits.spawning_s:
        fresh = beat is not None and beat <= v.limits.heartbeat_s
        said = [
            f"pid {pid} ({i.processes[0].command[:60]}) runs for {i.processes[0].age_s:.0f} s",
            f"heartbeat {beat:.0f} s old" if beat is not None else "no heartbeat in the row",
        ]
        if _promoted(v):
            v.say(
                "database-writes-fail",
                SURE,
                *said,
                f"status is still {v.row.status}, though the orchestrator says: {_promoted(v)}",
            )
        elif v.orch and v.orch.database_failed:
            v.say("database-writes-fail", SURE, *said, *v.orch.database_failed[-2:])
        elif fresh:
            v.say("worker-not-promoted", SURE, *said, f"status is still {v.row.status}: nothing promoted it")
        else:
            v.say(
                "worker-does-not-report", LIKELY, *said, decides=("the worker's own log: can it reach the database?",)
            )
        for w in words[-1:]:
            v.causes[-1] = v.causes[-1].model_copy(update={"evidence": (*v.causes[-1].evidence, f"its log: {w}")})


def _left(i: PodInside) -> list[str]:
    return [f"its log was last written {i.log_age_s:.0f} s ago"] if i.log_age_s is not None else []


def judge_step(v: SpawningView, missing: str) -> None:
    """The orchestrator's own last words about this worker are an error: the step that failed comes before what is missing."""
    steps = v.orch.step_failed if v.orch else ()
    v.say("setup-step-failed", LIKELY, missing, *(f"the orchestrator says: {x}" for x in steps),
          decides=("that step by hand, and whether what it should bring is in the pod",))  # fmt: skip


def _promoted(v: SpawningView) -> str:
    """The orchestrator's word that it promoted this worker, if it is newer than the row's last change."""
    for line in reversed(v.orch.promoted if v.orch else ()):
        at = line_time(line)
        if at and v.row and (v.row.changed or v.row.created) and at > (v.row.changed or v.row.created or at):
            return line
    return ""


def judge_without_inside(v: SpawningView) -> None:
    """The pod runs and its inside was not read: what the stored log alone can say."""
    if v.inside is None and v.running and v.stored and not v.causes and (words := last_words(v.stored)):
        v.say(
            "worker-died",
            POSSIBLE,
            *(f"its stored log: {w}" for w in words),
            decides=("is the process there? look inside",),
        )
    if v.inside is None and v.running and not v.causes and v.orch and v.orch.step_failed and not v.orch.key_refused:
        judge_step(v, "its inside was not read")
    if v.inside is None and not v.causes and v.orch and v.orch.key_refused:
        v.say("ssh-key-wrong", LIKELY, *(f"the orchestrator says: {x}" for x in v.orch.key_refused[-2:]),
              decides=("the stages of ssh-auth-failure on this pod",))  # fmt: skip
