"""`gpu-runbooks alerts test FILE`: what a payload would start. No node is asked, and nothing is started."""

import argparse
import json
from typing import Any

from deployments.cli.missing_secrets import check_secrets
from deployments.errors import CommandError
from deployments.gateway.files import Files, load_files, other_targets
from runbooks.alerts.alert import Alert, AlertSource, BadPayload, Status
from runbooks.alerts.mapping import Unusable, WantedRun, wanted
from runbooks.alerts.payloads import parse
from runbooks.alerts.targets import NoTarget, check_name, resolve
from runbooks.core.policy import Mode
from tasks.whole_file import read_whole

LARGEST = 16 << 20


def cmd_alerts(ns: argparse.Namespace) -> int:
    """Exit code 0: every firing alert starts something; 1: at least one is not mapped or cannot be used."""
    files = load_files(ns.alerts or "", ns.fleet, ns.policy)
    check_secrets(files.fleet, ns.fleet)
    alerts = read_alerts(ns.file, ns.source)
    rows = [row for alert in alerts for row in explain(alert, files, bool(ns.fleet))]
    if ns.json:
        print(json.dumps(rows, indent=1))
    else:
        for row in rows:
            print(line(row))
        print(f"{len(alerts)} alert(s); nothing was started")
    return 0 if all(r["would"] in ("run", "resolve") for r in rows) else 1


def read_alerts(path: str, source: str | None) -> tuple[Alert, ...]:
    """Alerts of a payload file; without `source` the format is recognised by its fields. Raises CommandError."""
    try:
        body = read_whole(path, LARGEST)
    except OSError as e:
        raise CommandError(f"{path}: {e.strerror or e}") from e
    try:
        return parse(AlertSource(source) if source else guess(body), body)
    except BadPayload as e:
        raise CommandError(f"{path}: {e}; see deployments/README.md, Alerts, or name the format with --format") from e


def guess(body: bytes) -> AlertSource:
    """Whose payload it is, by the fields that only that sender has."""
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        return AlertSource.GENERIC  # its parser says what is wrong
    fields = set(data) if isinstance(data, dict) else set()
    if "event" in fields:
        return AlertSource.PAGERDUTY
    if "orgId" in fields:
        return AlertSource.GRAFANA
    return AlertSource.ALERTMANAGER if fields & {"groupKey", "receiver", "version", "groupLabels"} else AlertSource.GENERIC


def explain(alert: Alert, files: Files, fleet_given: bool) -> list[dict[str, Any]]:
    """One row per rule that matches, or one that says that none does."""
    head = {"alert": alert.name, "status": alert.status.value, "labels": alert.labels}
    found = wanted(alert, files.alerts)
    if not found:
        return [head | {"would": "nothing", "why": "no rule matches"}]
    return [head | _row(alert, row, files, fleet_given) for row in found]


def _row(alert: Alert, row: WantedRun | Unusable, files: Files, fleet_given: bool) -> dict[str, Any]:
    if isinstance(row, Unusable):
        return {"would": "nothing", "rule": row.rule, "why": row.why}
    says: dict[str, Any] = {"rule": row.rule, "runbook": row.runbook, "target": row.target}
    try:
        check_name(row.target)
        if fleet_given:
            says["target"] = resolve(row.target, files.fleet, other_targets(row.runbook, files.fleet))
    except NoTarget as e:
        return says | {"would": "nothing", "why": str(e)}
    if alert.status is Status.RESOLVED:
        return says | {"would": "resolve", "why": "ends a run that waits because of it; never acts"}
    mode = files.most(row.mode)
    why = "" if mode is row.mode else f"the rule says {row.mode}, {_cap(files)}"
    unchecked = "" if fleet_given else "target not checked: give --fleet"
    return says | {
        "would": "run",
        "mode": mode.value,
        "options": {k: v for k, v in row.options.items() if v},
        "why": "; ".join(w for w in (why, unchecked) if w),
    }


def _cap(files: Files) -> str:
    return f"the policy file limits it to {files.policy.mode}" if files.policy else f"without --policy it is {Mode.DIAGNOSE}"


def line(row: dict[str, Any]) -> str:
    """A row for people."""
    head = f"{row['alert']} ({row['status']}): "
    why = f"  [{row['why']}]" if row.get("why") else ""
    if row["would"] == "nothing":
        return head + f"starts nothing{why}"
    if row["would"] == "resolve":
        return head + f"{row['runbook']} on {row['target']}{why}"
    options = "".join(f" {k}={v!r}" for k, v in row["options"].items())
    return head + f"rule {row['rule']}: run {row['runbook']} on {row['target']}, mode {row['mode']}{options}{why}"
