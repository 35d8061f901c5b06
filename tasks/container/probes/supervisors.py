"""Finds what else restarts a container: scripts that loop, systemd units, cron. JSON argument: {name, id}."""

import glob
import json
import os
import re
import sys
import time
from typing import Any

from tasks.container.probes.owners import STARTS, VERB, foreground, scripts, speaks
from tasks.container.probes.supervisord import supervisord
from tasks.container.probes.units import units, user_units
from tasks.remote.probes.proc import MARK, ancestors, cgroup, command, link, pids, read, stat

INTERPRETERS = re.compile(r"(sh|bash|dash|ash|zsh|ksh|python[\d.]*|perl)\Z")
TABLES = ("/etc/crontab", "/etc/cron.d/*", "/var/spool/cron/*", "/var/spool/cron/crontabs/*")
CRONS = ("cron", "crond", "fcron", "anacron")


FORK_S = 0.3  # a shell between fork and exec shows another command line


def acts_on(text: str, ask: "dict[str, Any]") -> bool:
    """True when a script starts or enters the container in a loop."""
    return bool(any(speaks(text, ask)) and VERB.search(text) and re.search(r"\b(while|until|for)\b", text))


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


def loops(ask: "dict[str, Any]") -> "list[dict[str, Any]]":
    """Scripts on the host that act on the container in a loop."""
    found, mine, ident = [], ancestors(), ask["id"]
    for pid in pids():
        now = stat(pid)
        if now is None or pid in mine or now["state"] in "ZX" or (ident and ident in cgroup(pid)):
            continue
        path, text = script(pid)
        if path and MARK not in text and acts_on(text + "\n" + link("/proc/%d/cwd" % pid), ask):
            found.append({"kind": "retry-loop", "name": path, "pid": pid, "start_ticks": now["start_ticks"],
                          "command": command(pid, now["state"], now["comm"])[:500], "unit": unit_of(pid),
                          "parent": now["ppid"]})  # fmt: skip
    return without_forks(found)


def without_forks(found: "list[dict[str, Any]]") -> "list[dict[str, Any]]":
    """Without what a script has forked for one command and is gone a moment later: it bears the script's name until it runs that."""
    scripts_ = {row["pid"] for row in found}
    if any(row["parent"] in scripts_ for row in found):
        time.sleep(FORK_S)
    kept = []
    for row in found:
        now = stat(row["pid"])
        same = now is not None and now["start_ticks"] == row["start_ticks"] and script(row["pid"])[0] == row["name"]
        if row.pop("parent") not in scripts_ or same:
            kept.append(row)
    return kept


def unit_of(pid: int) -> "tuple[str, int | None]":
    """The unit that the process belongs to, and the user whose systemd runs it (None: the machine's)."""
    path = cgroup(pid)
    unit, user = re.findall(r"/([^/]+\.service)(?=/|$)", path), re.search(r"/user@(\d+)\.service/", path)
    return (unit[-1] if unit else "", int(user.group(1)) if user else None)


def cron(ask: "dict[str, Any]") -> "list[dict[str, Any]]":
    """Lines of cron that start it, where a cron daemon runs."""
    if not any(now and now["comm"] in CRONS for now in map(stat, pids())):
        return []
    found = []
    for path in sorted(p for pattern in TABLES for p in glob.glob(pattern) if os.path.isfile(p)):
        for line in (read(path) or "").splitlines():
            whole = scripts(line)
            if not line.lstrip().startswith("#") and any(speaks(whole, ask)) and STARTS.search(whole):
                found.append({"kind": "cron", "name": path, "pid": None, "start_ticks": None, "command": line[:500]})
    return found


def main(ask: "dict[str, Any]") -> "dict[str, Any]":
    """Loops, units of the machine and of its users, programs of supervisord, lines of cron, Compose in the foreground."""
    known = units(ask) + user_units(ask)
    theirs = {(row["name"], row.get("uid")) for row in known if not row.get("rests")}
    own = [row for row in loops(ask) if row.pop("unit") not in theirs]  # a loop that a unit would start again ends with it
    return {"found": own + known + supervisord(ask) + cron(ask) + foreground(ask)}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
