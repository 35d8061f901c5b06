"""The first contact with a Prefect server: whether it answers within seconds; if not, what is wrong and what to do.

A run that is at work waits for an absent server (flows/store.py); a command that only begins does not.
"""

import http.client
import os
import sys
import threading
import time
import urllib.error
import urllib.request

from deployments.errors import NO_SERVER, CommandError
from runbooks.core.clean import one_line

CONTACT_S = 2.0  # all tries together; a server that is started anew is waited for so long
TRY_EVERY_S = 0.2
NOT_PREFECT = "is not the API of a Prefect server (its address ends with /api)"
NO_ADDRESS = "is not a usable address: PREFECT_API_URL looks like http://HOST:PORT/api"
OFFLINE = "`gpu-runbooks run RUNBOOK TARGET --no-server` diagnoses without one"
OWN = "start that server, or correct PREFECT_API_URL (without it `gpu-runbooks up` starts a local one)"
LOCAL = "start it with `gpu-runbooks up`"
LOG_IN = "correct PREFECT_API_AUTH_STRING (or PREFECT_API_KEY)"


class NoServer(CommandError):
    """The Prefect server that the command needs cannot be used."""

    def __init__(self, api: str, why: str, do: str) -> None:
        super().__init__(f"the Prefect server at {shown(api)} {why}. What to do: {do}; {OFFLINE}", NO_SERVER)
        self.why = why


def shown(url: str) -> str:
    """An address without the log-in that may stand in it."""
    scheme, found, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}" if found else url


def check_own(api: str) -> None:
    """Raises NoServer unless the operator's own server at `api` answers, takes our log-in and is a Prefect API."""
    why = why_silent(api)  # first without Prefect's library, which takes seconds to load
    if not why:
        why = why_refused(CONTACT_S)
    if why:
        raise NoServer(api, why, LOG_IN if "log-in" in why else OWN)


def why_silent(api: str, limit_s: float | None = None) -> str:
    """What is wrong with the server at `api`; "" if something answers there by HTTP. Never longer than `limit_s`."""
    limit_s = CONTACT_S if limit_s is None else limit_s
    found: list[str] = []
    deadline = time.monotonic() + limit_s

    def look() -> None:  # in a thread: looking up a name has no time-out
        while True:
            left = max(deadline - time.monotonic(), 0.05)
            why = _one_try(f"{shown(api)}/health", left)
            found.append(why)
            if not why or not _may_pass(why) or time.monotonic() + TRY_EVERY_S > deadline:
                return
            time.sleep(TRY_EVERY_S)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    thread.join(limit_s + 0.2)
    return found[-1] if found else f"does not answer within {limit_s:.0f} s"


def _may_pass(why: str) -> bool:
    """Whether another try can help: it is being started anew, or it is busy."""
    return "refused" in why or "503" in why


def _one_try(url: str, timeout_s: float) -> str:
    try:
        with urllib.request.urlopen(url, timeout=timeout_s):  # noqa: S310 - the operator's address
            return ""
    except urllib.error.HTTPError as e:
        return f"answers {e.code} {e.reason}" if e.code >= http.HTTPStatus.INTERNAL_SERVER_ERROR else ""
    except urllib.error.URLError as e:
        return _unreached(e.reason, timeout_s)
    except OSError as e:
        return _unreached(e, timeout_s)
    except http.client.HTTPException:
        return "answers, but not by HTTP"
    except ValueError:
        return NO_ADDRESS


def _unreached(reason: object, timeout_s: float) -> str:
    import socket
    import ssl

    if isinstance(reason, str):  # urllib's own: no scheme, no host
        return NO_ADDRESS
    if isinstance(reason, TimeoutError):
        return f"does not answer within {timeout_s:.0f} s"
    if isinstance(reason, socket.gaierror):
        return f"cannot be found: no such host ({reason.strerror})"
    if isinstance(reason, ssl.SSLError):
        return ""  # which certificates count is for Prefect's client to say
    said = reason.strerror if isinstance(reason, OSError) and reason.strerror else str(reason)
    return f"cannot be reached: {said.lower()}" if said else "cannot be reached"


def why_refused(timeout_s: float) -> str:
    """Why Prefect's client cannot use the server in use, after one question; "" if it can."""
    from prefect import __version__ as ours

    from flows.store import ask

    try:
        theirs = ask(lambda c: c.request("GET", "/admin/version", timeout=timeout_s), patience_s=0.0).json()
        if not isinstance(theirs, str):
            return NOT_PREFECT
        fits = theirs.split(".")[0] == ours.split(".")[0]
        return "" if fits else f"is Prefect {one_line(theirs, 20)}, but gpu-runbooks needs {ours}"
    except Exception as e:
        code = getattr(getattr(e, "response", None), "status_code", 0)
        if code in (http.HTTPStatus.NOT_FOUND, http.HTTPStatus.METHOD_NOT_ALLOWED):
            return NOT_PREFECT
        return in_words(e) or NOT_PREFECT


def in_words(error: BaseException) -> str:
    """What an error of Prefect's client says about the server; "" if it is no such error."""
    if "httpx" not in sys.modules:
        return ""
    import httpx

    if isinstance(error, httpx.HTTPStatusError):
        return _status_in_words(error.response.status_code, error.response.reason_phrase)
    if isinstance(error, httpx.TimeoutException):
        return "does not answer in time"
    if isinstance(error, httpx.ProtocolError | httpx.DecodingError):
        return "closed the connection"
    if isinstance(error, httpx.InvalidURL | httpx.UnsupportedProtocol):
        return NO_ADDRESS
    if isinstance(error, httpx.TransportError) and (status := getattr(error, "status", 0)):  # flows.client.NotOursError
        return _status_in_words(status, "")
    if isinstance(error, httpx.TransportError):
        said = str(error) or type(error).__name__
        return f"cannot be reached: {said}"
    return ""


def _status_in_words(code: int, phrase: str) -> str:
    if code in (http.HTTPStatus.UNAUTHORIZED, http.HTTPStatus.FORBIDDEN):
        return f"refuses the log-in ({code})"
    return f"answers {code} {phrase}"


def lost(error: BaseException) -> NoServer | None:
    """The sentence for an error of Prefect's client that ends a command; None if it is no such error."""
    why = in_words(error)
    if not why:
        return None
    from deployments.own_server import own_server

    api = os.environ.get("PREFECT_API_URL", "")
    return NoServer(api, why, LOCAL if not own_server() else LOG_IN if "log-in" in why else OWN)
