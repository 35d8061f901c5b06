"""Runs a command inside a container for the probes that change one; whether it is still the judged one; the engine's times in one form."""

import subprocess
import time
from typing import Any

from tasks.container.probes.engine_api import Api
from tasks.remote.probes.refused import Refused

LAST = 8  # lines of a failure that are told: what a program says of it may be a paragraph


def seconds(text: str) -> str:
    """The engine's time to the microsecond, as the judgment had it; "" for never."""
    if not text or text.startswith("0001-"):
        return ""
    whole, _, rest = text.rstrip("Z").partition(".")
    return whole + "." + (rest + "000000")[:6]


def wanted_time(text: str) -> str:
    """The judgment's ISO time in the same form."""
    if not text:
        return ""
    whole, _, rest = text.split("+")[0].partition(".")
    return whole + "." + (rest + "000000")[:6]


def still_named(api: Api, ask: "dict[str, Any]") -> "dict[str, Any]":
    """The container of that id, which still has its name. Raises Refused."""
    it = api.inspect(ask["id"])
    if it is None:
        raise Refused("target-changed", "there is no container %s any more" % ask["id"][:12])
    name = it["Name"].lstrip("/")
    if name != ask["name"]:
        raise Refused("target-changed", "container %s is now called %s" % (ask["id"][:12], name))
    return dict(it)


def same_start(state: "dict[str, Any]", ask: "dict[str, Any]") -> None:
    """Raises Refused where it was started again since it was judged."""
    if seconds(state["StartedAt"]) != wanted_time(ask["started_at"]):
        raise Refused("target-changed", "it was started at %s, not at %s" % (state["StartedAt"], ask["started_at"]))


def hide(text: str, env: "list[str]") -> str:
    """`text` without the values of the container's environment."""
    pairs = [e.split("=", 1) for e in env if "=" in e]
    for name, value in sorted(pairs, key=lambda p: -len(p[1])):
        if len(value) >= 6:
            text = text.replace(value, "<%s>" % name)
    return text


def run_inside(
    ask: "dict[str, Any]", new: str, argv: "list[str]", env: "list[str]", more: "list[str]"
) -> "dict[str, Any]":
    """One command inside, its words passed on as they are: exit code, seconds, last line (of a failure: lines)."""
    began = time.monotonic()
    try:
        done = subprocess.run(
            [*ask["engine"], "exec", *more, new, *argv],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=ask["setup_timeout_s"],
        )
        code, out = done.returncode, done.stdout.decode("utf-8", "replace")
    except subprocess.TimeoutExpired:
        code, out = 124, "no end after %g s; left running inside" % ask["setup_timeout_s"]
    lines = [x for x in out.splitlines() if x.strip()]
    last = hide(" | ".join(x.strip() for x in lines[-LAST if code else -1 :]), env)[-900:]
    return {"argv": argv, "exit": code, "seconds": round(time.monotonic() - began, 2), "last": last}


def run_all(ask: "dict[str, Any]", box: str, env: "list[str]") -> "list[dict[str, Any]]":
    """Set-up, mounts, application, in order; the first that fails ends it."""
    todo: "list[tuple[list[str], list[str]]]" = [(argv, []) for argv in ask["setup"]] + [(argv, []) for _, argv in ask["mounts"]]
    if ask["start"]:
        todo.append((ask["start"], ["-d"] if ask["detached"] else []))
    ran = []
    for argv, more in todo:
        ran.append(run_inside(ask, box, argv, env, more))
        if ran[-1]["exit"] != 0:
            break
    return ran
