"""Finds systemd units whose commands start a container: what they do now, and what starts them. Part of a probe."""

import glob
import os
import pwd
import re
import subprocess
import time
from typing import Any

from tasks.container.probes.owners import VERB, scripts, speaks
from tasks.remote.probes.proc import read

FILES = ("/etc/systemd/system/*.service", "/run/systemd/system/*.service", "/run/systemd/generator*/*.service",
         "/usr/local/lib/systemd/system/*.service", "/usr/lib/systemd/system/*.service")  # fmt: skip
USER_FILES = ("HOME/.config/systemd/user/*.service", "HOME/.local/share/systemd/user/*.service", "/etc/systemd/user/*.service",
              "RUN/systemd/user/*.service", "RUN/systemd/generator*/*.service", "RUN/systemd/transient/*.service")  # fmt: skip
LINES = ("ExecStart=", "ExecStartPre=", "Restart=", "WorkingDirectory=")
FACTS = ("ActiveState", "SubState", "UnitFileState", "NRestarts", "Result", "Restart")
MORE = ("InvocationID", "Job", "TriggeredBy", "UpheldBy", "WantedBy", "RequiredBy", "ActiveExitTimestampMonotonic")
IDLE = ("inactive", "failed")
BOOTS = ("enabled", "enabled-runtime", "generated", "linked", "linked-runtime", "alias", "indirect")


def systemctl(*words: str, uid: "int | None" = None, limit_s: float = 5) -> "str | None":
    """What it says, or what that user's own systemd says; None when it can't be asked."""
    argv, more = ["systemctl", *words], {}  # type: tuple[list[str], dict[str, Any]]
    if uid is not None:
        argv.insert(1, "--user")
        more["env"] = dict(os.environ, XDG_RUNTIME_DIR="/run/user/%d" % uid, DBUS_SESSION_BUS_ADDRESS="")
        more["preexec_fn"] = (lambda: become(uid)) if uid != os.geteuid() else None
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=limit_s,
                              **more)  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return None if done.returncode else done.stdout.decode("utf-8", "replace")


def become(uid: int) -> None:
    """In a child only: that user, who alone may ask their systemd."""
    os.setgid(pwd.getpwuid(uid).pw_gid)
    os.setuid(uid)


def asked(words: "tuple[str, ...]", uid: "int | None") -> str:
    """systemctl's words, "" when it can't be asked."""
    return (systemctl(*words) if uid is None else systemctl(*words, uid=uid)) or ""


def managers() -> "list[tuple[int, str, tuple[str, ...]]]":
    """(uid, name, unit files) of users whose own systemd runs and may be asked: logged in, or lingering."""
    found = []
    for path in sorted(glob.glob("/run/user/*/systemd/private")):
        uid = int(path.split("/")[3]) if path.split("/")[3].isdigit() else -1
        try:
            who = pwd.getpwuid(uid)
        except (KeyError, OverflowError):
            continue
        if os.geteuid() in (0, uid):
            run = "/run/user/%d" % uid
            found.append((uid, who.pw_name, tuple(f.replace("HOME", who.pw_dir).replace("RUN", run) for f in USER_FILES)))
    return found


def unit_commands(files: "tuple[str, ...]" = (), uid: "int | None" = None) -> "dict[str, str]":
    """Commands of each unit: from the files, and as systemd has read them (drop-ins and templates are filled in there)."""
    found: "dict[str, str]" = {}
    for path in sorted(p for pattern in files or FILES for p in glob.glob(pattern)):
        lines = [x for x in (read(path) or "").splitlines() if x.startswith(LINES)]
        if not path.endswith("@.service"):
            found[os.path.basename(path)] = "\n".join(lines)
    for block in asked(("show", "-p", "Id,ExecStartPre,ExecStart,WorkingDirectory", "*.service"), uid).split("\n\n"):
        unit = re.search(r"^Id=(.+)", block, re.M)
        argv = re.findall(r"^(ExecStart\w*)=.*?argv\[\]=(.*?) ;", block, re.M)
        argv += re.findall(r"^(WorkingDirectory)=!?(/.*)", block, re.M)
        if unit and argv:  # a name that is made of specifiers (%N) stands only here
            more = "\n".join("%s=%s" % pair for pair in argv)
            own = found.get(unit.group(1), "")
            found[unit.group(1)] = own if own and "%" not in own else "\n".join(x for x in (own, more) if x)
    return found


def unit_facts(unit: str, uid: "int | None" = None) -> "dict[str, str]":
    """What systemd says of it now; {} when it can't be asked."""
    said = asked(("show", "-p", ",".join((*FACTS, *MORE)), "--", unit), uid)
    return dict(line.split("=", 1) for line in said.splitlines() if "=" in line) if "ActiveState=" in said else {}


def left_at(now: "dict[str, str]") -> "float | None":
    """Unix time at which it last left its active state, by itself or on request; None: never in this boot."""
    ticks = now.get("ActiveExitTimestampMonotonic", "")
    if not ticks.isdigit() or ticks == "0":
        return None
    return time.time() - time.clock_gettime(time.CLOCK_MONOTONIC) + int(ticks) / 1e6


def unit_row(unit: str, now: "dict[str, str]", text: str, **more: Any) -> "dict[str, Any]":
    """A supervisor as it is reported."""
    said, text = ", ".join("%s %s" % (k, now[k]) for k in FACTS if now.get(k)), text.replace("\n", "; ")
    return {"kind": "systemd", "name": unit, "pid": None, "start_ticks": None, "life": "", "restart": now.get("Restart", ""), "command":
            ("%s; %s" % (said, text) if said else text)[:500], **more}  # fmt: skip


def of_unit(unit: str, text: str, by_id: bool, uid: "int | None" = None) -> "list[dict[str, Any]]":
    """The unit, if it acts on the container now or will, and the timers, paths and sockets that start it."""
    now = unit_facts(unit, uid)
    if not now:
        return [unit_row(unit, now, text)]
    active = now["ActiveState"] not in IDLE and now.get("SubState") != "exited"
    starters = [(t, unit_facts(t, uid)) for t in now.get("TriggeredBy", "").split()]
    found = [unit_row(t, f, "it starts %s" % unit, life=f.get("InvocationID", "")) for t, f in starters
             if f.get("ActiveState", "active") not in IDLE]  # fmt: skip
    if active or now.get("Job", "0") not in ("", "0") or now.get("UpheldBy"):
        return [unit_row(unit, now, text, life=now.get("InvocationID", "") if active else ""), *found]
    pulled = now.get("UnitFileState") == "static" and (now.get("WantedBy") or now.get("RequiredBy"))
    boots = now.get("UnitFileState") in BOOTS or bool(pulled) or now.get("SubState") == "exited"
    if boots or left_at(now):
        found.append(unit_row(unit, now, text, rests=not (boots and by_id), boots=boots, left_at=left_at(now)))
    return found


def units(ask: "dict[str, Any]", files: "tuple[str, ...]" = (), uid: "int | None" = None) -> "list[dict[str, Any]]":
    """systemd units whose commands start the container: by its name, its id, its project, or by its own label."""
    found = []
    for unit, text in sorted(unit_commands(files, uid).items()):
        whole = scripts(text)
        by_name, by_id = speaks(whole, ask)
        if unit == ask.get("unit") or ((by_name or by_id) and VERB.search(whole)):
            found += of_unit(unit, text, by_id, uid)
    return found


def user_units(ask: "dict[str, Any]") -> "list[dict[str, Any]]":
    """The same for every user whose own systemd runs; without linger it ends with their last session."""
    found = []
    for uid, name, files in managers():
        lingers = os.path.exists("/var/lib/systemd/linger/%s" % name)
        for row in units(ask, files, uid):
            row.update(uid=uid, user=name, boots=bool(row.get("boots")) and lingers)
            found.append(row)
    return found
