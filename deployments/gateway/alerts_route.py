"""POST /alerts/…: limits, authentication, parsing, and one answer for all alerts of a request."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from httpx import HTTPStatusError, TransportError
from prefect.exceptions import ObjectNotFound

from deployments.gateway.auth import Answered, Denied, header_proves, proves_nothing, signature_of, verify
from deployments.gateway.limits import Bucket, Buckets, TooLarge, read_body
from deployments.gateway.service import AlertAnswer, NotStarted, Service
from runbooks.alerts.alert import Alert, AlertSource, BadPayload
from runbooks.alerts.payloads import pagerduty_event, parse

log = logging.getLogger("gateway")
Post = Callable[[Request, AlertSource], Awaitable[JSONResponse]]
Handler = Callable[[Request], Awaitable[JSONResponse]]
READ_LIMIT_S = 15.0
AT_ONCE = 8
WRONG_PER_SECOND, WRONG_BURST = 0.5, 10
COME_AGAIN_S = "5"
EVENT_AGE_S = 24 * 3600.0  # PagerDuty tries again for so long; an older event is a repetition by somebody else
TOO_MANY = "too many refused requests from here"
NO_SUCH_DEPLOYMENT = "the runbooks' deployments are not registered on the Prefect server: gpu-runbooks up"


class RequestRefused(Exception):
    """A request that is answered without a look at its alerts."""

    def __init__(self, code: int, why: str, again: bool = False) -> None:
        super().__init__(why)
        self.code, self.why, self.again = code, why, again


class AlertDesk:
    """The limits and the threads behind the routes."""

    def __init__(self, service: Service) -> None:
        self.service = service
        s = service.settings
        self.bucket = Bucket(s.per_second, s.burst)
        self.wrong = Buckets(WRONG_PER_SECOND, WRONG_BURST)
        self.answered = Answered(s.replay_window_s)
        self.events = Answered(EVENT_AGE_S)
        self.threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="alert")

    async def believed_body(self, request: Request, source: AlertSource) -> tuple[bytes, str]:
        """The body of a request that is believed, and its signature if it has one. Raises Refusal."""
        settings, pagerduty = self.service.settings, source is AlertSource.PAGERDUTY
        if proves_nothing(settings, request.headers, pagerduty):
            raise self._denied(request, "authentication required")
        if not settings.open and not header_proves(settings, request.headers) and self.wrong.empty(_sender(request)):
            raise RequestRefused(429, TOO_MANY)  # only its body could prove it, and it is not read any more
        try:
            body = await asyncio.wait_for(read_body(request, settings.largest_body), READ_LIMIT_S)
            how = verify(settings, request.headers, body, time.time(), pagerduty)
        except TooLarge:
            raise RequestRefused(413, f"larger than {settings.largest_body} bytes; in Alertmanager set max_alerts") from None
        except TimeoutError:
            raise RequestRefused(408, "the body did not arrive in time") from None
        except Denied as e:
            raise self._denied(request, str(e)) from None
        if self.service.draining:
            raise RequestRefused(503, "closing", again=True)
        if self.bucket.take():
            raise RequestRefused(503, "more requests than this gateway takes; try again later", again=True)
        return body, signature_of(request.headers) if how == "signature" else ""

    def _denied(self, request: Request, why: str) -> RequestRefused:
        return RequestRefused(429, TOO_MANY) if self.wrong.take(_sender(request)) else RequestRefused(401, why)

    async def take_all(self, alerts: tuple[Alert, ...]) -> list[AlertAnswer]:
        """All alerts, a few at a time; one that fails never stops the others."""
        loop = asyncio.get_running_loop()
        jobs = [loop.run_in_executor(self.threads, partial(self.take, alert)) for alert in alerts]
        return [answer for answers in await asyncio.gather(*jobs) for answer in answers]

    def take(self, alert: Alert) -> list[AlertAnswer]:
        """One alert; the server's silence becomes an answer."""
        try:
            return self.service.take(alert)
        except (TransportError, HTTPStatusError, ObjectNotFound) as e:
            outcome, why = _trouble(e)
        except Exception as e:  # a fault of ours: the sender keeps the alert and comes again
            log.exception("alert not taken")
            outcome, why = NotStarted.UNAVAILABLE, f"internal error: {type(e).__name__}"
        self.service.metrics.alerts.labels(alert.source.value, outcome.value).inc()
        log.warning("alert not taken: %s", why)
        return [AlertAnswer(alert=alert.name, outcome=outcome, why=why)]


def _sender(request: Request) -> str:
    return request.client.host if request.client else "-"


def _trouble(e: Exception) -> tuple[NotStarted, str]:
    if isinstance(e, ObjectNotFound):
        return NotStarted.UNAVAILABLE, NO_SUCH_DEPLOYMENT
    if isinstance(e, HTTPStatusError) and e.response.status_code in (409, 422):
        return NotStarted.UNUSABLE, "the Prefect server refuses these parameters; does it know this fleet file? gpu-runbooks up --fleet"
    return NotStarted.UNAVAILABLE, f"the Prefect server does not answer ({type(e).__name__})"


def alerts_router(service: Service) -> APIRouter:
    """POST /alerts/{alertmanager,grafana,pagerduty,generic}."""
    router, desk = APIRouter(), AlertDesk(service)

    async def post(request: Request, source: AlertSource) -> JSONResponse:
        began = time.monotonic()
        try:
            response = await _answer(desk, request, source)
        except RequestRefused as r:
            headers = {"Retry-After": COME_AGAIN_S} if r.again else {}
            headers |= {"WWW-Authenticate": "Bearer"} if r.code == 401 else {}
            response = JSONResponse({"error": r.why}, r.code, headers)
        service.metrics.requests.labels(source.value, str(response.status_code)).inc()
        service.metrics.answer.labels(source.value).observe(time.monotonic() - began)
        return response

    for source in AlertSource:
        router.add_api_route(
            f"/alerts/{source.value}", _route(post, source), methods=["POST"], response_model=None, name=source.value
        )
    return router


def _route(post: Post, source: AlertSource) -> Handler:
    async def handler(request: Request) -> JSONResponse:
        return await post(request, source)

    return handler


async def _answer(desk: AlertDesk, request: Request, source: AlertSource) -> JSONResponse:
    body, signature = await desk.believed_body(request, source)
    if signature and desk.answered.seen(signature, time.time()):
        return JSONResponse({"alerts": [], "note": "answered before; ignored"})
    try:
        alerts = parse(source, body)
        event, at = pagerduty_event(body) if source is AlertSource.PAGERDUTY else ("", None)
    except BadPayload as e:
        raise RequestRefused(400, str(e)) from None
    if at is not None and abs(time.time() - at.timestamp()) > EVENT_AGE_S and not desk.service.settings.open:
        return JSONResponse({"alerts": [], "note": "this event is more than a day old; ignored"})
    if event and desk.events.seen(event, time.time()):
        return JSONResponse({"alerts": [], "note": "this event was answered before; ignored"})
    answers = await desk.take_all(alerts)
    code = _code(answers)
    if signature and code == 200:
        desk.answered.add(signature, time.time())
    if event and code == 200:
        desk.events.add(event, time.time())
    headers = {"Retry-After": COME_AGAIN_S} if code == 503 else {}
    return JSONResponse({"alerts": [a.model_dump(exclude_defaults=True) for a in answers]}, code, headers)


def _code(answers: list[AlertAnswer]) -> int:
    """200 only if every mapped alert has its run: 503 has the sender come again, 422 shows up as failed over there."""
    outcomes = {a.outcome for a in answers}
    if NotStarted.UNAVAILABLE in outcomes:
        return 503
    return 422 if NotStarted.UNUSABLE in outcomes else 200
