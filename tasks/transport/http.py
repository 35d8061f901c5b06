"""Reads and posts JSON over HTTP: time-outs, a size cap, no redirect to another host, no proxy for loopback."""

import ipaddress
import json
import time
from typing import Any
from urllib.parse import urlsplit

import httpx

from runbooks.core.base import Frozen
from runbooks.core.reading import UnknownReason
from runbooks.core.redact import Redactor
from tasks.credentials import credential, where
from tasks.transport.base import TransportError

_REDIRECTS = 3
WHOLE = 4  # times the time-out: within this an answer must have ended, though each part of it came in time


def read_whole(response: httpx.Response, limit: int, seconds: float) -> str:
    """The answer's text. Raises TransportError for one that is too large, or still comes, in drops, after `seconds`."""
    kept, until = bytearray(), time.monotonic() + seconds
    for part in response.iter_bytes():
        kept += part
        if len(kept) > limit:
            raise TransportError(UnknownReason.FAILED, f"the answer is larger than {limit} bytes")
        if time.monotonic() > until:
            raise TransportError(UnknownReason.TIMED_OUT, f"the answer did not end within {seconds:g} s")
    return kept.decode("utf-8", "replace")


class Reply(Frozen):
    """An answer with status 2xx. `url` has its secrets replaced."""

    status: int
    url: str
    text: str
    body: Any = None


class HttpReader:
    """One system's HTTP interface for one run."""

    def __init__(
        self,
        base_url: str,
        redactor: Redactor,
        *,
        token_env: str | None = None,
        sent_in: str = "Authorization",
        timeout_s: float = 5.0,
        limit: int = 4 << 20,
    ) -> None:
        self._base, self._limit, self._timeout_s = base_url.rstrip("/"), limit, timeout_s
        token = credential(token_env).strip() if token_env else ""
        if token_env and not token:
            raise TransportError(UnknownReason.DENIED, f"{where(token_env)}, which should hold the token, is empty")
        self._redactor = redactor.knowing({token_env: token}) if token_env else redactor
        self._client = httpx.Client(
            timeout=timeout_s,
            follow_redirects=False,
            trust_env=not _is_loopback(urlsplit(self._base).hostname or ""),
            headers={sent_in: f"Bearer {token}" if sent_in == "Authorization" else token} if token else {},
        )

    def get(self, path: str = "") -> Reply:
        """GET base + path as JSON. Raises TransportError."""
        return self._ask("GET", path, None)

    def post(self, path: str, body: Any) -> Reply:
        """POST a JSON body; never sent twice. Raises TransportError."""
        return self._ask("POST", path, body)

    def close(self) -> None:
        """End the connections."""
        self._client.close()

    def _ask(self, method: str, path: str, body: Any) -> Reply:
        url = self._base + path
        for _ in range(_REDIRECTS + 1):
            status, text, moved = self._once(method, url, body)
            if not moved:
                return self._reply(method, url, status, text)
            url = self._follow(method, url, moved)
        raise TransportError(UnknownReason.FAILED, f"more than {_REDIRECTS} redirects", self._shown(method, url))

    def _once(self, method: str, url: str, body: Any) -> tuple[int, str, str]:
        """One request: status, text, and where it redirects to."""
        try:
            with (
                self._client.stream(method, url, json=body)
                if body is not None
                else self._client.stream(method, url) as r
            ):
                return (
                    r.status_code,
                    read_whole(r, self._limit, WHOLE * self._timeout_s),
                    r.headers.get("location", "") if r.is_redirect else "",
                )
        except (httpx.HTTPError, httpx.InvalidURL) as e:
            raise self._explain(e, self._shown(method, url)) from None

    def _follow(self, method: str, url: str, moved: str) -> str:
        """The next URL of a redirect on the same host. Raises TransportError for another host and for a POST."""
        to = str(httpx.URL(url).join(moved))
        here, there = urlsplit(url), urlsplit(to)
        if method != "GET" or (here.scheme, here.netloc) != (there.scheme, there.netloc):
            raise TransportError(
                UnknownReason.FAILED, f"redirected to {self._redactor.text(to)}, not followed", self._shown(method, url)
            )
        return to

    def _reply(self, method: str, url: str, status: int, text: str) -> Reply:
        shown = self._shown(method, url)
        if status in (401, 403, 407):
            raise TransportError(UnknownReason.DENIED, f"HTTP {status}", shown)
        if not 200 <= status < 300:
            raise TransportError(UnknownReason.FAILED, f"HTTP {status}: {self._redactor.text(text[:200])}", shown)
        try:
            body = json.loads(text) if text.strip() else None
        except (ValueError, RecursionError):
            raise TransportError(UnknownReason.UNPARSABLE, f"not JSON: {self._redactor.text(text[:80])}", shown) from None
        return Reply(status=status, url=shown, text=self._redactor.text(text), body=body)

    def _explain(self, error: Exception, shown: str) -> TransportError:
        text = self._redactor.text(str(error) or type(error).__name__)
        if isinstance(error, httpx.ConnectTimeout):
            return TransportError(UnknownReason.UNREACHABLE, f"no connection within {self._timeout_s:g} s", shown)
        if isinstance(error, httpx.TimeoutException):
            return TransportError(UnknownReason.TIMED_OUT, f"no answer within {self._timeout_s:g} s", shown)
        if isinstance(error, httpx.InvalidURL | httpx.UnsupportedProtocol):
            return TransportError(UnknownReason.FAILED, f"not a usable URL: {text}", shown)
        if isinstance(error, httpx.DecodingError):
            return TransportError(UnknownReason.UNPARSABLE, text, shown)
        return TransportError(UnknownReason.UNREACHABLE, text, shown)

    def _shown(self, method: str, url: str) -> str:
        return f"{method} {self._redactor.text(url)}"


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
