"""Reads a pod's network and inside: the stages of ssh-auth-failure first, then one probe over SSH. Changes nothing on it."""

from runbooks.core.log_in import LogInSeen
from runbooks.core.orchestrator_config import Orchestrator
from runbooks.core.reading import Absent, Known, Source, Unknown, UnknownReason
from runbooks.core.worker_ids import is_plain
from runbooks.parsers.runpod import Pod
from runbooks.parsers.ssh_key import public_shape
from runbooks.parsers.ssh_text import published_host_keys
from runbooks.spawning.evidence import PodInside, PodOther, PodProcess, SshStages
from tasks.clients.pod_trust import FIRST_SEEN, PUBLISHED, Trust, pod_node, record_key, trust_of
from tasks.context import Context, LogIn
from tasks.diagnostic import diagnostic
from tasks.remote.probe import run_probe
from tasks.transport.base import TransportError


@diagnostic("SSH to the pod")
def read_ssh_stages(
    context: Context, config: Orchestrator, pod: Pod | None, log: tuple[str, ...]
) -> Known[SshStages] | Absent | Unknown:
    """The stages. A pod's first key is recorded with pod and machine id; a changed or unpublished one is refused."""
    if pod is None or not pod.ip or not pod.ssh_port:
        return Absent(proof="the pod has no public address for port 22")
    command = f"ssh -p {pod.ssh_port} {config.ssh.user}@{pod.ip} true"
    source = Source(command=command, host="local", taken_at=context.now())
    if context.log_in is None:
        return Unknown(reason=UnknownReason.NOT_ASKED, detail="nothing here looks at log-ins", source=source)
    try:
        return Known(value=_stages(context, context.log_in, config, pod, published_host_keys(log)), source=source)
    except (TransportError, ValueError, OSError) as e:
        why = e.reason if isinstance(e, TransportError) else UnknownReason.FAILED
        return Unknown(reason=why, detail=str(e)[:300], source=source)


def _stages(context: Context, log_in: LogIn, config: Orchestrator, pod: Pod, published: tuple[str, ...]) -> SshStages:
    trust = trust_of(config.ssh, pod.id)
    seen = log_in.seen(context, pod_node(config, pod, trust.key))
    shown = seen.unknown_key
    if not trust.key and shown:
        if published and _mark(shown) not in published:
            said = f"it shows {_mark(shown)}; its start script published {', '.join(published)}"
            return _summary(seen, Trust(), refused=said)
        at = context.now().isoformat(timespec="seconds")
        trust = record_key(config.ssh, pod.id, Trust(shown, _how(shown, published), at, pod.machine_id))
        seen = log_in.seen(context, pod_node(config, pod, trust.key))
    elif trust.how == FIRST_SEEN and _how(trust.key, published) == PUBLISHED:
        trust = record_key(config.ssh, pod.id, Trust(trust.key, PUBLISHED))
    return _summary(seen, trust)


def _mark(key: str) -> str:
    shape = public_shape(key)
    return shape.fingerprint if shape else ""


def _how(key: str, published: tuple[str, ...]) -> str:
    return PUBLISHED if _mark(key) in published else FIRST_SEEN


def _summary(seen: LogInSeen, trust: Trust, refused: str = "") -> SshStages:
    first = trust.how == FIRST_SEEN
    return SshStages(
        stage=seen.stage, cause=seen.cause, certainty=seen.certainty,
        headline=refused or seen.headline, first_seen=first, key_of_pod_changed=seen.changed or bool(refused),
        trust=f"{trust.how} {trust.since} on machine {trust.machine}" if first else trust.how,
    )  # fmt: skip


@diagnostic("inside the pod of {worker}")
def read_inside(
    context: Context, config: Orchestrator, pod: Pod | None, ssh: Known[SshStages] | Absent | Unknown, worker: str
) -> Known[PodInside] | Absent | Unknown:
    """Processes, log, disks and GPUs, over the key that is recorded for the pod id."""
    if pod is None or not isinstance(ssh, Known):
        return Absent(proof="there is no way into the pod")
    if ssh.value.cause or ssh.value.stage != "done":
        return Unknown(reason=UnknownReason.UNREACHABLE, detail=f"SSH stops at {ssh.value.stage}: {ssh.value.cause}")
    if not is_plain(worker):
        return Unknown(
            reason=UnknownReason.UNPARSABLE, detail="the worker's id is none that may stand in a path: its log is not read"
        )
    source = Source(command="python3 - (probe pod_inside)", host=pod.id, taken_at=context.now())
    p = config.process
    ask = {"match": p.match, "log": p.log.replace("{worker}", worker), "disks": list(p.disks), "lines": 200}
    ask["watch_s"] = context.limit("watch_s", "stuck-spawning")
    try:
        host = context.open_host(pod_node(config, pod, trust_of(config.ssh, pod.id).key))
        got = run_probe(host, "pod_inside", ask)
    except TransportError as e:
        return Unknown(reason=e.reason, detail=e.detail, source=source)
    inside = PodInside(
        boot_id=str(got["boot_id"]), pod_id=str(got["pod_id"]),
        processes=tuple(PodProcess(**x) for x in got["processes"]), watched_s=got["watched_s"],
        others=None if got["others"] is None
        else tuple(PodOther(**x | {"command": context.redactor.text(x["command"])}) for x in got["others"]),
        log_exists=bool(got["log"]["exists"]), log_age_s=got["log"]["age_s"],
        log=tuple(context.redactor.text(line)[:500] for line in got["log"]["lines"]),
        free_bytes=got["free"], gpus=got["gpus"], driver_cuda=got["driver_cuda"], image_cuda=got["image_cuda"],
    )  # fmt: skip
    return Known(value=inside, source=source)
