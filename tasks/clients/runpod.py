"""A thin client of RunPod's three surfaces. Reads pods and their logs; stops or ends one pod by its id. No retries."""

import json
import re
import time
from typing import Any

import httpx

from runbooks.core.orchestrator_config import RunPodConfig
from runbooks.core.reading import ODD_ANSWER, UnknownReason
from runbooks.core.redact import Redactor
from runbooks.parsers.runpod import Pod, merge, parse_pod, parse_pods
from runbooks.parsers.runpod_stock import TypeStock, Volume, parse_stock, parse_volumes
from tasks.credentials import credential, where
from tasks.transport.base import TransportError
from tasks.transport.http import WHOLE, read_whole

POD_QUERY = """query pod($id: String!) { pod(input: {podId: $id}) { id name desiredStatus lastStatusChange imageName
 costPerHr gpuCount machineId podType ports runtime { uptimeInSeconds ports { ip isIpPublic privatePort publicPort type }
 gpus { id } } } }"""
STOCK_QUERY = "query stock($n: Int!%s) { gpuTypes { id displayName memoryInGb %s } }"
PRICE = "%s: lowestPrice(input: {gpuCount: $n%s}) { stockStatus }"
PLACE, CLOUD = ", dataCenterId: $place", ", secureCloud: $secure"
MOST_BYTES = 16 << 20
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


class NotFound(Exception):
    """The provider has no such pod at this moment."""


class RunPodClient:
    """One run's access to the provider."""

    def __init__(self, config: RunPodConfig, redactor: Redactor) -> None:
        key = credential(config.key_env).strip()
        if not key:
            raise TransportError(UnknownReason.DENIED, f"{where(config.key_env)}, which should hold the API key, is empty")
        self._config = config
        self._redactor = redactor.knowing({config.key_env: key})
        self._http = httpx.Client(
            timeout=config.timeout_s, headers={"Authorization": f"Bearer {key}"}, follow_redirects=False
        )

    def close(self) -> None:
        """End the connections."""
        self._http.close()

    def pods(self) -> tuple[Pod, ...]:
        """All pods whose name has this orchestrator's prefix (REST v1). Raises TransportError."""
        return tuple(p for p in self.every_pod() if p.name.startswith(self._config.name_prefix))

    def every_pod(self) -> tuple[Pod, ...]:
        """All pods of the account, those of others too (REST v1). Raises TransportError."""
        found: tuple[Pod, ...] = self._parse(parse_pods, self._json("GET", f"{self._config.rest_url}/pods"), "pods")
        return found

    def pod(self, pod_id: str) -> Pod:
        """One pod: REST v1, completed by GraphQL's runtime. Raises NotFound, TransportError."""
        first = self._parse(parse_pod, self._json("GET", f"{self._config.rest_url}/pods/{_checked(pod_id)}"), "pod")
        if first.id != pod_id:
            raise TransportError(
                UnknownReason.UNPARSABLE, f"asked for pod {pod_id}, the answer is about another one", f"GET {pod_id}"
            )
        try:
            second = self._runtime(pod_id)
        except (NotFound, TransportError):
            second = None  # the runtime is then not given, which is no null
        return merge(first, second if second is None or second.id == pod_id else None)

    def _runtime(self, pod_id: str) -> Pod | None:
        body = {"query": POD_QUERY, "variables": {"id": pod_id}}
        got = self._json("POST", self._config.graphql_url, body)
        data = (got.get("data") or {}).get("pod") if isinstance(got, dict) else None
        return self._parse(parse_pod, data, "pod") if data else None

    def stock(self, gpus: int, place: str = "", secure: bool | None = None) -> tuple[TypeStock, ...]:
        """Every GPU type with its stock for pods of so many GPUs, also in one data centre, in the secure or the community cloud,
        and in both together (GraphQL). Raises TransportError."""
        asked = [("anywhere", "")] + ([("here", PLACE)] if place else []) + ([("in_cloud", CLOUD)] if secure is not None else [])
        asked += [("here_in_cloud", PLACE + CLOUD)] if place and secure is not None else []
        names = (", $place: String!" if place else "") + (", $secure: Boolean!" if secure is not None else "")
        given = {"n": gpus} | ({"place": place} if place else {}) | ({"secure": secure} if secure is not None else {})
        body = {"query": STOCK_QUERY % (names, " ".join(PRICE % one for one in asked)), "variables": given}
        got = self._json("POST", self._config.graphql_url, body)
        if not isinstance(got, dict) or got.get("errors"):
            said = str(got.get("errors"))[:200] if isinstance(got, dict) else "no answer to the query"
            raise TransportError(UnknownReason.FAILED, self._redactor.text(said), "gpuTypes")
        found: tuple[TypeStock, ...] = self._parse(parse_stock, (got.get("data") or {}).get("gpuTypes"), "stock")
        return found

    def volumes(self) -> tuple[Volume, ...]:
        """The account's network volumes (REST v1). Raises TransportError."""
        url = f"{self._config.rest_url}/networkvolumes"
        found: tuple[Volume, ...] = self._parse(parse_volumes, self._json("GET", url), "network volumes")
        return found

    def log(self, pod_id: str, seconds: float = 5.0, lines: int = 200) -> tuple[str, ...]:
        """The newest lines of the pod's log (REST v2, server-sent events). Raises NotFound, TransportError."""
        url, kept = f"{self._config.rest2_url}/pods/{_checked(pod_id)}/logs", bytearray()
        until = time.monotonic() + seconds
        try:
            with self._http.stream("GET", url, timeout=httpx.Timeout(self._config.timeout_s, read=seconds)) as r:
                self._check(r.status_code, "", "GET", url)
                for part in r.iter_bytes():
                    kept += part
                    if time.monotonic() > until or len(kept) > MOST_BYTES:
                        break
        except httpx.ReadTimeout:
            pass  # the stream goes on for ever; what came is the log
        except httpx.HTTPError as e:
            raise self._explain(e, "GET", url) from None
        told = [
            x.removeprefix("data:").strip()
            for x in kept.decode("utf-8", "replace").splitlines()
            if x.startswith("data:")
        ]
        return tuple(self._redactor.text(_message(x))[:500] for x in [x for x in told if x][-lines:])

    def terminate(self, pod_id: str) -> None:
        """End one pod for good. Raises NotFound, TransportError (whether it was done is then not known)."""
        self._json("DELETE", f"{self._config.rest_url}/pods/{_checked(pod_id)}")

    def stop(self, pod_id: str) -> None:
        """Stop one pod; its disk stays. Raises NotFound, TransportError."""
        self._json("POST", f"{self._config.rest_url}/pods/{_checked(pod_id)}/stop")

    def _json(self, method: str, url: str, body: Any = None) -> Any:
        try:
            with self._http.stream(method, url, json=body) as r:
                text = read_whole(r, MOST_BYTES, WHOLE * self._config.timeout_s)
        except httpx.HTTPError as e:
            raise self._explain(e, method, url) from None
        self._check(r.status_code, text, method, url)
        try:
            return json.loads(text) if text.strip() else None
        except (ValueError, RecursionError):
            raise TransportError(
                UnknownReason.UNPARSABLE, f"not JSON: {self._redactor.text(text[:80])}", f"{method} {url}"
            ) from None

    def _check(self, status: int, text: str, method: str, url: str) -> None:
        if status == 404:
            raise NotFound(f"{method} {url}: HTTP 404")
        if status in (401, 403):
            raise TransportError(UnknownReason.DENIED, f"HTTP {status}: {self._redactor.text(text[:120])}", f"{method} {url}")
        if status == 429:
            raise TransportError(
                UnknownReason.FAILED, "HTTP 429: too many calls; nothing is known, and nothing was asked again", f"{method} {url}"
            )
        if not 200 <= status < 300:
            raise TransportError(UnknownReason.FAILED, f"HTTP {status}: {self._redactor.text(text[:200])}", f"{method} {url}")

    def _explain(self, error: httpx.HTTPError, method: str, url: str) -> TransportError:
        timed = isinstance(error, httpx.TimeoutException) and not isinstance(error, httpx.ConnectTimeout)
        return TransportError(UnknownReason.TIMED_OUT if timed else UnknownReason.UNREACHABLE, type(error).__name__, f"{method} {url}")

    def _parse(self, parse: Any, data: Any, what: str) -> Any:
        try:
            return parse(data)
        except ODD_ANSWER as e:
            raise TransportError(UnknownReason.UNPARSABLE, f"{what}: {e}") from None


def is_pod_id(text: str) -> bool:
    """Whether it has the form of a pod's id."""
    return bool(_ID.fullmatch(text))


def _checked(pod_id: str) -> str:
    if not is_pod_id(pod_id):
        raise TransportError(UnknownReason.FAILED, f"{pod_id!r} is no pod id")
    return pod_id


def _message(text: str) -> str:
    """The line in an event: plain, or JSON with a message."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return str(data.get("message") or data.get("line") or data) if isinstance(data, dict) else str(data)
