"""What may be done about a diagnosis now: files read anew, history, freeze, breaker. Asked when a run decides, and again
right before it acts."""

from dataclasses import replace

from flows import store
from flows.clock import server_now
from flows.engine.actions import risks
from flows.engine.gate import Decision, Gate, decide, overtaken
from flows.engine.guards import check_breaker, check_freeze
from flows.engine.knowingly import on_offer
from flows.engine.lock import history_of
from flows.engine.lock_key import lock_key_of, namesakes
from flows.engine.run import Run
from runbooks.core.config import ConfigError
from runbooks.core.plan import Plan
from runbooks.core.policy import Mode
from runbooks.core.refusal import RefusalCode
from runbooks.core.verdict import Diagnosis
from tasks.context import ActionRefused


def gate_of(run: Run, diagnosis: Diagnosis, choice: str = "", read_once: bool = False) -> Gate:
    """The gate's answer for this run now. `choice`: the plan that would be done; without one, what the run was asked for.

    `read_once`: the target was read once only, so what others changed since then makes it read again.
    """
    run.record.headline = diagnosis.headline
    store.label(run.run_id, {"causes": ",".join(sorted({c.slug for c in diagnosis.wrong})) or "-"})
    offered = on_offer(diagnosis, run.mode, choice or run.choice)
    owners = tuple(sorted({o for p in offered for o in p.owners}))
    since = server_now() - run.policy.longest_window
    acts = bool(offered) and run.mode is not Mode.DIAGNOSE
    places = tuple(lock_key_of(o, run.context) for o in owners) if acts else ()
    history = history_of(places, run.fleet.name, since)
    held = hands_off(run, owners)
    gate = decide(diagnosis, run.mode, run.policy, risks(), history, server_now(), held, choice or run.choice)
    gate = overtaken(gate, history, run.read_at if read_once else None)
    if gate.decision in (Decision.ASK, Decision.ACT):
        try:
            check_freeze()
            check_breaker(run.fleet.name, tuple(m for p in places for m in p.marks))
        except ActionRefused as e:
            frozen = str(e) if e.code is RefusalCode.FROZEN else ""
            refused = {"decision": Decision.REFUSE, "why": (e.refusal,), "else_asked": gate.why, "frozen": frozen}
            return gate.model_copy(update=refused)
    return gate


def hands_off(run: Run, owners: tuple[str, ...]) -> str:
    """Why a machine that the run is about, or would change, is not to be touched; "" if none is."""
    touched = namesakes(run.fleet, {run.context.target, *owners})
    return "; ".join(
        f"{n.name}: {n.reason or 'the fleet file says so'}"
        for n in run.fleet.nodes
        if n.hands_off and n.name in touched
    )


def read_files_again(run: Run) -> None:
    """Takes fleet and policy file as they are now. Raises ActionRefused if they cannot be used: then nothing is changed."""
    if run.reread is None:
        return
    try:
        fleet, policy, limits = run.reread()
    except ConfigError as e:
        said = f"the fleet or policy file can no longer be used, so nothing is changed: {e}"
        raise ActionRefused(RefusalCode.CONFIG, said) from e
    run.fleet, run.policy = fleet, policy
    run.context = replace(run.context, fleet=fleet, limits=limits)


def files_allow(run: Run, plan: Plan) -> None:
    """Raises ActionRefused if the files say by now that this plan's machines or kinds are not to be touched."""
    read_files_again(run)
    if held := hands_off(run, plan.owners):
        raise ActionRefused(RefusalCode.HANDS_OFF, f"hands off: {held}")
    barred = sorted({s.kind for s in plan.steps if run.policy.kind(s.kind).mode is Mode.DIAGNOSE})
    if run.policy.mode is Mode.DIAGNOSE or barred:
        said = f"the policy file allows only diagnosis for {', '.join(barred) or 'every run'}"
        raise ActionRefused(RefusalCode.POLICY, said)
