"""Finds what else restarts a container: scripts that loop, systemd units, cron. JSON argument: {name, id}."""

import glob
import json
import os
import re
import sys
from typing import Any

from tasks.probes.proc import MARK, ancestors, cgroup, command, link, pids, read, stat
from tasks.probes.units import VERB, scripts, speaks_of, units

INTERPRETERS = re.compile(r"(sh|bash|dash|ash|zsh|ksh|python[\d.]*|perl)\Z")
STARTS = re.compile(r"\b(docker|podman|nerdctl)\b[^\n]*\b(start|restart|run)\b")
TABLES = ("/etc/crontab", "/etc/cron.d/*", "/var/spool/cron/*", "/var/spool/cron/crontabs/*")
CRONS = ("cron", "crond", "fcron", "anacron")


def acts_on(text: str, name: str, ident: str) -> bool:
    """True when a script starts or enters the container in a loop."""
    return bool(any(speaks_of(text, name, ident)) and VERB.search(text) and re.search(r"\b(while|until|for)\b", text))


def script(pid: int) -> "tuple[str, str]":
    """Name and text of the script that the process runs ("" when it runs none that can be read)."""
    raw = (read("/proc/%d/cmdline" % pid) or "").split("\0")
    tool = os.path.basename(raw[0]).lstrip("-")
    if not INTERPRETERS.match(tool):
        return "", ""
    if "-c" in raw:
        after = raw[raw.index("-c") + 1 :]
        return tool + " -c", after[0] if after else ""
    paths = [a for a in raw[1:] if a and not a.startswith("-")]
    if not paths:
        return "", ""
    own = re.match(r"/dev/(?:fd/(\d+)|(stdin))$", paths[0])  # of that process, not of this one
    if own:
        return paths[0], read("/proc/%d/fd/%s" % (pid, own.group(1) or 0)) or ""
    path = paths[0] if paths[0].startswith("/") else os.path.join(link("/proc/%d/cwd" % pid), paths[0])
    return path, read("/proc/%d/root%s" % (pid, path)) or read(path) or ""


def loops(name: str, ident: str) -> "list[dict[str, Any]]":
    """Scripts on the host that act on the container in a loop."""
    found, mine = [], ancestors()
    for pid in pids():
        now = stat(pid)
        if now is None or pid in mine or now["state"] in "ZX" or (ident and ident in cgroup(pid)):
            continue
        path, text = script(pid)
        if path and MARK not in text and acts_on(text, name, ident):
            found.append({"kind": "retry-loop", "name": path, "pid": pid, "start_ticks": now["start_ticks"],
                          "command": command(pid, now["state"], now["comm"])[:500]})  # fmt: skip
    return found


def cron(name: str, ident: str) -> "list[dict[str, Any]]":
    """Lines of cron that start it, where a cron daemon runs."""
    if not any(now and now["comm"] in CRONS for now in map(stat, pids())):
        return []
    found = []
    for path in sorted(p for pattern in TABLES for p in glob.glob(pattern) if os.path.isfile(p)):
        for line in (read(path) or "").splitlines():
            whole = scripts(line)
            if not line.lstrip().startswith("#") and any(speaks_of(whole, name, ident)) and STARTS.search(whole):
                found.append({"kind": "cron", "name": path, "pid": None, "start_ticks": None, "command": line[:500]})
    return found


def main(ask: "dict[str, Any]") -> "dict[str, Any]":
    """Loops, units and lines of cron."""
    return {"found": loops(ask["name"], ask["id"]) + units(ask["name"], ask["id"]) + cron(ask["name"], ask["id"])}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
