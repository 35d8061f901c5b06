"""Talks HTTP to etcd for the other rendezvous probes, which are sent with this one in front. No proxies are used."""

import base64
import http.client
import json
import os
import re
import socket
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

LARGEST = 64 << 20  # store keys have no time to live: a tree grows with every run
PATIENCE_S = 20  # for a whole answer; the time-out of a socket starts anew with every byte
GATEWAYS = {"3.0": "/v3alpha", "3.1": "/v3alpha", "3.2": "/v3alpha", "3.3": "/v3beta"}  # by etcd's version; /v3 since 3.4


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """Credentials and deletions go to the configured endpoint only."""

    def redirect_request(self, *_: "Any") -> None:
        """Never."""


class BadAccess(OSError):
    """The certificate files or the password cannot be read on this node."""


def opener(ask: "dict[str, Any]") -> "urllib.request.OpenerDirector":
    """A client without proxies and redirects; certificate files and a user where given. Raises BadAccess."""
    handlers = [urllib.request.ProxyHandler({}), NoRedirect()]  # type: list[Any]
    tls, auth = ask.get("tls") or {}, ask.get("auth")
    if any(tls.values()):
        try:
            context = ssl.create_default_context(cafile=tls.get("ca") or None)
            if tls.get("cert"):
                context.load_cert_chain(tls["cert"], tls.get("key") or None, lambda: b"")  # never ask a terminal
        except (OSError, ValueError) as e:
            raise BadAccess("certificate files %s: %s" % ([v for v in tls.values() if v], e)) from e
        handlers.append(urllib.request.HTTPSHandler(context=context))
    client = urllib.request.build_opener(*handlers)
    client.addheaders = []
    if auth:
        pair = "%s:%s" % (auth["user"], password(auth))
        client.addheaders = [("Authorization", "Basic " + base64.b64encode(pair.encode()).decode())]
    return client


def password(auth: "dict[str, Any]") -> str:
    """The password as this node has it. Raises BadAccess without its text."""
    if auth.get("password_env"):
        if not os.environ.get(auth["password_env"]):
            raise BadAccess("the variable %s is not set on this node" % auth["password_env"])
        return os.environ[auth["password_env"]]
    try:
        with open(auth["password_file"], encoding="utf-8") as f:
            return f.read(4096).rstrip("\r\n")
    except (OSError, ValueError) as e:
        raise BadAccess("the password file %s: %s" % (auth["password_file"], e)) from e


def gateway(version: "dict[str, Any]") -> str:
    """The path of the v3 gateway, by etcd's answer about its version."""
    found = re.search(r'"etcdserver":\s*"(\d+\.\d+)\.', version.get("body", ""))
    return GATEWAYS.get(found.group(1) if found else "", "/v3")


def v3_client(ask: "dict[str, Any]", v3: str) -> "urllib.request.OpenerDirector":
    """A client for the v3 gateway at `v3`, which wants a token in place of a password."""
    client, auth = opener(ask), ask.get("auth")
    if auth:
        client.addheaders = []
        body = {"name": auth["user"], "password": password(auth)}
        answer = call(client, "POST", v3 + "/auth/authenticate", body=body)
        if answer.get("status") == 200:
            client.addheaders = [("Authorization", json.loads(answer["body"])["token"])]
    return client


def call(
    client: "Any", method: str, url: str, form: "dict[str, Any] | None" = None, body: "Any" = None
) -> "dict[str, Any]":
    """{"status", "body"}, or {"error", "what"} as `failure` says."""
    data = urllib.parse.urlencode(form).encode() if form is not None else None
    data = json.dumps(body).encode() if body is not None else data
    request = urllib.request.Request(url, data=data, method=method)  # noqa: S310
    try:
        with client.open(request, timeout=5) as answer:
            return {"status": answer.status, "body": whole(answer).decode("utf-8", "replace")}
    except urllib.error.HTTPError as e:
        return {"status": e.code, "body": e.read(1 << 16).decode("utf-8", "replace")}
    except urllib.error.URLError as e:
        return failure(e.reason)
    except (OSError, ValueError, http.client.HTTPException) as e:
        return failure(e)


def whole(answer: "Any") -> bytes:
    """The body, up to LARGEST. Raises TimeoutError when it only drips, IncompleteRead when it is cut."""
    found, size, end = [], 0, time.monotonic() + PATIENCE_S
    while size < LARGEST:
        part = answer.read1(1 << 16)
        if not part:
            if answer.length:
                raise http.client.IncompleteRead(b"", answer.length)
            break
        found.append(part)
        size += len(part)
        if time.monotonic() > end:
            raise TimeoutError("timed out: no whole answer within %s s" % PATIENCE_S)
    return b"".join(found)


def failure(error: "Any") -> "dict[str, Any]":
    """What kind of no answer it was: refused, tls, not-http, timed-out, unresolved, other."""
    if isinstance(error, ConnectionRefusedError):
        what = "refused"
    elif isinstance(error, ssl.SSLError):
        what = "tls"
    elif isinstance(error, http.client.HTTPException):
        what = "not-http"
    elif isinstance(error, (socket.timeout, TimeoutError)) or "timed out" in str(error):
        what = "timed-out"
    else:
        what = "unresolved" if isinstance(error, socket.gaierror) else "other"
    return {"error": what, "what": str(error)[:300]}


def key_url(endpoint: str, key: str, **query: "Any") -> str:
    """URL of a v2 key; its name is quoted."""
    tail = urllib.parse.urlencode(query)
    return endpoint.rstrip("/") + "/v2/keys" + urllib.parse.quote(key) + ("?" + tail if tail else "")


def index_of(client: "Any", endpoint: str, key: str) -> "int | None":
    """modifiedIndex of a key, None when it is not there. Raises OSError when etcd does not say."""
    answer = call(client, "GET", key_url(endpoint, key, quorum="true"))
    body = answer.get("body", "")
    if answer.get("status") == 200:
        return int(json.loads(body)["node"]["modifiedIndex"])
    if answer.get("status") == 404 and '"errorCode":100' in body:
        return None
    raise OSError("etcd does not say whether %s is there: %s" % (key, answer.get("what") or body[:200]))
