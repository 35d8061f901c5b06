"""Talks to a container engine's API over its unix socket, on the node. Used by the probes that change containers."""

import http.client
import json
import socket
import threading
import time
from contextlib import suppress
from typing import Any
from urllib.parse import quote


class EngineError(Exception):
    """The engine answered with an error. `status` is its HTTP code."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Api:
    """The engine behind one socket."""

    def __init__(self, path: str) -> None:
        self.path = path

    def call(self, method: str, url: str, body: Any = None, timeout: float = 60) -> Any:
        """JSON answer (None for an empty one), within `timeout` in all. Raises EngineError, OSError, ValueError."""
        status, text = self._exchange(method, url, None if body is None else json.dumps(body), timeout)
        if status >= 400:
            raise EngineError(status, message(text))
        return json.loads(text) if text.strip() else None

    def _exchange(self, method: str, url: str, data: "str | None", timeout: float) -> "tuple[int, str]":
        """Status and text. An engine that accepts and says nothing, drips or breaks off ends in an OSError, in time."""
        link = http.client.HTTPConnection("engine", timeout=timeout)
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.settimeout(timeout)  # of a single read; the timer is of all of them
        late = threading.Timer(timeout, hang_up, [sock])
        late.daemon, began = True, time.monotonic()
        late.start()
        try:
            sock.connect(self.path)
            link.sock = sock
            link.request(method, url, data, {"Content-Type": "application/json"} if data else {})
            answer = link.getresponse()
            return answer.status, answer.read().decode("utf-8", "replace")
        except http.client.HTTPException as e:
            if time.monotonic() - began >= timeout:
                raise TimeoutError("the engine did not answer in %g s" % timeout) from e
            raise ConnectionError("the engine broke off in its answer: %s" % type(e).__name__) from e
        finally:
            late.cancel()
            sock.close()

    def start(self, ident: str, timeout: float = 60) -> bool:
        """Starts it. False: it ran already, and nothing was done. Raises EngineError, OSError."""
        status, text = self._exchange("POST", "/containers/%s/start" % quote(ident, safe=""), None, timeout)
        if status >= 400:
            raise EngineError(status, message(text))
        return status != 304

    def inspect(self, ident: str, timeout: float = 60) -> "dict[str, Any] | None":
        """The container, or None when there is none of that id or name."""
        try:
            found = self.call("GET", "/containers/%s/json" % quote(ident, safe=""), timeout=timeout)
        except EngineError as e:
            if e.status == 404:
                return None
            raise
        return found if isinstance(found, dict) else None


def hang_up(sock: socket.socket) -> None:
    """Ends whatever waits at it."""
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


def message(text: str) -> str:
    """The engine's own words of an error."""
    try:
        return str(json.loads(text)["message"])[:500]
    except (ValueError, KeyError, TypeError):
        return text[:500]
