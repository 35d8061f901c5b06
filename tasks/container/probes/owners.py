"""What a supervisor's text can say of a container: its name, its id, or its Compose project. Part of a probe."""

import os
import re
from typing import Any

from tasks.remote.probes.proc import MARK, ancestors, command, link, pids, read, stat

VERB = re.compile(r"\b(docker|podman|nerdctl)\b[^\n]*\b(exec|start|restart|run)\b|\bcompose\b[^\n]*\b(up|start|restart|run|watch)\b")
STARTS = re.compile(r"\b(docker|podman|nerdctl)\b[^\n]*\b(start|restart|run)\b|\bcompose\b[^\n]*\b(up|start|restart|run|watch)\b")


def speaks_of(text: str, name: str, ident: str) -> "tuple[bool, bool]":
    """Whether the text speaks of the container by its name, and by its id."""
    by_name = re.search(r"(?<![\w.-])%s(?![\w.-])" % re.escape(name), text) is not None
    return by_name, bool(ident) and re.search(r"(?<![0-9a-f])%s" % re.escape(ident[:12]), text) is not None


def composes(text: str, compose: "dict[str, Any] | None") -> bool:
    """Whether it runs Compose on the container's project: by its folder, one of its files, or its name."""
    if not compose or not re.search(r"\bcompose\b", text):
        return False
    marks = [m for m in (compose["dir"], *compose["files"]) if m]
    named = re.search(r"(?:-p|--project-name)[ =]%s(?![\w-])" % re.escape(compose["project"] or "\0"), text)
    return bool(named) or any(re.search(r"(?<![\w.-])%s(?![\w-])" % re.escape(m), text) for m in marks)


def speaks(text: str, ask: "dict[str, Any]") -> "tuple[bool, bool]":
    """(by its name or its project, by its id)."""
    by_name, by_id = speaks_of(text, ask["name"], ask["id"])
    return by_name or composes(text, ask.get("compose")), by_id


def foreground(ask: "dict[str, Any]") -> "list[dict[str, Any]]":
    """Living `compose up` and `compose watch` of its project: they start nothing that died, and stop it when they end."""
    found, mine = [], ancestors()
    for pid in pids() if ask.get("compose") else []:
        now = stat(pid)
        line = command(pid, now["state"], now["comm"]) if now and pid not in mine and now["state"] not in "ZX" else ""
        stays = re.search(r"\bcompose\b.* (up|watch)\b", line) and not re.search(r" (-d|--detach)\b", line)
        if now and stays and MARK not in line and composes("%s\n%s" % (line, link("/proc/%d/cwd" % pid)), ask["compose"]):
            found.append({"kind": "compose", "name": line[:200], "pid": pid, "start_ticks": now["start_ticks"],
                          "command": line[:500], "rests": True})  # fmt: skip
    return found


def scripts(text: str) -> str:
    """The text and that of the scripts that it runs."""
    paths = re.findall(r"(?:^|[=\s])[-@:+!\x22\x27]*(/[\w./@-]+)", text)
    found = [read(p, 1 << 16) or "" for p in dict.fromkeys(paths) if os.path.isfile(p)]
    return "\n".join([text, *(x for x in found if x.startswith("#!"))])
