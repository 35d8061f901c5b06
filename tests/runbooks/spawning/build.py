"""Builds evidence from a situation: what it names is laid over a worker that has come up. Times are seconds before now."""

from datetime import UTC, datetime, timedelta
from typing import Any

from runbooks.core.knowledge import load_runbook
from runbooks.core.verdict import Diagnosis
from runbooks.spawning.all_workers import SHARED
from runbooks.spawning.diagnose import Limits, diagnose
from runbooks.spawning.evidence import Evidence
from runbooks.spawning.parsers.orchestrator_log import parse_orchestrator_log

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
TIMES = ("created", "heartbeat", "changed", "created_at", "started_at", "claimed", "at")
ROW = {"id": "w1", "status": "spawning", "created": 900, "changed": 900, "pod_id": "p1"}
POD = {
    "id": "p1", "name": "gpu-w1", "phase": "running", "status": "RUNNING", "runtime": "there", "gpus": 1, "gpus_wanted": 1,
    "ip": "10.0.0.1", "ssh_port": 2222, "wants_ssh": True, "machine_id": "m1", "started_at": 900, "cost_per_hour": 0.6, "disk_gb": 50,
}  # fmt: skip
SSH = {"stage": "done", "cause": "", "certainty": "", "headline": "lets this key in"}
INSIDE = {
    "boot_id": "b", "processes": [{"pid": 7, "start_ticks": 1, "age_s": 60, "command": "python worker.py"}],
    "log_exists": True, "log": ["started"], "gpus": 1, "driver_cuda": "12.8", "image_cuda": "12.4", "free_bytes": {"/": 1 << 34},
}  # fmt: skip
OWN = ("row", "pod", "pod_log", "usual", "ssh", "inside", "stored_log")
STARTING = {"runtime": "null", "ip": "", "ssh_port": None, "gpus": None}


def ago(data: Any) -> Any:
    """Seconds before now become times, wherever a field holds one."""
    if isinstance(data, dict):
        return {
            k: (NOW - timedelta(seconds=v)).isoformat() if k in TIMES and isinstance(v, int | float) else ago(v)
            for k, v in data.items()
        }
    return [ago(x) for x in data] if isinstance(data, list) else data


def reading(base: Any, over: Any) -> dict[str, Any]:
    """Known, with `over` laid on; null: proven absent; {kind: …}: itself."""
    if over is None:
        return {"kind": "absent", "proof": "none here"}
    if isinstance(over, dict) and "kind" in over:
        return over
    return {"kind": "known", "value": ago({**base, **over} if isinstance(base, dict) else over)}


def pods(given: dict[str, Any]) -> dict[str, Any]:
    """One read of a pod that is up; `pod: starting`, `pod: gone`, or fields; `reads` says how many, 10 s apart."""
    what = given.get("pod", {})
    if isinstance(what, dict) and "kind" in what:
        return what
    fields = None if what == "gone" else POD | (STARTING if what == "starting" else what)
    count = given.get("reads", 2)
    return {"kind": "known", "value": [ago({"at": 10 * (count - i), "pod": fields}) for i in range(count)]}


def orchestrator(given: dict[str, Any]) -> dict[str, Any]:
    """Its log: a cycle line `cycle` seconds old, and further lines."""
    if given.get("cycle", 20) is None and not given.get("says"):
        return {"kind": "unknown", "reason": "unreachable", "detail": "no log"}
    cycle = given.get("cycle", 20)
    lines = [] if cycle is None else [f"{(NOW - timedelta(seconds=cycle)).isoformat()} ORCHESTRATOR CYCLE #1"]
    log = parse_orchestrator_log("\n".join([*lines, *given.get("says", [])]), "w1")
    return {"kind": "known", "value": log.model_dump(mode="json")}


def judge(given: dict[str, Any]) -> Diagnosis:
    """The diagnosis of one situation; with `each`, of the target `workers`: one worker per entry."""
    return diagnose(whole(given), Limits.model_validate(load_runbook("stuck-spawning").limit_values()))


def whole(given: dict[str, Any]) -> Evidence:
    """The evidence of one situation."""
    if "each" not in given:
        return Evidence.model_validate(evidence(given))
    each = [
        evidence({**x, "row": ROW | {"id": f"w{i}", "pod_id": f"p{i}"} | x.get("row", {})})
        for i, x in enumerate(given["each"])
    ]
    rows = [x["row"]["value"] for x in each]
    read = evidence(
        {**given, "row": None, "others": [*rows, *ago(given.get("others", []))], "all_pods": given.get("all_pods", [])}
    )
    none, once = reading(None, None), dict.fromkeys(SHARED, reading(None, None))
    read |= dict.fromkeys(OWN, none) | {"worker": "", "can_start": False, "start_argv": []}
    read |= {"each": [x | once | {"worker": x["row"]["value"]["id"]} for x in each]}
    return Evidence.model_validate(read)


def evidence(given: dict[str, Any]) -> dict[str, Any]:
    """The evidence of one worker, as JSON."""
    row = reading(ROW, given.get("row", {}))
    listed = [] if given.get("pod") == "gone" else [POD]
    mine = [row["value"]] if row["kind"] == "known" else []
    return {
        "worker": "w1", "taken_at": NOW.isoformat(), "row": row, "pod": pods(given),
        "pod_log": reading(None, given.get("log", [])), "ssh": reading(SSH, given.get("ssh", {})),
        "inside": reading(INSIDE, given.get("inside", {})), "stored_log": reading(None, given.get("stored")),
        "usual": reading({"image": "org/app:1"}, given.get("usual")),
        "orchestrator": orchestrator(given), "deployment": reading(None, given.get("deployment", "SUCCESS")),
        "service": given.get("service"), "newer": given.get("newer", []),
        "variables": reading({"names": []}, given.get("variables")), "tasks": reading(None, given.get("tasks", [])),
        "queued": reading(None, given.get("queued", 0)),
        "stock": reading({"gpu_type": "RTX 4090", "gpus": 1}, given.get("stock")),
        "workers": given.get("workers") or reading(None, [*mine, *given.get("others", [])]),
        "pods": reading(None, given.get("all_pods", listed)),
        "can_start": given.get("can_start", True), "start_argv": ["start"],
    }  # fmt: skip
