"""Reads whether a system that the fleet file names answers: TCP connect, or any HTTP answer at all."""

import socket
import time
from urllib.parse import urlparse

import httpx

from runbooks.core.fleet import System
from runbooks.core.nightly import SystemCheck


def look_at_system(system: System) -> SystemCheck:
    """One look, bounded by the system's time-out. Never raises."""
    began = time.monotonic()
    try:
        detail, ok = _tcp(system) if system.url.startswith("tcp://") else _http(system)
    except (OSError, httpx.HTTPError, ValueError) as e:
        detail, ok = f"{type(e).__name__}: {e}", False
    return SystemCheck(
        name=system.name, url=system.url, reachable=ok, detail=detail, seconds=round(time.monotonic() - began, 3)
    )


def _tcp(system: System) -> tuple[str, bool]:
    url = urlparse(system.url)
    with socket.create_connection((url.hostname or "", url.port or 0), timeout=system.timeout_s):
        return "accepts connections", True


def _http(system: System) -> tuple[str, bool]:
    with httpx.Client(timeout=system.timeout_s, trust_env=False, follow_redirects=False) as client:
        status = client.get(system.url).status_code
    return f"HTTP {status}", status < 500
