"""Answers of a managed database platform that are no answer: each by its name, as the platform's documentation gives it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

HTML = "<html><head><title>Error</title></head><body>Web server is down</body></html>"


@dataclass(frozen=True)
class Bad:
    """What comes instead of the true answer (status 0: the true one, spoiled on its way)."""

    status: int = 0
    body: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    wait_s: float = 0  # before the first byte
    drip_s: float = 0  # between two bytes of the body
    cut_at: int | None = None  # bytes of the body, after which the connection ends
    keep: int | None = None  # rows of the true list; the count in Content-Range stays, but for 0 rows: then it is 0 too


def _platform(status: int, code: str, message: str) -> Bad:
    """The gateway and the function runtime answer so."""
    return Bad(status, json.dumps({"code": code, "message": message}), {"sb-error-code": code})


def _rest(status: int, code: str, message: str, details: Any = None) -> Bad:
    """PostgREST answers so."""
    return Bad(status, json.dumps({"code": code, "details": details, "hint": None, "message": message}))


def _html(status: int) -> Bad:
    return Bad(status, HTML, {"Content-Type": "text/html"})


FUNCTION_ANSWERS: dict[str, Bad] = {
    "not deployed": _platform(404, "NOT_FOUND", "Requested function was not found"),
    "bundle missing": _platform(404, "NOT_FOUND_FUNCTION_BLOB", "Requested function was not found"),
    "no header": _platform(401, "UNAUTHORIZED_NO_AUTH_HEADER", "Missing authorization header"),
    "old key": _platform(401, "UNAUTHORIZED_LEGACY_JWT", "Invalid JWT"),
    "no JWT": _platform(401, "UNAUTHORIZED_INVALID_JWT_FORMAT", "Invalid JWT"),
    "foreign algorithm": _platform(401, "UNSUPPORTED_TOKEN_ALGORITHM", "Unsupported JWT algorithm"),
    "old 401": Bad(401, json.dumps({"code": 401, "message": "Invalid JWT"})),
    "does not boot": _platform(503, "BOOT_ERROR", "Function failed to start (please check logs)"),
    "threw": _platform(500, "WORKER_ERROR", "Function exited due to an error (please check logs)"),
    "own 500": Bad(
        500,
        '{"errorCode": "internal_server_error", "message": "it failed", "recoverable": true}',
        {"sb-error-code": "EDGE_FUNCTION_ERROR"},
    ),
    "used up": _platform(546, "WORKER_LIMIT", "Function failed due to not having enough compute resources (please check logs)"),
    "idle": _platform(504, "IDLE_TIMEOUT", "The request timed out"),
}
"""Of a function's route."""
REST_ANSWERS: dict[str, Bad] = {
    "expired": _rest(401, "PGRST301", "JWT expired"),
    "anonymous": _rest(401, "PGRST302", "Anonymous access is disabled"),
    "no grant": _rest(403, "42501", "permission denied for table workers"),
    "old unknown table": _rest(404, "42P01", 'relation "public.workers" does not exist'),
    "no function": _rest(404, "PGRST202", "Could not find the function public.f without parameters in the schema cache"),
    "ambiguous": _rest(300, "PGRST203", "Could not choose the best candidate function between: public.f(a => text), public.f(b => text)"),
    "no single row": _rest(406, "PGRST116", "Cannot coerce the result to a single JSON object", "The result contains 0 rows"),
    "no database": _rest(503, "PGRST000", "Database connection error. Retrying the connection."),
    "no cache": _rest(503, "PGRST002", "Could not query the database for the schema cache. Retrying."),
    "no pool": _rest(504, "PGRST003", "Timed out acquiring connection from connection pool."),
    "no slots": _rest(503, "53300", "remaining connection slots are reserved"),
    "statement cut off": _rest(500, "57014", "canceling statement due to statement timeout"),
    "wrong filter": _rest(400, "PGRST100", '"failed to parse filter"'),
}
"""Of a table's or database function's route, in PostgREST's own words."""
PLATFORM_ANSWERS: dict[str, Bad] = {
    "restricted": Bad(402, json.dumps({"message": "Service for this project is restricted"})),
    "paused": Bad(540, json.dumps({"message": "Project paused"})),
    "origin down": _html(521),
    "origin silent": _html(522),
    "storage slow": Bad(544, json.dumps({"message": "Database timeout"})),
    "gateway": _html(500),
    "text": Bad(200, "upstream is warming up", {"Content-Type": "text/plain"}),
}
"""Of any route: they come from before the project."""
CUT_OFF, EMPTIED = Bad(cut_at=5), Bad(keep=0)
"""The connection ends within the body; the list is emptied on its way."""
