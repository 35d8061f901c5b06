"""Reads etcd through a node: its health, and every key of torch's two backends. Changes nothing."""

import json
from collections.abc import Mapping
from typing import Any

from runbooks.core.reading import ODD_ANSWER, Known, Source, Unknown, UnknownReason
from runbooks.core.rendezvous_config import Rendezvous
from runbooks.parsers.fields import given
from runbooks.rendezvous.evidence import EtcdFacts
from runbooks.rendezvous.parsers.etcd_v2 import NotEtcd, RunKeys, dynamic_runs, legacy_runs, parse_tree
from tasks.context import Context
from tasks.remote.probe import run_probe
from tasks.transport.base import Host, TransportError

_WHY = {
    "refused": UnknownReason.UNREACHABLE,
    "unresolved": UnknownReason.UNREACHABLE,
    "timed-out": UnknownReason.TIMED_OUT,
    "other": UnknownReason.UNREACHABLE,
    "not-http": UnknownReason.UNPARSABLE,
    "tls": UnknownReason.DENIED,
    "access": UnknownReason.DENIED,
}
LARGEST = 256 << 20  # three trees as text inside JSON
_WANTS_TLS = "HTTP request to an HTTPS server"


def ask_etcd(host: Host, place: Rendezvous, *, keys_only: bool = False, health_only: bool = False) -> dict[str, Any]:
    """Raw answers of etcd as the node `host` gets them. Raises TransportError when the node gives none."""
    data = place.access | {"prefix": place.prefix, "keys_only": keys_only, "health_only": health_only}
    return run_probe(host, "rdzv_etcd", data, timeout_s=60, limit_bytes=LARGEST)


def etcd_source(place: Rendezvous, context: Context, path: str, excerpt: str = "") -> Source:
    """Where a reading of etcd came from: a request that a person can repeat on that node."""
    command = f"curl -sS '{place.etcd_endpoint}{path}'"
    return Source(command=command, host=place.asks, taken_at=context.now(), excerpt=excerpt[:500])


def parse_facts(answer: Mapping[str, Any], place: Rendezvous, context: Context) -> Known[EtcdFacts] | Unknown:
    """Health, version, v2, alarms, size and disk latency out of the raw answers."""
    health = answer["health"]
    where = etcd_source(place, context, "/health", str(health.get("body", "")))
    if "error" in health:
        return Unknown(reason=_WHY[health["error"]], detail=f"{health['error']}: {health['what']}", source=where)
    refused = _refusal(health) or _refusal(answer.get("dynamic", {}))
    if refused:
        return Unknown(reason=UnknownReason.DENIED, detail=refused, source=where)
    says = _json(health).get("health")
    if says not in ("true", "false", True, False):
        detail = f"/health is not etcd's: HTTP {health.get('status')}: {str(health.get('body', ''))[:200]}"
        return Unknown(reason=UnknownReason.UNPARSABLE, detail=detail, source=where)
    status = _json(answer.get("status"))
    v2, said = _v2(answer.get("dynamic", {}))
    facts = EtcdFacts(
        endpoint=place.etcd_endpoint,
        healthy=health.get("status") == 200 and says in ("true", True),
        health=str(health.get("body", ""))[:300],
        version=str(_json(answer.get("version")).get("etcdserver", "")),
        v2=v2,
        v2_said=said,
        alarms=_alarms(answer.get("alarms", {}), place, context, answer.get("gateway", "/v3")),
        db_bytes=int(status["dbSize"]) if str(status.get("dbSize", "")).isdecimal() else None,
        v3_keys=_v3_keys(answer.get("v3_keys", [])),
        fsync_p99_s=p99(answer.get("fsync", {})),
    )
    return Known[EtcdFacts](value=facts, source=where)


def _refusal(answer: Mapping[str, Any]) -> str:
    """Why etcd would not answer this reader; "" when it did, or failed otherwise."""
    body = str(answer.get("body", ""))[:300]
    if answer.get("status") in (401, 403) or '"errorCode":110' in body:
        return f"credentials: etcd wants a user with a right to these keys: {body.strip()}"
    return f"tls: {body.strip()}" if _WANTS_TLS in body else ""


def _json(answer: Any) -> dict[str, Any]:
    try:
        found = json.loads((answer or {}).get("body", ""))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _v3(answer: Mapping[str, Any], *fields: str) -> dict[str, Any] | None:
    """The body of an answer of the v3 gateway with such fields, each of which it leaves out where it is empty; None: it is none."""
    try:
        found = json.loads(answer["body"]) if answer.get("status") == 200 else None
    except ODD_ANSWER:
        return None
    return found if isinstance(found, dict) and not found.keys() - {"header", *fields} else None


def _v3_keys(answers: list[Any]) -> int | None:
    """How many keys the v3 store has below torch's roots; None when it did not say."""
    found = [_v3(a, "count", "kvs", "more") for a in answers]
    counts = [str(f.get("count", 0)) for f in found if f is not None]
    return sum(map(int, counts)) if answers and len(counts) == len(found) and all(c.isdecimal() for c in counts) else None


def _v2(answer: Mapping[str, Any]) -> tuple[bool | None, str]:
    """Whether /v2/keys is served: it answers in JSON with a node or one of its own error codes."""
    body = str(answer.get("body", ""))
    if "error" in answer:
        return None, str(answer.get("what", ""))
    if '"node"' in body or '"errorCode"' in body:
        return True, ""
    return (False, body[:200]) if answer.get("status") == 404 else (None, body[:200])


def _alarms(answer: Mapping[str, Any], place: Rendezvous, context: Context, gateway: str) -> Known[tuple[str, ...]] | Unknown:
    where = etcd_source(place, context, f"{gateway}/maintenance/alarm", str(answer.get("body", "")))
    if answer.get("status") != 200:
        detail = str(answer.get("what") or answer.get("body", ""))[:200]
        return Unknown(reason=UnknownReason.FAILED, detail=detail, source=where)
    found = _v3(answer, "alarms")
    if found is None:
        return Unknown(reason=UnknownReason.UNPARSABLE, detail="not an answer of etcd's gateway", source=where)
    try:
        names = tuple(given(a, "alarm", str) for a in given({"alarms": []} | found, "alarms", list))
    except ODD_ANSWER as e:
        return Unknown(reason=UnknownReason.UNPARSABLE, detail=f"no list of alarms: {e}"[:200], source=where)
    return Known[tuple[str, ...]](value=names, source=where)


def p99(buckets: Mapping[str, float]) -> float | None:
    """Upper bound of the histogram bucket that holds the 99th percentile; None below 100 samples."""
    rows = sorted((float("inf") if le == "+Inf" else float(le), n) for le, n in buckets.items())
    if not rows or rows[-1][1] < 100:
        return None
    return next(le for le, n in rows if n >= 0.99 * rows[-1][1])


def parse_runs(answer: Mapping[str, Any], place: Rendezvous) -> tuple[RunKeys, ...]:
    """Every run of both backends. Raises NotEtcd or TransportError (denied) when a tree could not be read."""
    trees = {}
    for name in ("dynamic", "store", "legacy"):
        found = answer.get(name, {"error": "other", "what": "not asked, an earlier read failed"})
        if "error" in found:
            raise NotEtcd(f"{name}: {found['error']}: {found['what']}")
        if _refusal(found):
            raise TransportError(UnknownReason.DENIED, _refusal(found), f"GET {name}")
        trees[name] = parse_tree(found["body"])
    return (*dynamic_runs(trees["dynamic"], trees["store"]), *legacy_runs(trees["legacy"], place.prefix))


def read_runs(host: Host, place: Rendezvous) -> tuple[RunKeys, ...]:
    """Every run now. Raises TransportError, NotEtcd."""
    return parse_runs(ask_etcd(host, place, keys_only=True), place)


def unknown_keys(error: TransportError | NotEtcd, place: Rendezvous, context: Context) -> Unknown:
    """A failed read of the keys as a reading."""
    reason = error.reason if isinstance(error, TransportError) else UnknownReason.UNPARSABLE
    return Unknown(reason=reason, detail=str(error), source=etcd_source(place, context, "/v2/keys/?recursive=true"))
