"""The end of an incident of many targets: told once, by the reaper, when the last of them is well again.

Targets that fail alike are told as one incident (outbox.py). Its newest message carries the tag `many-open` until then.
"""

from collections import defaultdict
from datetime import datetime, timedelta
from functools import partial

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterName, FlowRunFilterTags
from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.sorting import FlowRunSort

from flows import store
from flows.notify.outbox import DUE, MANY_OPEN, Delivery, delivery_on, labels_of, message_on, refs
from runbooks.core.outcome import Outcome
from runbooks.notify.message import Message, all_well

FORGET = timedelta(days=7)  # a target that left the fleet meanwhile is never seen well


def end_group(now: datetime) -> list[str]:
    """Owes the end of every such incident whose targets are all well again. Returns a line for each."""
    open_: dict[str, list[tuple[FlowRun, Message]]] = defaultdict(list)
    for run in store.find_runs([MANY_OPEN]):
        message = message_on(run)
        if message is None or not message.others:
            store.retag(run.id, remove=[MANY_OPEN])
        else:
            open_[message.incident].append((run, message))
    return [line for found in open_.values() if (line := _end(found, now))]


def _end(found: list[tuple[FlowRun, Message]], now: datetime) -> str:
    run, newest = max(found, key=lambda pair: pair[1].at)
    members = sorted({t for _, m in found for t in (m.target, *m.others)})
    well = now - newest.at < FORGET and _all_well(newest, members)
    if not well and now - newest.at < FORGET:
        return ""
    if well:
        message, delivery = all_well(newest, tuple(members), now), delivery_on(run)
        pending = Delivery(of=message.stamp, channels=refs((newest, delivery)) if delivery else {})
        store.label(run.id, labels_of(message, pending))
    for other, _ in found:
        store.retag(other.id, add=[DUE] if well and other is run else [], remove=[MANY_OPEN])
    return f"{newest.runbook}: {len(members)} targets have recovered" if well else ""


def _all_well(message: Message, members: list[str]) -> bool:
    """True if the newest run of each that has an outcome says so, and ended after the message was written."""
    run_filter = FlowRunFilter(
        name=FlowRunFilterName(any_=[f"{message.runbook} {t}" for t in members]),
        tags=FlowRunFilterTags(all_=[f"runbook:{message.runbook}"]),
    )
    newest = FlowRunSort.EXPECTED_START_TIME_DESC
    ask = partial(SyncPrefectClient.read_flow_runs, flow_run_filter=run_filter, sort=newest, limit=store.PAGE)
    last: dict[str, FlowRun] = {}
    for run in store.ask(ask):
        if run.labels.get("outcome"):
            last.setdefault(run.name, run)
    return len(last) == len(members) and all(_well_after(r, message.at) for r in last.values())


def _well_after(run: FlowRun, at: datetime) -> bool:
    return str(run.labels["outcome"]) in {o.value for o in Outcome if o.row.closing} and (run.end_time or at) >= at
