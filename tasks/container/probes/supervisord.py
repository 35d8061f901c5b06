"""Finds programs of a running supervisord that start a container. Part of a probe; changes nothing."""

import configparser
import glob
import os
import re
import subprocess
from typing import Any

from tasks.container.probes.owners import STARTS, scripts, speaks
from tasks.remote.probes.proc import link, pids, read, stat

PLACES = ("/etc/supervisor/supervisord.conf", "/etc/supervisord.conf", "/etc/supervisor.conf")
AT_REST = ("STOPPED", "EXITED", "FATAL", "UNKNOWN")


def config_of(pid: int) -> str:
    """The file that this supervisord runs by, "" when it does not tell and stands in no usual place."""
    words = (read("/proc/%d/cmdline" % pid) or "").split("\0")
    for n, word in enumerate(words):
        given = re.match(r"(?:--configuration=|-c(?=.))(.+)", word)
        path = given.group(1) if given else words[n + 1] if word in ("-c", "--configuration") and n + 1 < len(words) else ""
        if path:
            return os.path.join(link("/proc/%d/cwd" % pid), path)
    return next((p for p in PLACES if os.path.isfile(p)), "")


def sections(path: str) -> "dict[str, dict[str, str]]":
    """Programs of the file and of those that it includes."""
    parser = configparser.RawConfigParser(strict=False)
    parser.read_string(read(path, 1 << 20) or "")
    more = parser.get("include", "files", fallback="").split()
    for pattern in more:
        for other in sorted(glob.glob(os.path.join(os.path.dirname(path), pattern.replace("%(here)s", os.path.dirname(path))))):
            parser.read_string(read(other, 1 << 20) or "")
    return {s[8:]: dict(parser[s]) for s in parser.sections() if s.startswith("program:")}


def state_of(path: str, program: str) -> str:
    """What supervisorctl says of it, "" when it can't be asked."""
    try:
        done = subprocess.run(["supervisorctl", "-c", path, "status", program], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, timeout=4, check=False)  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return ""
    words = done.stdout.decode("utf-8", "replace").split()
    return words[1] if len(words) > 1 and words[0].split(":")[0] == program else ""


def supervisord(ask: "dict[str, Any]") -> "list[dict[str, Any]]":
    """Its programs that start the container; one that is stopped rests."""
    found = []
    for pid in pids():
        now = stat(pid)
        if now is None or now["comm"] != "supervisord" or now["state"] in "ZX":
            continue
        path = config_of(pid)
        try:
            programs = sections(path)
        except configparser.Error:
            continue
        for name, fields in programs.items():
            text = "command=%s\nWorkingDirectory=%s" % (fields.get("command", ""), fields.get("directory", ""))
            whole = scripts(text)
            if any(speaks(whole, ask)) and STARTS.search(whole):
                state = state_of(path, name)
                again = "autorestart=%s" % fields.get("autorestart", "unexpected")
                said = ", ".join(x for x in (state, again, text.split("\n")[0], path) if x)
                found.append({"kind": "supervisord", "name": "program %s of supervisord" % name, "pid": None,
                              "start_ticks": None, "command": said[:500], "rests": state in AT_REST})  # fmt: skip
    return found
