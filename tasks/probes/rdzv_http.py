"""Talks HTTP to etcd for the other rendezvous probes, which are sent with this one in front. No proxies are used."""

import json
import socket
import ssl
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

MARK_HTTP = "gpu-runbooks-rdzv"


def opener(tls: "dict[str, Any]") -> "urllib.request.OpenerDirector":
    """A client without proxies; files for https where given."""
    handlers = [urllib.request.ProxyHandler({})]  # type: list[Any]
    if any(tls.values()):
        context = ssl.create_default_context(cafile=tls.get("ca") or None)
        if tls.get("cert"):
            context.load_cert_chain(tls["cert"], tls.get("key") or None)
        handlers.append(urllib.request.HTTPSHandler(context=context))
    return urllib.request.build_opener(*handlers)


def call(
    client: "Any", method: str, url: str, form: "dict[str, Any] | None" = None, body: "Any" = None
) -> "dict[str, Any]":
    """{"status", "body"}, or {"error", "what"}: refused, timed-out, unresolved, other."""
    data = urllib.parse.urlencode(form).encode() if form is not None else None
    data = json.dumps(body).encode() if body is not None else data
    request = urllib.request.Request(url, data=data, method=method)  # noqa: S310
    try:
        with client.open(request, timeout=5) as answer:
            return {"status": answer.status, "body": answer.read(8 << 20).decode("utf-8", "replace")}
    except urllib.error.HTTPError as e:
        return {"status": e.code, "body": e.read(1 << 16).decode("utf-8", "replace")}
    except urllib.error.URLError as e:
        return failure(e.reason)
    except (OSError, ValueError) as e:
        return failure(e)


def failure(error: "Any") -> "dict[str, Any]":
    """What kind of no answer it was."""
    if isinstance(error, ConnectionRefusedError):
        what = "refused"
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
