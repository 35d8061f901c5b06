"""A stand-in on loopback for a managed database platform: REST over a real PostgreSQL, edge functions, and every bad answer on order.

`tests/tasks/orchestrator/test_postgrest_stand_in.py` holds it to the official `postgrest` client and to plain SQL.
"""

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import repeat
from threading import Lock, Thread
from types import TracebackType
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.support.bad_answers import Bad
from tests.support.connections import Connections
from tests.support.edge_functions import READ_ONLY_FUNCTIONS, EdgeFunctions
from tests.support.orchestrator_tables import READ_ONLY, ROLES, Age
from tests.support.postgrest_query import Refused
from tests.support.postgrest_rest import Answer, Asked, Rest

SECRET = b"the stand-in's own secret"
REST, FUNCTIONS = "/rest/v1/", "/functions/v1/"


def _coded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def token(role: str, *, lives_s: float = 3600, secret: bytes = SECRET) -> str:
    """A signed JWT of this role that ends `lives_s` from now."""
    parts = ({"alg": "HS256", "typ": "JWT"}, {"role": role, "exp": int(time.time() + lives_s)})
    text = ".".join(_coded(json.dumps(p).encode()) for p in parts)
    return f"{text}.{_coded(hmac.new(secret, text.encode(), hashlib.sha256).digest())}"


def role_of(bearer: str) -> str:
    """The role that a token names. Raises Refused for one that is forged or over."""
    text, _, signature = bearer.rpartition(".")
    if not hmac.compare_digest(signature, _coded(hmac.new(SECRET, text.encode(), hashlib.sha256).digest())):
        raise Refused(401, "PGRST301", "No suitable key or wrong key type")
    claims = json.loads(base64.urlsafe_b64decode(text.split(".")[1] + "=="))
    if claims["exp"] < time.time():
        raise Refused(401, "PGRST301", "JWT expired")
    return str(claims["role"])


@dataclass(frozen=True)
class Call:
    """What somebody asked."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...]
    body: str
    prefer: str

    @property
    def changes(self) -> bool:
        """It may change something. Judged by what was sent, whatever was answered."""
        kind, _, called = self.path.rpartition("/")
        if self.method in ("GET", "HEAD", "OPTIONS"):
            return False
        reads = READ_ONLY_FUNCTIONS if kind == FUNCTIONS.rstrip("/") else READ_ONLY if kind == f"{REST}rpc" else frozenset()
        return self.method != "POST" or called not in reads


class PostgRest:
    """`with PostgRest(url) as there:`; `there.url` is the project's address."""

    def __init__(
        self, url: str, *, age: Age = Age.NEW, max_rows: int = 1000, anonymous: bool = True, statement_timeout_ms: int = 8000
    ) -> None:
        self.database = Connections(url, statement_timeout_ms)
        self.rest, self.functions = Rest(self.database, max_rows), EdgeFunctions(self.database, age, max_rows)
        self.anonymous, self.anon_key, self.service_key = anonymous, token(ROLES[0]), token(ROLES[2])
        self.calls: list[Call] = []
        self._bad: list[tuple[str, Iterator[Bad]]] = []
        self._lock = Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> "PostgRest":
        Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, where: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
        self.database.close()

    def inject(self, route: str, bad: Bad, times: int | None = None) -> None:
        """The next answers of a route (a path, `*` stands for any text) are bad ones; without a number, until all is well."""
        self._bad.append((route, repeat(bad) if times is None else repeat(bad, times)))

    def heal(self) -> None:
        """All is well from here on."""
        self._bad.clear()

    def changing(self) -> list[Call]:
        """Calls so far that may change something."""
        return [c for c in self.calls if c.changes]

    def spoiled(self, path: str) -> Bad | None:
        """What this request gets in place of the true answer."""
        with self._lock:
            found = (next(bads, None) for route, bads in self._bad if fnmatchcase(path, route))
            return next((b for b in found if b), None)

    def answer(self, asked: Asked, path: str) -> Answer:
        """The true answer."""
        bearer = (asked.headers.get("Authorization") or "").removeprefix("Bearer ")
        try:
            if path.startswith(FUNCTIONS):
                return self.functions.answer(asked.method, path.removeprefix(FUNCTIONS), self._known(bearer), asked.body)
            key = asked.headers.get("apikey") or dict(asked.pairs).get("apikey")
            if not key:
                return _gateway("No API key found in request", "No `apikey` request header or url param was found.")
            if key not in (self.anon_key, self.service_key):
                return _gateway("Invalid API key", "Double check your Supabase `anon` or `service_role` API key.")
            if not bearer and not self.anonymous:
                raise Refused(401, "PGRST302", "Anonymous access is disabled")
            pairs = tuple(p for p in asked.pairs if p[0] != "apikey")
            role = role_of(bearer) if bearer else ROLES[0]
            return self.rest.answer(Asked(asked.method, path.removeprefix(REST), pairs, asked.headers, asked.body, role))
        except Refused as e:
            return Answer(e.status, json.dumps(e.body))

    def _known(self, bearer: str) -> str | None:
        try:
            return role_of(bearer) if bearer else None
        except Refused:
            return None


def _gateway(message: str, hint: str) -> Answer:
    return Answer(401, json.dumps({"message": message, "hint": hint}))


def _shortened(answer: Answer, keep: int) -> Answer:
    """A list without its end; the count stays where some rows are left."""
    rows = json.loads(answer.text)
    if not isinstance(rows, list) or len(rows) <= keep:
        return answer
    total = answer.headers.get("Content-Range", "*/*").rpartition("/")[2]
    shown = f"0-{keep - 1}/{total}" if keep else f"*/{'*' if total == '*' else 0}"
    return Answer(answer.status if keep else 200, json.dumps(rows[:keep]), answer.headers | {"Content-Range": shown})


def _handler(there: PostgRest) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def _go(self) -> None:
            url = urlsplit(self.path)
            path, pairs = unquote(url.path), tuple(parse_qsl(url.query, keep_blank_values=True))
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            there.calls.append(Call(self.command, path, pairs, body.decode("utf-8", "replace"), self.headers.get("Prefer") or ""))
            bad = there.spoiled(path) or Bad()
            if bad.status:
                answer = Answer(bad.status, bad.body, dict(bad.headers))
            elif path.startswith((REST, FUNCTIONS)):
                answer = there.answer(Asked(self.command, path, pairs, self.headers, body), path)
            else:
                answer = Answer(404, json.dumps({"error": "requested path is invalid"}))
            self._send(_shortened(answer, bad.keep) if bad.keep is not None and answer.status < 300 else answer, bad)

        def _send(self, answer: Answer, bad: Bad) -> None:
            time.sleep(bad.wait_s)
            data = answer.text.encode()
            self.send_response(answer.status)
            for key, text in ({"Content-Type": "application/json; charset=utf-8"} | answer.headers).items():
                self.send_header(key, text)
            if answer.status != 204:
                self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if self.command == "HEAD":
                return
            sent = data[: bad.cut_at]
            for piece in (sent[i : i + 1] for i in range(len(sent))) if bad.drip_s else (sent,):
                time.sleep(bad.drip_s)
                self.wfile.write(piece)
            self.close_connection = self.close_connection or bad.cut_at is not None

        def handle(self) -> None:
            """A client that has gone away is no fault of the server's."""
            try:
                super().handle()
            except ConnectionError:
                self.close_connection = True

        def log_message(self, *_: object) -> None:
            """Silent."""

    for method in ("GET", "POST", "PATCH", "PUT", "DELETE", "HEAD", "OPTIONS"):
        setattr(Handler, f"do_{method}", Handler._go)
    return Handler
