"""Reads how the instance's metadata service answers on this machine and inside the containers of jobs. Python 3.6, standard library.

Argument: jobs [{name, match}], most (containers that are asked). Only names of variables and files leave the machine, and of
the service's token only whether it came.
"""

import ctypes
import json
import os
import re
import sys
import threading
from http.client import HTTPConnection, HTTPException
from typing import Any
from urllib.parse import urlsplit

from tasks.remote.probes.proc import environ, link, matching, printable, same

SERVICE = "http://169.254.169.254"
SECONDS = 5.0  # for one answer; the service's own takes milliseconds
TRIES = (1.0, 2.0)  # one lost answer is no hop limit
TOKEN, ROLES = "/latest/api/token", "/latest/meta-data/iam/security-credentials/"
NO_ANSWER = 0
NEW_NETWORK = 0x40000000
OFF = "AWS_EC2_METADATA_DISABLED"
HOLDS = (
    "AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE", "AWS_EC2_METADATA_SERVICE_ENDPOINT",
)  # fmt: skip
FILES = (".aws/credentials", ".aws/config")
LOOKED_AT = re.compile("^(?:HOME|%s|%s)$" % (OFF, "|".join(HOLDS)))


def ask(service: str = SERVICE) -> "dict[str, Any]":
    """token: status of the answer to the token request (PUT), plain: of a read, without a token (401 where one is needed) or with
    the one that came, each 0 where the connection stands and no answer comes; role: "" where none is attached; error: why there
    is no connection.

    The token's answer alone is sent with a time to live of the instance's hop limit: with 1 it never gets behind a bridge.
    """
    found = {"token": NO_ANSWER, "plain": NO_ANSWER, "role": "", "error": ""}
    try:
        found["plain"], role = _request(service, "GET", ROLES, {}, SECONDS)
        for seconds in TRIES if found["plain"] else ():
            if found["token"] == NO_ANSWER:
                found["token"], text = _request(service, "PUT", TOKEN, {"X-aws-ec2-metadata-token-ttl-seconds": "60"}, seconds)
        if found["token"] == 200:
            found["plain"], role = _request(service, "GET", ROLES, {"X-aws-ec2-metadata-token": text}, SECONDS)
        found["role"] = printable(role)[:128] if found["plain"] == 200 else ""
    except OSError as e:
        found["error"] = type(e).__name__
    return found


def _request(service: str, method: str, path: str, headers: "dict[str, str]", seconds: float) -> "tuple[int, str]":
    """(status, first line). Raises OSError where nobody accepts the connection."""
    at = urlsplit(service)
    connection = HTTPConnection(at.hostname or "", at.port, timeout=seconds)
    connection.connect()
    try:
        connection.request(method, at.path.rstrip("/") + path, headers=headers)
        answer = connection.getresponse()
        lines = answer.read(4096).decode("utf-8", "replace").splitlines()
    except (OSError, HTTPException):
        return NO_ANSWER, ""
    finally:
        connection.close()
    return answer.status, lines[0] if lines else ""


def here() -> "dict[str, Any]":
    """On the machine itself, as a login there has it."""
    return dict(ask(), pid=0, command="", places=[], off=os.environ.get(OFF, "").lower() == "true")


def inside(process: "dict[str, Any]", network: int) -> "dict[str, Any] | None":
    """In the network of that process; None when it is gone. Raises OSError where it may not be entered."""
    pid = process["pid"]
    variables = environ(pid, LOOKED_AT)
    if variables is None:
        raise PermissionError("its environment")
    home = "/proc/%d/root/%s/" % (pid, (variables.get("HOME") or "/root").lstrip("/"))
    places = ["variable " + n for n in HOLDS if variables.get(n)]
    places += ["file ~/" + f for f in FILES if os.path.isfile(home + f)]
    found = {} if places else _within(network)
    if same(pid, process["start_ticks"]) is None:
        return None
    off = variables.get(OFF, "").lower() == "true"
    return dict(found, pid=pid, command=process["command"][:200], places=places, off=off)


def _within(network: int) -> "dict[str, Any]":
    """What `ask` finds in that network: a thread enters it, this process stays where it is. Raises OSError."""
    out = []  # type: list[Any]

    def enter() -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.setns(network, NEW_NETWORK) != 0:
            out.append(OSError(ctypes.get_errno(), "setns"))
        else:
            out.append(ask())

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    if isinstance(out[0], OSError):
        raise out[0]
    return dict(out[0])


def containers(jobs: "list[dict[str, str]]", most: int) -> "tuple[list[dict[str, Any]], list[int], int]":
    """(one look for each other network in which a job runs, pids of those that may not be entered, how many were left out)."""
    seen, denied, left = {link("/proc/self/ns/net")}, [], 0
    found = []  # type: list[dict[str, Any] | None]
    for process in (p for job in jobs for p in matching(job["match"])):
        name = link("/proc/%d/ns/net" % process["pid"])
        if name in seen or (not name and same(process["pid"], process["start_ticks"]) is None):
            continue
        seen.add(name)
        if len(found) >= most:
            left += 1
            continue
        try:
            network = os.open("/proc/%d/ns/net" % process["pid"], os.O_RDONLY | os.O_CLOEXEC)
            try:
                found.append(inside(process, network))
            finally:
                os.close(network)
        except FileNotFoundError:
            continue
        except OSError:
            denied.append(process["pid"])
    return [f for f in found if f], denied, left


if __name__ == "__main__":
    data = json.loads(sys.argv[1])
    looks, denied, left_out = containers(data["jobs"], data["most"])
    json.dump({"looks": [here(), *looks], "denied": denied, "left_out": left_out}, sys.stdout)
