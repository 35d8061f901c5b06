"""Finds systemd units whose commands start a container: what they do now, and what starts them. Part of a probe."""

import glob
import os
import re
import subprocess
import time
from typing import Any

from tasks.probes.proc import read

VERB = re.compile(r"\b(docker|podman|nerdctl)\b[^\n]*\b(exec|start|restart|run)\b")
FILES = ("/etc/systemd/system/*.service", "/run/systemd/system/*.service", "/run/systemd/generator*/*.service",
         "/usr/local/lib/systemd/system/*.service", "/usr/lib/systemd/system/*.service")  # fmt: skip
FACTS = ("ActiveState", "SubState", "UnitFileState", "NRestarts", "Result", "Restart")
MORE = ("InvocationID", "Job", "TriggeredBy", "UpheldBy", "WantedBy", "RequiredBy", "ActiveExitTimestampMonotonic")
IDLE = ("inactive", "failed")
BOOTS = ("enabled", "enabled-runtime", "generated", "linked", "linked-runtime", "alias", "indirect")


def speaks_of(text: str, name: str, ident: str) -> "tuple[bool, bool]":
    """Whether the text speaks of the container by its name, and by its id."""
    by_name = re.search(r"(?<![\w.-])%s(?![\w.-])" % re.escape(name), text) is not None
    return by_name, bool(ident) and re.search(r"(?<![0-9a-f])%s" % re.escape(ident[:12]), text) is not None


def systemctl(*words: str) -> "str | None":
    """What it says; None when it can't be asked."""
    try:
        done = subprocess.run(["systemctl", *words], capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return None if done.returncode else done.stdout


def scripts(text: str) -> str:
    """The text and that of the scripts that it runs."""
    paths = re.findall(r"(?:^|[=\s])[-@:+!]*(/[\w./@-]+)", text)
    found = [read(p, 1 << 16) or "" for p in dict.fromkeys(paths) if os.path.isfile(p)]
    return "\n".join([text, *(x for x in found if x.startswith("#!"))])


def unit_commands() -> "dict[str, str]":
    """Commands of each unit: from the files, and as systemd has read them (drop-ins and templates are filled in there)."""
    found: "dict[str, str]" = {}
    for path in sorted(p for pattern in FILES for p in glob.glob(pattern)):
        lines = [x for x in (read(path) or "").splitlines() if x.startswith(("ExecStart=", "ExecStartPre=", "Restart="))]
        if not path.endswith("@.service"):
            found[os.path.basename(path)] = "\n".join(lines)
    for block in (systemctl("show", "-p", "Id,ExecStartPre,ExecStart", "*.service") or "").split("\n\n"):
        unit = re.search(r"^Id=(.+)", block, re.M)
        argv = re.findall(r"^(ExecStart\w*)=.*?argv\[\]=(.*?) ;", block, re.M)
        if unit and argv and unit.group(1) not in found:
            found[unit.group(1)] = "\n".join("%s=%s" % pair for pair in argv)
    return found


def unit_facts(unit: str) -> "dict[str, str]":
    """What systemd says of it now; {} when it can't be asked."""
    said = systemctl("show", "-p", ",".join((*FACTS, *MORE)), "--", unit) or ""
    return dict(line.split("=", 1) for line in said.splitlines() if "=" in line) if "ActiveState=" in said else {}


def left_at(now: "dict[str, str]") -> "float | None":
    """Unix time at which it last left its active state, by itself or on request; None: never in this boot."""
    ticks = now.get("ActiveExitTimestampMonotonic", "")
    if not ticks.isdigit() or ticks == "0":
        return None
    return time.time() - time.clock_gettime(time.CLOCK_MONOTONIC) + int(ticks) / 1e6


def unit_row(unit: str, now: "dict[str, str]", text: str, **more: Any) -> "dict[str, Any]":
    """A supervisor as it is reported."""
    said = ", ".join("%s %s" % (k, now[k]) for k in FACTS if now.get(k))
    return {"kind": "systemd", "name": unit, "pid": None, "start_ticks": None, "life": "", "command":
            ("%s; %s" % (said, text) if said else text)[:500], **more}  # fmt: skip


def of_unit(unit: str, text: str, by_id: bool) -> "list[dict[str, Any]]":
    """The unit, if it acts on the container now or will, and the timers, paths and sockets that start it."""
    now = unit_facts(unit)
    if not now:
        return [unit_row(unit, now, text)]
    active = now["ActiveState"] not in IDLE and now.get("SubState") != "exited"
    starters = [(t, unit_facts(t)) for t in now.get("TriggeredBy", "").split()]
    found = [unit_row(t, f, "it starts %s" % unit, life=f.get("InvocationID", "")) for t, f in starters
             if f.get("ActiveState", "active") not in IDLE]  # fmt: skip
    if active or now.get("Job", "0") not in ("", "0") or now.get("UpheldBy"):
        return [unit_row(unit, now, text, life=now.get("InvocationID", "") if active else ""), *found]
    pulled = now.get("UnitFileState") == "static" and (now.get("WantedBy") or now.get("RequiredBy"))
    boots = now.get("UnitFileState") in BOOTS or bool(pulled) or now.get("SubState") == "exited"
    if boots or left_at(now):
        found.append(unit_row(unit, now, text, rests=not (boots and by_id), boots=boots, left_at=left_at(now)))
    return found


def units(name: str, ident: str) -> "list[dict[str, Any]]":
    """systemd units whose commands start the container, by its name or its id."""
    found = []
    for unit, text in sorted(unit_commands().items()):
        whole = scripts(text)
        by_name, by_id = speaks_of(whole, name, ident)
        if (by_name or by_id) and VERB.search(whole):
            found += of_unit(unit, text, by_id)
    return found
