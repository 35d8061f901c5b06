"""Reads every GPU over a window through NVML, in a child of the engine (NVML can hang). JSON in, JSON out.

Argument: window_s, samples. Answer: driver, cuda, gpus [{… samples, processes}], errors, or {"error", "code"} when NVML
itself does not come up. The only probe that needs a package (nvidia-ml-py), so it runs with the engine's own Python.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import pynvml as n

MODES = ("Default", "Exclusive_Thread", "Prohibited", "Exclusive_Process")
RECOVERY = ("None", "Reset", "Reboot", "Drain P2P", "Drain and Reset")  # nvmlDeviceGpuRecoveryAction_t
LOST = {n.NVML_ERROR_GPU_IS_LOST, n.NVML_ERROR_UNKNOWN, n.NVML_ERROR_RESET_REQUIRED, n.NVML_ERROR_TIMEOUT,
        n.NVML_ERROR_NO_PERMISSION}  # fmt: skip


def maybe(call: "Callable[..., Any]", *args: Any) -> Any:
    """The value, or None where this GPU or driver does not offer it. A lost GPU raises."""
    try:
        return call(*args)
    except n.NVMLError as e:
        if e.value in LOST:
            raise
        return None


def text(value: Any) -> str:
    """NVML text as str (old bindings give bytes)."""
    return value.decode() if isinstance(value, bytes) else str(value)


def memory(h: Any) -> "dict[str, Any]":
    """Total and used bytes without what the driver reserves (v2, as nvidia-smi shows it); v1 counts that as used."""
    try:
        m = n.nvmlDeviceGetMemoryInfo(h, n.nvmlMemory_v2)
        return {"total": m.total, "used": m.used, "reserved": m.reserved}
    except n.NVMLError as e:
        if e.value in LOST:
            raise
    m = n.nvmlDeviceGetMemoryInfo(h)
    return {"total": m.total, "used": m.used, "reserved": None}


def recovery(h: Any) -> str:
    """What the driver says the GPU needs (R565 and newer), or ""."""
    found = maybe(n.nvmlDeviceGetFieldValues, h, [n.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION])
    if not found or found[0].nvmlReturn != n.NVML_SUCCESS:
        return ""
    at = found[0].value.uiVal
    return RECOVERY[at] if at < len(RECOVERY) else "action %d" % at


def processes(h: Any) -> "dict[str, Any]":
    """Who holds memory by the driver's list; `error` when it gives none."""
    found = {}  # type: dict[int, dict[str, Any]]
    calls = (("C", n.nvmlDeviceGetComputeRunningProcesses), ("G", n.nvmlDeviceGetGraphicsRunningProcesses),
             ("M", n.nvmlDeviceGetMPSComputeRunningProcesses))  # fmt: skip
    for kind, call in calls:
        try:
            for p in call(h):
                found.setdefault(p.pid, {"pid": p.pid, "used": p.usedGpuMemory, "kind": kind})
        except n.NVMLError as e:
            if kind == "C":
                return {"error": str(e), "list": []}
    return {"error": "", "list": list(found.values())}


def sample(h: Any, at: float, seen: int) -> "tuple[dict[str, Any], dict[int, int], int]":
    """One look: utilisation, power, and SM utilisation by process newer than `seen` (driver's microseconds)."""
    rates, power = maybe(n.nvmlDeviceGetUtilizationRates, h), maybe(n.nvmlDeviceGetPowerUsage, h)
    each = maybe(n.nvmlDeviceGetProcessUtilization, h, seen) or []
    newest = max([seen] + [s.timeStamp for s in each])
    one = {"at_s": round(at, 3), "sm": rates.gpu if rates else None, "memory": rates.memory if rates else None,
           "power_w": power / 1000 if power is not None else None}  # fmt: skip
    return one, {s.pid: s.smUtil for s in each if s.timeStamp > seen}, newest


def describe(h: Any, index: int) -> "dict[str, Any]":
    """What a GPU is and how it stands at the end of the window."""
    pci, remap, mig = n.nvmlDeviceGetPciInfo(h), maybe(n.nvmlDeviceGetRemappedRows, h), maybe(n.nvmlDeviceGetMigMode, h)
    why, mode = maybe(n.nvmlDeviceGetCurrentClocksEventReasons, h), maybe(n.nvmlDeviceGetComputeMode, h)
    pstate, limit = maybe(n.nvmlDeviceGetPerformanceState, h), maybe(n.nvmlDeviceGetEnforcedPowerLimit, h)
    return {
        "index": index, "uuid": text(n.nvmlDeviceGetUUID(h)), "name": text(n.nvmlDeviceGetName(h)),
        "bus_id": text(pci.busId), "memory": memory(h), "processes": processes(h),
        "temperature": maybe(n.nvmlDeviceGetTemperature, h, 0), "pstate": "P%d" % pstate if pstate is not None else "",
        "clock": maybe(n.nvmlDeviceGetClockInfo, h, n.NVML_CLOCK_SM),
        "clock_max": maybe(n.nvmlDeviceGetMaxClockInfo, h, n.NVML_CLOCK_SM),
        "reasons": why,
        "ecc_uncorrected": maybe(n.nvmlDeviceGetTotalEccErrors, h, 1, 0),
        "ecc_corrected": maybe(n.nvmlDeviceGetTotalEccErrors, h, 0, 0), "remap": remap,
        "recovery": recovery(h), "power_limit_w": limit / 1000 if limit is not None else None,
        "mig": bool(mig[0]) if mig else None,
        "compute_mode": MODES[mode] if mode is not None and mode < len(MODES) else "",
    }  # fmt: skip


def bus_of(index: int) -> str:
    """Bus id of a GPU that may not answer much else, or ""."""
    try:
        return text(n.nvmlDeviceGetPciInfo(n.nvmlDeviceGetHandleByIndex(index)).busId)
    except n.NVMLError:
        return ""


def name_of(index: int) -> str:
    """Model of a GPU that may not answer much else, or ""."""
    try:
        return text(n.nvmlDeviceGetName(n.nvmlDeviceGetHandleByIndex(index)))
    except n.NVMLError:
        return ""


def window(ask: "dict[str, Any]", count: int) -> "dict[str, Any]":
    """All GPUs: samples over the window, then what each is; a GPU that fails becomes an error and is left alone."""
    began, gpus, errors = time.monotonic(), {}, []  # type: float, dict[int, dict[str, Any]], list[dict[str, Any]]
    handles = dict.fromkeys(range(count))  # type: dict[int, Any]
    many = max(1, int(ask["samples"]))
    for k in range(many):
        time.sleep(max(0.0, began + float(ask["window_s"]) * k / max(1, many - 1) - time.monotonic()))
        for i in list(handles):
            try:
                handles[i] = handles[i] or n.nvmlDeviceGetHandleByIndex(i)
                g = gpus.setdefault(i, {"samples": [], "sm_by_pid": {}, "seen": 0})
                one, each, g["seen"] = sample(handles[i], time.monotonic() - began, g["seen"])
                g["samples"].append(one)
                for pid, sm in each.items():
                    g["sm_by_pid"].setdefault(pid, []).append(sm)
                if k == many - 1:
                    g.update(describe(handles[i], i))
            except n.NVMLError as e:
                errors.append({"index": i, "bus_id": bus_of(i), "error": str(e), "name": name_of(i)})
                handles.pop(i)
                gpus.pop(i, None)
    return {"gpus": [gpus[i] for i in sorted(gpus)], "errors": errors}


def main(ask: "dict[str, Any]") -> "dict[str, Any]":
    """The whole reading."""
    try:
        n.nvmlInit()
        cuda = maybe(n.nvmlSystemGetCudaDriverVersion)
        head = {
            "driver": text(n.nvmlSystemGetDriverVersion()),
            "cuda": "%d.%d" % (cuda // 1000, cuda % 1000 // 10) if cuda else "",
        }
        return dict(head, **window(ask, n.nvmlDeviceGetCount()))
    except n.NVMLError as e:
        return {"error": str(e), "code": e.value}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
