"""Evidence of a node from few words: a healthy idle H100 node, changed by what a situation names."""

from datetime import UTC, datetime, timedelta
from itertools import cycle
from typing import Any

from runbooks.core.knowledge import load_runbook
from runbooks.core.verdict import Diagnosis
from runbooks.gpu.diagnose import Limits, diagnose
from runbooks.gpu.evidence import Evidence

AT = datetime(2026, 11, 27, 22, 5, tzinfo=UTC)
UUID = "GPU-5a3c1e90-0000-4000-8000-00000000000{}"
GIB = 1 << 30
RESERVE = 503316480  # NVML counts it as used on an idle H100
TICKS = 100_000


def limits(**over: Any) -> Limits:
    """The limits of runbook.yaml."""
    return Limits(**load_runbook("zombie-gpu").limit_values(over))


def judge(evidence: Evidence, **over: Any) -> Diagnosis:
    """The diagnosis by the limits of runbook.yaml."""
    return diagnose(evidence, limits(**over))


def evidence(situation: dict[str, Any]) -> Evidence:
    """A situation's words as evidence. Keys left out mean: read, and nothing there."""
    s = dict(situation)
    unknown: dict[str, str] = s.pop("unknown", {})
    absent: dict[str, str] = s.pop("absent", {})
    data: dict[str, Any] = {
        "node": s.pop("node", "node-a"),
        "taken_at": AT,
        "window_s": s.pop("window_s", 6.0),
        "gpu_words": s.pop("gpu_words", []),
        "must_have": s.pop("must_have", None),
        "facts": _known({**FACTS, **s.pop("facts", {})}),
        "gpus": _known(_gpu_set(s)),
        "processes": _known([_process(p) for p in s.pop("processes", [])]),
        "device_holders": _known(s.pop("device_holders", [])),
        "kernel_words": _known(_words(s.get("kernel", []))),
        "kernel": _known([found for k in s.pop("kernel", []) if (found := _kernel(k))]),
        "leader": _known(_leader(s.pop("leader"))) if "leader" in s else _absent("no leader in the fleet file"),
        "progress": _known([_mark(m) for m in s.pop("progress", [])]),
        "earlier": _known(_earlier(s.pop("earlier"))) if "earlier" in s else _absent("no earlier report"),
        "containers": _known(s.pop("containers")) if "containers" in s else _absent("no container runtime"),
        "inside": _known([_inside(i) for i in s.pop("inside", [])]),
        "elsewhere": _known([_there(e) for e in s.pop("elsewhere")]) if "elsewhere" in s else _absent("all ranks are here"),
        "jobs": [_job(j) for j in s.pop("jobs", [])],
        "hands_off": s.pop("hands_off", False),
    }
    for name, words in unknown.items():
        reason, _, detail = words.partition(": ")
        data[name] = {"kind": "unknown", "reason": reason, "detail": detail}
        if name == "kernel":  # one log
            data["kernel_words"] = data[name]
    data |= {name: _absent(proof) for name, proof in absent.items()}
    assert not s, f"unknown keys in the situation: {sorted(s)}"
    return Evidence.model_validate(data)


def _inside(words: dict[str, Any]) -> dict[str, Any]:
    """A container's other processes: `most` as pid -> what moved; those left out moved nothing."""
    still = {"command": "sleep infinity", "cpu_window_s": 0.0, "io_window_bytes": 0, "sockets_moved_bytes": None}
    most = [still | {"pid": pid, "start_ticks": TICKS + pid} | (over or {}) for pid, over in words.get("most", {}).items()]
    return {"others": len(most)} | words | {"most": most}


def _there(words: dict[str, Any]) -> dict[str, Any]:
    """Another node: `unread` says why it could not be read."""
    if "unread" in words:
        no = {"kind": "unknown", "reason": words["unread"]}
        return {"node": words["node"], "facts": no, "gpus": no, "processes": no}
    ranks = [_process(p) for p in words["processes"]]
    return {
        "node": words["node"], "window_s": 6.0, "facts": _known(FACTS | {"hostname": words["node"]}),
        "gpus": _known(_gpu_set({"gpus": [{"holders": {p["pid"]: 40}} for p in ranks]})), "processes": _known(ranks),
    }  # fmt: skip


FACTS = {"boot_id": "boot-1", "uptime_s": 90_000.0, "in_container": False, "root": True, "hostname": "node-a"}


def _known(value: Any) -> dict[str, Any]:
    return {"kind": "known", "value": value}


def _absent(proof: str) -> dict[str, Any]:
    return {"kind": "absent", "proof": proof}


def _gpu_set(s: dict[str, Any]) -> dict[str, Any]:
    gpus = [_gpu(i, g) for i, g in enumerate(s.pop("gpus", [{}]))]
    return {"gpus": gpus, "errors": s.pop("errors", []), "pci_count": s.pop("pci_count", len(gpus))}


def _gpu(index: int, words: dict[str, Any]) -> dict[str, Any]:
    """`use`: SM samples; `traffic`: memory per cent; `power`: watts; `holders`: {pid: GiB or null} or "unresolved"."""
    g = dict(words)
    use, traffic, power = g.pop("use", [0] * 6), g.pop("traffic", 0), g.pop("power", [78.0])
    holders = g.pop("holders", {})
    sm: dict[int, list[float]] = g.pop("sm", {})
    own = g.get("memory_reserved_bytes", RESERVE) or 0  # a driver that does not tell its reserve did not count it either (V100, 440)
    found = {
        "index": index,
        "uuid": UUID.format(index + 1),
        "name": "NVIDIA H100 80GB HBM3",
        "bus_id": f"00000000:{6 + index:02x}:00.0",
        "memory_total_bytes": 85520809984,
        "memory_used_bytes": int(g.pop("used_gib", 0) * GIB) or own,
        "memory_reserved_bytes": RESERVE,
        "samples": [
            {"at_s": i * 0.5, "sm_percent": u, "memory_percent": traffic, "power_w": w}
            for i, (u, w) in enumerate(zip(use, cycle(power or [None]), strict=False))
        ],
        "mig": False,
        "power_limit_w": 700.0,
    }
    if holders == "unresolved":
        found["processes"] = {"kind": "unknown", "reason": "denied", "detail": "empty process table"}
    else:
        rows = [
            {"pid": pid, "used_bytes": None if gib is None else int(gib * GIB), "sm_percent": sm.get(pid, [])}
            for pid, gib in holders.items()
        ]
        found["processes"] = _known(rows)
        if "memory_used_bytes" not in words and "used_gib" not in words:
            found["memory_used_bytes"] = own + sum(r["used_bytes"] or 0 for r in rows)
    return found | g


def _process(words: dict[str, Any]) -> dict[str, Any]:
    """All was read, and nothing moved; `works: true` uses CPU. `run: null`: its environment was not read, {}: it names no run."""
    p = dict(words)
    pid = p["pid"]
    still = {"cpu_window_s": 0.0, "io_window_bytes": 0, "sockets_moved_bytes": 0}
    base = {
        "start_ticks": TICKS + pid, "age_s": 7200.0, "state": "S", "ppid": 420, "pgid": pid, "sid": 418, "uid": 1000,
        "user": "lab", "command": "python3 /srv/job/train_selfplay.py", "cgroup": "/user.slice/session-4.scope",
        "cpu_s": 60.0, "read_bytes": 1000, "written_bytes": 1000, "nvidia_fds": [], "torch": "2.8.0+cu128",
        "run": {},
    }  # fmt: skip
    found = base | still | ({"cpu_window_s": 3.8} if p.pop("works", False) else {}) | p
    found.setdefault("states", [found["state"]] * 2)
    return found


def _words(lines: list[dict[str, Any] | str]) -> tuple[str, ...]:
    from runbooks.gpu.parsers.kernel_log import failures_in_words

    return failures_in_words("\n".join(x if isinstance(x, str) else f"[{x['at_s']:.6f}] {x['line']}" for x in lines))


def _kernel(words: dict[str, Any] | str) -> dict[str, Any]:
    """A raw line, or one with `at_s`, read by the real parser."""
    from runbooks.gpu.parsers.kernel_log import parse_kernel_log

    raw = words if isinstance(words, str) else f"[{words['at_s']:.6f}] {words['line']}"
    line = next(iter(parse_kernel_log(raw)), None)
    return {} if line is None else {
        "at_s": line.at_s, "text": line.text, "xid": line.xid, "bus_id": line.bus_id, "pid": line.pid,
        "process": line.process,
    }  # fmt: skip


def _leader(words: dict[str, Any]) -> dict[str, Any]:
    """`peers`: {name: [jobs, GPU per cent, heartbeat age]}."""
    found = {"node_id": "lead", "is_leader": True, "url": "http://lead:8770", **words}
    rows = found["peers"].items()
    found["peers"] = [{"node": n, "jobs": j, "gpu_percent": g, "last_seen_s": s} for n, (j, g, s) in rows]
    return found


def _mark(words: dict[str, Any]) -> dict[str, Any]:
    return {"job": "train", "kind": "files", "path": "/srv/job/steps.log", "unit": "bytes", **words}


def _earlier(words: dict[str, Any]) -> dict[str, Any]:
    """`ago_s`; `processes`: {pid: {…}} with the counters of _process unless said otherwise."""
    e = dict(words)
    at = AT - timedelta(seconds=e.pop("ago_s"))
    rows = [
        {"pid": pid, "start_ticks": TICKS + pid, "state": "S", "cpu_s": 60.0, "io_bytes": 2000, **(over or {})}
        for pid, over in e.pop("processes", {}).items()
    ]
    marks = [_mark(m) for m in e.pop("progress", [])]
    return {"taken_at": at, "boot_id": "boot-1", "report": "r-1", "processes": rows, "progress": marks, **e}


def _job(words: dict[str, Any]) -> dict[str, Any]:
    base = {"name": "train", "kind": "training", "restart": [], "warm_up_s": 600.0, "progress_configured": False}
    return base | words
