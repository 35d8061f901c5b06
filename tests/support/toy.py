"""A toy runbook on a world that is one JSON file: the engine's tests and the fault harness run on it.

The world file holds {"sick": bool, "identity": str, "unfixable": bool, "takes_s": seconds that a fix's command takes};
every act appends one line to `<world>.log`, and such a command two to `<world>.took`. "kinds": its plan has a step of each
of these real kinds; in processes of such a world a stand-in does what the kinds do (see `stand_in`). "forbids": a finding
names a cause that forbids these kinds.
"""

import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from httpx import ConnectError
from pydantic import ConfigDict

from flows import client, specs, store
from flows.engine import steps
from flows.engine.actions import ACTIONS, Action
from flows.spec import RunbookSpec
from runbooks.core.base import Frozen
from runbooks.core.forbidden import allowed
from runbooks.core.kinds import KINDS, ActionKind, Harsh
from runbooks.core.knowledge import load_runbook
from runbooks.core.members import process
from runbooks.core.names import slug
from runbooks.core.plan import Plan, Risk, Step
from runbooks.core.reading import Absent, Known, Unknown, UnknownReason
from runbooks.core.refusal import RefusalCode
from runbooks.core.together import together
from runbooks.core.verdict import Cause, Certainty, Diagnosis, Finding, Group, State
from tasks.context import ActionRefused, ActionResult, Context
from tasks.diagnostic import diagnostic
from tasks.remote import machine_identity
from tasks.remote.changing import FOLDER_ENV, command
from tasks.remote.command import read
from tasks.remote.machine_identity import Machine, mark, read_machine
from tasks.transport.base import Host, TransportError
from tests.support.arguments import sample

CAUSE, FORBIDDER = "stopped-process", "gpu-off-the-bus"
WITHIN_S = 20.0
_LOOKS: dict[str, int] = {}
REPLACED: dict[str, Callable[[], RunbookSpec]] = {}
"""The real runbook in whose place the toy stands."""
RISKS = {"toy-fix": Risk.DISRUPTIVE, "toy-wipe": Risk.DESTRUCTIVE, "toy-restart": Risk.DISRUPTIVE}


class ToyEvidence(Frozen):
    """What is read of the toy world."""

    node: str
    taken_at: datetime
    sick: bool
    identity: str
    log: Known[str] | Absent | Unknown | None = None  # what the file says that the world names as its log
    sure: bool = True
    victim: dict[str, Any] | None = None  # a real process that is to be ended, where the world names one
    mate: str = ""  # what another process of its group does
    to_and_fro: bool = False  # a plan goes from the node to the leader and back
    kinds: tuple[str, ...] = ()  # a plan has a step of each of these
    forbids: tuple[str, ...] = ()  # a finding's cause forbids these


class ToyLimits(Frozen):
    """None are needed; the zombie-gpu limits pass through."""

    model_config = ConfigDict(frozen=True, extra="ignore")


def world_path(target: str) -> Path:
    """The world file of a target."""
    return Path(os.environ["TOY_WORLDS"]) / f"{target}.json"


def write_world(folder: Path, target: str, **facts: object) -> None:
    """Puts a world in place at once."""
    path = folder / f"{target}.json"
    tmp = path.with_suffix(f".{os.getpid()}.tmp")
    tmp.write_text(json.dumps(facts), encoding="utf-8")
    tmp.replace(path)


def read_world(target: str) -> dict[str, object]:
    """The world as it is now."""
    found = json.loads(world_path(target).read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def acts_done(folder: Path, target: str) -> list[str]:
    """Every act that touched that world."""
    log = folder / f"{target}.log"
    return log.read_text(encoding="utf-8").splitlines() if log.exists() else []


@diagnostic("toy world · {context.target}")
def gather(context: Context) -> ToyEvidence:
    """Reads the world file. `cut_at_look` N: the N-th look of this process does not get through."""
    world = read_world(context.target)
    _LOOKS[context.target] = _LOOKS.get(context.target, 0) + 1
    if world.get("cut_at_look") == _LOOKS[context.target]:
        raise TransportError(UnknownReason.UNREACHABLE, "the link is cut")
    if world.get("raises") and _LOOKS[context.target] >= world.get("raises_at_look", 1):  # type: ignore[operator]
        _raise(str(world["raises"]), str(world["raised"]))
    log, job = world.get("log"), world.get("job")
    victim = _process(int(job["victim"])) if isinstance(job, dict) else None
    return ToyEvidence(
        node=context.target,
        taken_at=context.now(),
        sick=bool(world["sick"]) or victim is not None,
        victim=victim,
        mate=f"pid {job['mate']} is at work: it runs" if isinstance(job, dict) and _process(int(job["mate"])) else "",
        identity=str(world["identity"]),
        log=read(context.host, ["cat", str(log)], str, redactor=context.redactor, at=context.now()) if log else None,
        sure=bool(world.get("sure", True)),
        to_and_fro=bool(world.get("to_and_fro")),
        kinds=tuple(map(str, world.get("kinds", ()))),  # type: ignore[call-overload]
        forbids=tuple(map(str, world.get("forbids", ()))),  # type: ignore[call-overload]
    )


def _process(pid: int) -> dict[str, Any] | None:
    """A live process's identity, as an action names it."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
        uid = Path(f"/proc/{pid}").stat().st_uid
    except OSError:
        return None
    return None if fields[0] in "ZX" else {"pid": pid, "start_ticks": int(fields[19]), "command": command, "uid": uid}


def _of_a_group(evidence: ToyEvidence, victim: dict[str, Any]) -> Diagnosis:
    """One process of a real group is to be ended, by the real action; judged together with its mate."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    args = {"boot_id": boot, "processes": [victim], "cgroup": "", "sid": os.getsid(victim["pid"])}
    args |= {"gpu_uuids": [], "expect_freed_bytes": 0, "grace_s": 1}
    step = Step(kind="terminate-processes", owner=evidence.node, args=args, commands=(f"kill {victim['pid']}",), effect="gone")
    member = process(victim["pid"], evidence.node)
    cause = Cause(slug=CAUSE, certainty=Certainty.CONFIRMED, subject=member, evidence=("it is stopped",))
    return together(Diagnosis(
        state=State.UNHEALTHY, headline=f"{member} is stopped", causes=(cause,),
        plans=(Plan(name="end it", steps=(step,), for_causes=(CAUSE,), settle_s=0.0),),
        groups=(Group(name="job train", members=(member,), at_work=(evidence.mate,) if evidence.mate else ()),),
    ))  # fmt: skip


def step_of(kind: str, owner: str, identity: str = "") -> Step:
    """A step of a real kind, for its stand-in."""
    return Step(kind=kind, owner=owner, args=sample(kind), commands=(f"{kind} {identity}",), effect="well")


def _of_kinds(evidence: ToyEvidence) -> Diagnosis:
    """One plan with a step of every kind."""
    cause = Cause(slug=CAUSE, certainty=Certainty.CONFIRMED, subject=evidence.identity, evidence=("the world says so",))
    steps = tuple(step_of(kind, evidence.node, evidence.identity) for kind in evidence.kinds)
    plan = Plan(name="everything", steps=steps, for_causes=(CAUSE,), settle_s=0.0)
    return Diagnosis(state=State.UNHEALTHY, headline=f"{evidence.identity} is stuck", causes=(cause,), plans=(plan,))


def _raise(how: str, text: str) -> None:
    """An error of a reader's own, in one of the shapes that quote what was read."""
    if how == "pydantic":
        ToyEvidence.model_validate({"node": [text], "taken_at": text, "sick": {"x": text}})
    try:
        json.loads(f"{{{text}")
    except ValueError as e:
        e.add_note(f"while reading {text}")
        if how == "group":
            raise ExceptionGroup(f"all of {text}", [KeyError(text), RuntimeError(text)]) from e
        raise RuntimeError(f"unexpected answer: {text}") from e


def diagnose(evidence: ToyEvidence, _limits: ToyLimits) -> Diagnosis:
    """Sick or not."""
    if not evidence.sick:
        return Diagnosis(state=State.HEALTHY, headline=f"{evidence.node} is well")
    if evidence.victim is not None:
        return _of_a_group(evidence, evidence.victim)
    if evidence.kinds:
        return _of_kinds(evidence)
    said = tuple(evidence.log.value.splitlines()) if isinstance(evidence.log, Known) else ()
    certainty = Certainty.CONFIRMED if evidence.sure else Certainty.POSSIBLE
    cause = Cause(slug=CAUSE, certainty=certainty, subject=evidence.identity, evidence=("the world says so", *said))
    steps = (
        Step(
            kind="toy-wipe" if evidence.identity.startswith("wipe") else "toy-fix",
            owner=evidence.node,
            args={"identity": evidence.identity},
            commands=(f"fix {evidence.identity}",),
            effect="well",
        ),
    )
    back = (Step(kind="toy-restart", owner=evidence.node, args={}, commands=("restart",), effect="runs again"),)
    plans = (
        Plan(name="clean up only", steps=steps, for_causes=(CAUSE,), settle_s=0.0),
        Plan(
            name="clean up and restart",
            for_causes=(CAUSE,),
            settle_s=0.0,
            steps=(
                *steps,
                Step(
                    kind="toy-restart",
                    owner=f"leader of {evidence.node}",
                    args={},
                    commands=("restart",),
                    effect="runs again",
                ),
                *(back if evidence.to_and_fro else ()),
            ),
        ),
    )
    found = Diagnosis(
        state=State.UNHEALTHY,
        headline=": ".join([f"{evidence.identity} is stuck", *said[:1]]),
        causes=(cause,),
        plans=plans,
        must_not=("reboot",),
    )
    return _with_a_finding(found, evidence.forbids) if evidence.forbids else found


def _with_a_finding(found: Diagnosis, forbids: tuple[str, ...]) -> Diagnosis:
    """What a text says as well, of a cause that forbids these kinds."""
    book = load_runbook("zombie-gpu")
    cause = book.causes[FORBIDDER].model_copy(update={"forbids": forbids})
    said = Finding(priority="HIGH", category=f"{book.slug}/{FORBIDDER}", issue="a log says so", action="look first")
    toy = book.model_copy(update={"causes": {**book.causes, FORBIDDER: cause}})
    return allowed(toy, found.model_copy(update={"findings": (said,)}))


def _log(context: Context, line: str) -> None:
    fd = os.open(world_path(context.target).with_suffix(".log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(fd, f"{line}\n".encode())
        os.fsync(fd)
    finally:
        os.close(fd)


def fix(step: Step, context: Context) -> ActionResult:
    """Makes the world well, if it is still the one that was judged."""
    world = read_world(context.target)
    if world["identity"] != step.args["identity"]:
        raise ActionRefused(RefusalCode.TARGET_CHANGED, f"identity is now {world['identity']}")
    _log(context, f"fix {step.args['identity']} pid {os.getpid()}")
    if outage_s := world.get("outage_s"):
        begin_outage(float(str(outage_s)), float(str(world.get("record_s", 120))))
    if takes := world.get("takes_s"):
        log = str(world_path(context.target).with_suffix(".took"))
        script = f'echo begin $$ >>"$0"; sleep {takes}; echo end $$ >>"$0"'
        command(context, context.host, ("sh", "-c", script, log), 60)
    write_world(world_path(context.target).parent, context.target, **(world | {"sick": bool(world.get("unfixable"))}))
    return ActionResult(said=(f"fixed {step.args['identity']}", *str(world.get("says", "")).splitlines()))


TRIES_THE_LOCK = 'if flock -n -x "$1" true; then how=free; else how=held; fi; echo "$2 $how" >>"$0"'


def stand_in(step: Step, context: Context) -> ActionResult:
    """In place of what a kind does: a command on the node, which tries its owner's lock and writes the kind and that down."""
    assert context.acting is not None
    lock = Path(os.environ[FOLDER_ENV], str(os.geteuid()), f"{slug(context.acting.lock or context.acting.owner)}.lock")
    log = str(world_path(context.target).with_suffix(".log"))
    done = command(context, context.host, ("sh", "-c", TRIES_THE_LOCK, log, str(lock), step.kind), 60)
    assert done.exit == 0, done.err
    return ActionResult(said=(f"did {step.kind}",))


def stand_in_for(*kinds: str) -> dict[str, Action]:
    """These kinds with a stand-in for what they do, and nothing to wait for; everything else of them stays."""
    return {kind: replace(ACTIONS[kind], do=stand_in, wait_s=None) for kind in kinds}


def begin_outage(seconds: float, record_s: float) -> None:
    """From now on the server does not answer this process, which is as impatient as if that had lasted for minutes."""
    until = time.monotonic() + seconds
    real = client.kept_client

    def away() -> Any:
        if time.monotonic() < until:
            raise ConnectError("the server is away")
        return real()

    vars(store)["kept_client"] = away
    store.ask.__defaults__ = (0.3,)
    steps.RECORD_S = record_s


def wait_s(_step: Step, context: Context) -> tuple[float, str]:
    """As long as the world says."""
    return float(str(read_world(context.target).get("waits_s", 0))), "waited as the world says"


def restart(step: Step, context: Context) -> ActionResult:
    """Only writes the log, or fails."""
    if read_world(context.target).get("restart_fails"):
        raise TransportError(UnknownReason.FAILED, "the trainer ended at once with 1")
    _log(context, f"restart {step.owner} pid {os.getpid()}")
    return ActionResult(said=("restarted",))


def by_name(host: Host, timeout_s: float = 15.0) -> Machine:
    """Each node of a test's fleet stands for a machine of its own, though all are this one; unless `$REAL_MACHINES`."""
    if os.environ.get("REAL_MACHINES"):
        return read_machine(host, timeout_s)
    return Machine(boot=mark("boot", host.name), same=(mark("place", host.name),))


def take_out(patch: pytest.MonkeyPatch) -> None:
    """Meanwhile the real runbook and the real kinds of actions stand in this process, and no others."""
    for name, spec in REPLACED.items():
        patch.setitem(specs.SPECS, name, spec)
    patch.setattr(machine_identity, "read_machine", read_machine)
    for name in RISKS:
        patch.delitem(ACTIONS, name, raising=False)
        patch.delitem(KINDS, name, raising=False)


def install() -> None:
    """Puts the toy in the place of zombie-gpu, in this process."""
    REPLACED.setdefault("zombie-gpu", specs.SPECS["zombie-gpu"])
    specs.SPECS["zombie-gpu"] = lambda: RunbookSpec(
        slug="zombie-gpu", evidence=ToyEvidence, limits=ToyLimits, gather=gather, diagnose=diagnose
    )
    machine_identity.read_machine = by_name
    ACTIONS["toy-fix"] = Action(fix, within_s=WITHIN_S, wait_s=wait_s)
    ACTIONS["toy-wipe"] = Action(fix, within_s=WITHIN_S)
    ACTIONS["toy-restart"] = Action(restart, within_s=WITHIN_S)
    for name, risk in RISKS.items():
        KINDS[name] = ActionKind(risk, Harsh.A_RETRY, "a toy", "it works", "make {identity} sick again", None)
