"""Finds what else restarts a container: shell loops and systemd units that name it. JSON argument: {name, id}."""

import glob
import json
import os
import re
import subprocess
import sys
from typing import Any

from tasks.probes.proc import MARK, ancestors, cgroup, command, link, pids, read, stat

SHELLS = ("sh", "bash", "dash", "ash", "zsh", "ksh")
VERB = re.compile(r"\b(docker|podman|nerdctl)\b[^\n]*\b(exec|start|restart|run)\b")
UNITS = ("/etc/systemd/system/*.service", "/run/systemd/system/*.service", "/usr/lib/systemd/system/*.service")


def acts_on(text: str, name: str) -> bool:
    """True when a script starts or enters the container in a loop."""
    named = re.search(r"(?<![\w.-])%s(?![\w.-])" % re.escape(name), text)
    return bool(named and VERB.search(text) and re.search(r"\b(while|until|for)\b", text))


def script(pid: int) -> "tuple[str, str]":
    """Name and text of the shell script that the process runs ("" when it runs none that can be read)."""
    raw = (read("/proc/%d/cmdline" % pid) or "").split("\0")
    if os.path.basename(raw[0]).lstrip("-") not in SHELLS:
        return "", ""
    if "-c" in raw:
        after = raw[raw.index("-c") + 1 :]
        return "sh -c", after[0] if after else ""
    paths = [a for a in raw[1:] if a and not a.startswith("-")]
    if not paths:
        return "", ""
    path = paths[0] if paths[0].startswith("/") else os.path.join(link("/proc/%d/cwd" % pid), paths[0])
    return path, read("/proc/%d/root%s" % (pid, path)) or read(path) or ""


def loops(name: str, ident: str) -> "list[dict[str, Any]]":
    """Shell loops on the host that act on the container."""
    found, mine = [], ancestors()
    for pid in pids():
        now = stat(pid)
        if now is None or pid in mine or now["state"] in "ZX" or (ident and ident in cgroup(pid)):
            continue
        path, text = script(pid)
        if path and MARK not in text and acts_on(text, name):
            found.append({"kind": "retry-loop", "name": path, "pid": pid, "start_ticks": now["start_ticks"],
                          "command": command(pid, now["state"], now["comm"])[:500]})  # fmt: skip
    return found


def units(name: str) -> "list[dict[str, Any]]":
    """systemd units whose commands start the container."""
    found = []
    for path in sorted(p for pattern in UNITS for p in glob.glob(pattern)):
        lines = [x for x in (read(path) or "").splitlines() if x.startswith(("ExecStart=", "Restart="))]
        text = "\n".join(lines)
        if re.search(r"(?<![\w.-])%s(?![\w.-])" % re.escape(name), text) and VERB.search(text):
            unit = os.path.basename(path)
            now = at_work(unit)
            if now is not None:
                life = now.pop("InvocationID", "") if now.get("ActiveState") not in ("inactive", "failed") else ""
                said = ", ".join("%s %s" % pair for pair in sorted(now.items()) if pair[0] != "InvocationID")
                found.append({"kind": "systemd", "name": unit, "pid": None, "start_ticks": None, "life": life,
                              "command": ("%s; %s" % (said, text) if said else text)[:500]})  # fmt: skip
    return found


def at_work(unit: str) -> "dict[str, str] | None":
    """What systemd says of the unit; None when it neither runs nor starts at a boot, {} when systemd can't be asked."""
    argv = ["systemctl", "show", "-p", "ActiveState,SubState,UnitFileState,NRestarts,InvocationID", "--", unit]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    said = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    if done.returncode or "ActiveState" not in said:
        return {}
    idle = said["ActiveState"] in ("inactive", "failed") and said.get("UnitFileState") in ("disabled", "static", "")
    return None if idle else said


def main(ask: "dict[str, Any]") -> "dict[str, Any]":
    """Loops and units."""
    return {"found": loops(ask["name"], ask["id"]) + units(ask["name"])}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
