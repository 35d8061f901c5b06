"""Deletes exactly one dead run's keys, proves a rendezvous by a short run, starts etcd, makes room in it."""

import re
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from socket import gethostname

from runbooks.core.args.rendezvous import DefragmentEtcd, DeleteRunKeys, ProbeRendezvous, StartEtcd
from runbooks.core.reading import Known
from runbooks.core.refusal import RefusalCode
from runbooks.core.rendezvous_config import Rendezvous, joiners
from runbooks.rendezvous.evidence import Evidence
from runbooks.rendezvous.life import processes_of
from runbooks.rendezvous.parsers.etcd_v2 import DYNAMIC_ROOT, Backend, NotEtcd, RunKeys
from runbooks.rendezvous.parsers.rdzv_state import DynamicState
from runbooks.rendezvous.plans import delete_order, deleting
from runbooks.rendezvous.saved import LARGEST, SavedKeys, shown, work_s
from tasks.arguments import takes
from tasks.context import ActionRefused, ActionResult, Context
from tasks.remote.changing import change, command
from tasks.remote.unseen import UNSEEN
from tasks.rendezvous.act_save import NotSaved, write_saved
from tasks.rendezvous.etcd import ask_etcd, parse_runs, read_runs
from tasks.rendezvous.members import read_node
from tasks.report_store import reports_root
from tasks.transport.base import Host, TransportError


class ActionUnfinished(Exception):
    """The action began and did not end as it should. The text says what was done and what was not."""


@takes(DeleteRunKeys)
def delete_run_keys(args: DeleteRunKeys, context: Context) -> ActionResult:
    """Deletes the keys in `args`, each while it has the index it was judged with; saves them to a file first."""
    place, host = _place(args.rendezvous, context, args.endpoint)
    backend, run = Backend(args.backend), args.run
    before = _runs(host, place)
    now = next((r for r in before if r.run == run and r.backend == backend), RunKeys(run=run, backend=backend))
    _same(args, now)
    _nobody(now, place, context)
    path = _save(now, place, context)
    try:
        said, stopped = _clear(args, context, host, place)
    except TransportError as e:
        back = f"put back with: gpu-runbooks restore {path}"
        raise ActionUnfinished(f"the node stopped answering while keys were deleted: {e}; saved to {path}; {back}") from e
    said = (f"saved {len(now.keys)} keys to {path} (on {gethostname()})", *said, *_others(before, host, place, now))
    if stopped:
        raise ActionUnfinished("; ".join((stopped, *said, f"put back with: gpu-runbooks restore {path}")))
    return ActionResult(said=said, facts={"file": str(path)})


def _place(name: str, context: Context, endpoint: str | None = None) -> tuple[Rendezvous, Host]:
    place = next((p for p in context.fleet.rendezvous if p.name == name), None)
    if place is None:
        raise ActionRefused(RefusalCode.CONFIG, f"the fleet file has no rendezvous {name!r} any more")
    if endpoint is not None and place.etcd_endpoint != endpoint.rstrip("/"):
        raise ActionRefused(RefusalCode.CONFIG, f"rendezvous {name} has another endpoint now: {place.etcd_endpoint}")
    return place, context.open_host(context.fleet.node(place.asks))


def _runs(host: Host, place: Rendezvous) -> tuple[RunKeys, ...]:
    try:
        return read_runs(host, place)
    except NotEtcd as e:
        raise ActionRefused(RefusalCode.CANNOT_CHECK, f"the keys could not be read: {e}") from e


def _same(args: DeleteRunKeys, now: RunKeys) -> None:
    """The run's keys are exactly those that were judged."""
    found = [[k.key, None if k.dir else k.modified] for k in delete_order(now)]
    judged = [list(k) for k in args.keys]
    if found != judged:
        gone = [k for k, _ in judged if k not in [f[0] for f in found]]
        new = [k for k, _ in found if k not in [j[0] for j in judged]]
        raise ActionRefused(RefusalCode.TARGET_CHANGED,
            f"the run's keys changed since they were judged (gone: {gone}, new: {new}, or rewritten)")


def _nobody(run: RunKeys, place: Rendezvous, context: Context) -> None:
    """Nothing of the run lives on any node that may have joined it, read once more."""
    pids = [m.pid for m in run.state.members] if isinstance(run.state, DynamicState) else []
    with ThreadPoolExecutor(max_workers=8) as pool:
        every = joiners(context.fleet.rendezvous, place)
        views = tuple(pool.map(lambda n: read_node(context, place, n, pids), every))
    unread = [v.node for v in views if not isinstance(v.facts, Known)]
    if unread:
        raise ActionRefused(RefusalCode.CANNOT_CHECK, f"nodes that could not be read: {', '.join(unread)}")
    living = processes_of(run, Evidence(name=place.name, taken_at=context.now(), nodes=views))
    if living:
        raise ActionRefused(RefusalCode.IN_USE, f"processes of run {run.run} are alive: {', '.join(living)}")


def _save(now: RunKeys, place: Rendezvous, context: Context) -> Path:
    keys = tuple(sorted(now.keys, key=lambda k: k.key.count("/")))
    saved = SavedKeys(
        rendezvous=place.name,
        endpoint=place.etcd_endpoint,
        backend=now.backend.value,
        run=now.run,
        saved_at=context.now(),
        keys=keys,
    )
    try:
        return write_saved(saved, reports_root(context.fleet.reports.folder) / "rendezvous")
    except NotSaved as e:
        raise ActionRefused(RefusalCode.NOT_SUPPORTED, f"the keys could not be saved first, so nothing was deleted: {e}") from e


def absent_key(backend: Backend, run: str, prefix: str) -> str:
    """The key that a newcomer of that run would write first."""
    return f"{DYNAMIC_ROOT}/{run}" if backend is Backend.ETCD_V2 else f"{prefix}/run_{run}/rdzv/active_version"


def _clear(args: DeleteRunKeys, context: Context, host: Host, place: Rendezvous) -> tuple[tuple[str, ...], str]:
    data = place.access | {
        **args.plain("guard", "keys"),
        "absent": absent_key(Backend(args.backend), args.run, place.prefix),
    }
    answer = change(context, host, "rdzv_clear", data, work_s(len(args.keys)), limit_bytes=LARGEST)
    return shown(answer["done"]), f"stopped half-way: {answer['stopped']}" if answer["stopped"] else ""


def _others(before: tuple[RunKeys, ...], host: Host, place: Rendezvous, mine: RunKeys) -> tuple[str, ...]:
    """What happened to every other run meanwhile."""
    try:
        after = read_runs(host, place)
    except (NotEtcd, TransportError) as e:
        return (f"what happened to the other runs meanwhile could not be read: {e}",)
    kept = {(r.run, r.backend) for r in before} - {(mine.run, mine.backend)}
    missing = sorted(run for run, _ in kept - {(r.run, r.backend) for r in after})
    words = [f"{len(kept) - len(missing)} other runs are where they were"]
    return (*words, *(f"run {m} vanished meanwhile, not by this" for m in missing))


@takes(ProbeRendezvous)
def probe_rendezvous(args: ProbeRendezvous, context: Context) -> ActionResult:
    """Runs the configured short command with the same id on its nodes at once, then clears that run's own keys."""
    place, host = _place(args.rendezvous, context)
    probe, run = place.probe, args.run
    if probe is None:
        raise ActionRefused(RefusalCode.CONFIG, f"rendezvous {place.name} has no probe")
    backend = Backend(args.backend)
    if any(r.run == run and r.backend == backend for r in _runs(host, place)):
        raise ActionRefused(RefusalCode.WOULD_OVERWRITE, f"run {run} has keys again: somebody started it")
    argv = [w.replace("{run}", run).replace("{endpoint}", place.endpoints[0]) for w in probe.command]
    outputs = _everywhere(argv, place, context, probe.timeout_s)
    matched = [n for n, out in outputs if re.search(probe.expect, out)]
    said = [f"{n}: {_last(out)}" for n, out in outputs]
    said += _after_probe(run, backend, host, place, context)
    if not matched:
        raise ActionUnfinished(f"the probe formed no world that matches {probe.expect!r}: {'; '.join(said)}")
    return ActionResult(said=(f"a world was formed ({probe.expect!r} seen on {', '.join(matched)})", *said, UNSEEN))


def _everywhere(argv: list[str], place: Rendezvous, context: Context, timeout_s: float) -> list[tuple[str, str]]:
    """The command on every probe node at once; one entry per place in the list, so a node may stand there twice."""
    nodes = place.probe.nodes if place.probe else ()

    def one(node: str) -> tuple[str, str]:
        try:
            done = command(context, context.open_host(context.fleet.node(node)), argv, timeout_s)
        except TransportError as e:
            return node, str(e)
        return node, done.out + done.err

    with ThreadPoolExecutor(max_workers=max(1, len(nodes))) as pool:
        return list(pool.map(one, nodes))


def _last(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "no output"


def _after_probe(run: str, backend: Backend, host: Host, place: Rendezvous, context: Context) -> list[str]:
    """A clean finish closes the round: clear what the probe itself left, or the next real start fails."""
    left = next((r for r in _runs(host, place) if r.run == run and r.backend == backend), None)
    if left is None:
        return ["the probe left nothing behind"]
    args = deleting(left, place.name, place.etcd_endpoint)
    try:
        _nobody(left, place, context)
    except ActionRefused as e:
        raise ActionUnfinished(f"the probe ran, and the keys of run {run} stay: {e}") from None
    _, stopped = _clear(args, context, host, place)
    return [stopped or f"the probe's own {len(args.keys)} keys were cleared"]


@takes(StartEtcd)
def start_etcd(args: StartEtcd, context: Context) -> ActionResult:
    """Starts the configured etcd that is down, by the configured command, with the data it had."""
    place, asks = _place(args.rendezvous, context)
    start = place.start
    if start is None or start.node != args.node or tuple(start.command) != args.command:
        raise ActionRefused(RefusalCode.CONFIG, "the start command in the fleet file is another one now")
    if _answers(asks, place):
        raise ActionRefused(RefusalCode.IN_USE, "etcd answers already")
    host = context.open_host(context.fleet.node(start.node))
    if start.data_dir and host.run(["test", "-d", f"{start.data_dir}/member"]).exit != 0:
        raise ActionRefused(RefusalCode.TARGET_CHANGED, f"{start.data_dir}/member is not there: started like this etcd would be empty")
    done = command(context, host, start.command, 60)
    if done.exit != 0:
        raise ActionUnfinished(f"`{done.command}` ended with {done.exit}: {_last(done.err or done.out)}")
    return ActionResult(said=(f"`{done.command}` on {start.node}", _wait_for(asks, place, context)))


def _answers(host: Host, place: Rendezvous) -> bool:
    try:
        return "error" not in ask_etcd(host, place)["health"]
    except TransportError:
        return False


def _wait_for(host: Host, place: Rendezvous, context: Context) -> str:
    end = time.monotonic() + 30
    while time.monotonic() < end:
        if _answers(host, place):
            runs = parse_runs(ask_etcd(host, place, keys_only=True), place)
            return f"etcd answers at {place.etcd_endpoint}; it knows {len(runs)} runs"
        context.sleep(0.5)
    return f"etcd did not answer at {place.etcd_endpoint} within 30 s"


@takes(DefragmentEtcd)
def defragment_etcd(args: DefragmentEtcd, context: Context) -> ActionResult:
    """Compacts etcd's old v3 revisions, defragments it and switches its no-space alarm off. No key is touched."""
    place, host = _place(args.rendezvous, context, args.endpoint)
    answer = change(context, host, "rdzv_defrag", place.access, 300)
    if answer["stopped"]:
        raise ActionUnfinished("; ".join([answer["stopped"], *answer["said"]]))
    return ActionResult(said=tuple(answer["said"]))
