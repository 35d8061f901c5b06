"""What the gateway does with one alert: mapped, resolved to a target, capped by policy, placed in Prefect, given to a process."""

import logging
import threading
import time
from collections import OrderedDict, defaultdict
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from deployments.gateway.events import alert_event, run_event
from deployments.gateway.files import Files, WatchedFiles, other_targets
from deployments.gateway.metrics import Metrics
from deployments.gateway.runner import Runner
from deployments.gateway.settings import GatewaySettings
from flows.alerts import AlertOutcome, AlertPlacement, AlertStart, place, resolve
from flows.clock import server_now
from flows.launch import hand_to_worker
from runbooks.alerts.alert import Alert, Status, plain
from runbooks.alerts.mapping import Unusable, WantedRun, wanted
from runbooks.alerts.targets import NoTarget
from runbooks.alerts.targets import resolve as resolve_target
from runbooks.core.alike import many_alike
from runbooks.core.base import Frozen
from runbooks.core.outcome import Outcome
from runbooks.core.policy import Mode
from runbooks.core.refusal import CODES, RefusalCode
from runbooks.core.times import utc
from tasks.installation import installation_redactor

log = logging.getLogger("gateway")
REMEMBERED = 20_000
LOCKS = 64


class NotStarted(StrEnum):
    """Outcomes besides those of flows.alerts.AlertOutcome."""

    UNMAPPED = "unmapped"
    UNUSABLE = "unusable"  # a row matched, but gives nothing that can run: the alerts or fleet file needs a change
    UNAVAILABLE = "unavailable"  # Prefect did not answer: the sender is to come again


class AlertAnswer(Frozen):
    """What the sender is told about one alert and one row."""

    alert: str
    outcome: str
    rule: str = ""
    runbook: str = ""
    target: str = ""
    mode: str = ""
    run: str = ""
    why: str = ""


class Service:
    """One gateway."""

    def __init__(self, settings: GatewaySettings) -> None:
        self.settings = settings
        self.files = WatchedFiles(settings.alerts, settings.fleet, settings.policy)
        self.runner = Runner(settings.at_once, self._ended) if settings.workers else None
        self.metrics = Metrics(self._counts, lambda: max(0, self.runner.restarts) if self.runner else 0)
        self.metrics.config_ok.set_function(lambda: float(self.files.in_order))
        self.draining = False
        self._known: OrderedDict[tuple[str, str], tuple[AlertAnswer, float]] = OrderedDict()  # and since when
        self._locks = [threading.Lock() for _ in range(LOCKS)]
        self._recent: defaultdict[str, dict[str, datetime]] = defaultdict(dict)  # runbook -> target -> its newest alert
        self._about: dict[str, tuple[str, str]] = {}  # run -> (runbook, target), of runs that this gateway started

    def _counts(self) -> tuple[int, int]:
        return self.runner.counts() if self.runner else (0, 0)

    def take(self, alert: Alert, now: datetime | None = None) -> list[AlertAnswer]:
        """Everything that one alert leads to. Gateways on several machines count by the Prefect server's clock, which is `now`
        if nothing else is said. Raises what the Prefect client raises if the server is not there."""
        files = self.files.now()
        rows = wanted(alert, files.alerts)
        if not rows:
            return [self._report(alert, AlertAnswer(alert=alert.name, outcome=NotStarted.UNMAPPED))]
        return [self._row(alert, row, files, now) for row in rows]

    def _row(self, alert: Alert, row: WantedRun | Unusable, files: Files, now: datetime | None) -> AlertAnswer:
        known, at = self._known.get((alert.key, row.rule), (None, 0.0))
        if known and alert.status is Status.FIRING and time.monotonic() - at < files.alerts.repeat_s:
            self.metrics.alerts.labels(alert.source.value, AlertOutcome.REPEAT.value).inc()
            return known.model_copy(update={"outcome": AlertOutcome.REPEAT.value})
        if isinstance(row, Unusable):
            return self._unusable(alert, row.rule, row.why)
        try:
            target = resolve_target(row.target, files.fleet, other_targets(row.runbook, files.fleet))
        except NoTarget as e:
            return self._unusable(alert, row.rule, str(e))
        with self._locks[hash((row.runbook, target)) % LOCKS]:
            return self._place(alert, row.model_copy(update={"target": target}), files, now or server_now())

    def _unusable(self, alert: Alert, rule: str, why: str) -> AlertAnswer:
        """Nothing was ever started for it, so there is nothing that its end could change."""
        outcome = NotStarted.UNUSABLE.value if alert.status is Status.FIRING else AlertOutcome.NOTHING.value
        return self._report(alert, AlertAnswer(alert=alert.name, outcome=outcome, rule=rule, why=why))

    def _place(self, alert: Alert, row: WantedRun, files: Files, now: datetime) -> AlertAnswer:
        firing = alert.status is Status.FIRING
        mode = files.most(row.mode)
        common = self._common_cause(row, files, now) if firing else ""
        if common and mode is not Mode.DIAGNOSE:
            mode = Mode.DIAGNOSE
            self.metrics.storms.inc()
        start = self._start(alert, row, mode, files, now, common)
        placed = place(start) if firing else resolve(start)
        if placed.done is AlertOutcome.STARTED:
            self._about[placed.run] = (row.runbook, row.target)
            if not (self.runner and self.runner.submit(placed.run, row.runbook)):
                hand_to_worker(placed.run, "the gateway is closing" if self.runner else "no warm processes here")
        answer = _answer(alert, row, mode, placed, common)
        if firing:
            self._remember((alert.key, row.rule), answer)
        return self._report(alert, answer)

    def _start(self, alert: Alert, row: WantedRun, mode: Mode, files: Files, now: datetime, common: str) -> AlertStart:
        clean = installation_redactor().text
        began = utc(alert.starts_at)
        trigger = f"alert {alert.name[:120]} from {alert.source} since {began} (rule {row.rule}){'; ' if common else ''}{common}"
        parameters: dict[str, Any] = {
            "target": row.target,
            "mode": mode.value,
            "choice": row.choice,
            "fleet": self.settings.fleet,
            "policy": self.settings.policy,
            "out": self.settings.out,
            "trigger": clean(plain(trigger, 600)),
            "options": {name: clean(text) for name, text in row.options.items() if text},
        }
        return AlertStart(
            runbook=row.runbook,
            target=row.target,
            fleet=self.settings.fleet,
            parameters=parameters,
            key=alert.key,
            mark=alert.mark,
            alert=clean(plain(alert.name, 80)),
            at=now,
            began=alert.starts_at,
            ended=alert.ends_at,
            same_within_s=files.alerts.same_within_s,
            repeat_s=files.alerts.repeat_s,
        )

    def _common_cause(self, row: WantedRun, files: Files, now: datetime) -> str:
        """Many targets with one runbook's alerts are one incident: runs then only diagnose. "" if there are few."""
        if files.policy is None:
            return ""
        recent, limits = self._recent[row.runbook], files.policy.storm
        recent[row.target] = now
        for target in [t for t, at in list(recent.items()) if now - at > timedelta(seconds=limits.window_s)]:
            recent.pop(target, None)  # in time: alerts name new pods and workers every day
        targets = many_alike([(at, target) for target, at in list(recent.items())], now, limits.window_s, limits.alike)
        if not targets:
            return ""
        return f"{len(targets)} targets alert alike within {limits.window_s:.0f} s: one incident, so this run only diagnoses"

    def _remember(self, key: tuple[str, str], answer: AlertAnswer) -> None:
        self._known[key] = (answer, time.monotonic())
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)

    def _report(self, alert: Alert, answer: AlertAnswer) -> AlertAnswer:
        """Counts it, logs one line, and emits one event."""
        self.metrics.alerts.labels(alert.source.value, str(answer.outcome)).inc()
        self.metrics.last.set_to_current_time()
        log.info(
            "alert %s from %s: %s%s",
            plain(alert.name, 80),
            alert.source.value,
            answer.outcome,
            f" {answer.runbook} on {answer.target} ({answer.mode}) run {answer.run}" if answer.run else f" {plain(answer.why, 200)}",
        )
        payload = answer.model_dump() | {"source": alert.source.value, "status": alert.status.value}
        alert_event(str(answer.outcome), answer.target, answer.run, payload)
        return answer

    def _ended(self, run: str, clean: bool) -> None:
        """A run's process has ended. One that never began goes to a worker; one that broke off is the reaper's."""
        from flows import store

        slug, target = self._about.pop(run, ("", ""))
        try:
            found = store.read_run(run)
            if found.state and found.state.is_pending():
                hand_to_worker(run, "its process ended before it started")
        except Exception as e:
            log.warning("run %s ended, and the server cannot be asked how: %s", run, type(e).__name__)
            return
        said = str(found.labels.get("outcome", ""))
        outcome = said if said in {o.value for o in Outcome} else ("none" if clean else "broken-off")
        self.metrics.runs.labels(outcome).inc()
        for code in set(str(found.labels.get(CODES, "")).split(",")) & {c.value for c in RefusalCode}:
            self.metrics.refusals.labels(code).inc()
        run_event(outcome, target, run, {"runbook": slug, "headline": str(found.labels.get("headline", ""))})

    def start(self) -> None:
        """Makes the processes warm."""
        if self.runner:
            self.runner.start()

    def drain(self) -> None:
        """No new run: what is queued goes to the workers, what runs goes on."""
        self.draining = True
        for run in self.runner.drain() if self.runner else ():
            try:
                hand_to_worker(run, "the gateway is closing")
            except Exception as e:
                log.warning("run %s stays Pending, the reaper hands it on: %s", run, type(e).__name__)


def _answer(alert: Alert, row: WantedRun, mode: Mode, placed: AlertPlacement, common: str) -> AlertAnswer:
    return AlertAnswer(
        alert=alert.name,
        outcome=placed.done.value,
        rule=row.rule,
        runbook=row.runbook,
        target=row.target,
        mode=mode.value if alert.status is Status.FIRING else "",
        run=placed.run,
        why=common,
    )
