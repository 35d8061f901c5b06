"""Which process a signal has stopped, and what identifies it. Part of other probes; signals nobody."""

from typing import Any

from tasks.remote.probes.proc import boot_id, command, stat, status, uid


def halted(pid: "int | None", beside: "tuple[int, ...]" = ()) -> "dict[str, Any] | None":
    """Its identity while it is stopped by a signal (state T); None where it is not, or is gone."""
    now = stat(pid) if pid else None
    if now is None or now["state"] != "T":
        return None
    return {"pid": now["pid"], "start_ticks": now["start_ticks"], "boot_id": boot_id(), "uid": uid(now["pid"]),
            "command": command(now["pid"], now["state"], now["comm"]), "tracer": int(status(now["pid"]).get("TracerPid") or 0),
            "beside": sorted(beside)}  # fmt: skip


def still_halted(before: "dict[str, Any] | None") -> "dict[str, Any] | None":
    """The same process, stopped at this later look as well: one that is held for a moment only is not stopped."""
    now = halted(before["pid"], tuple(before["beside"])) if before else None
    return now if before and now and now["start_ticks"] == before["start_ticks"] else None
