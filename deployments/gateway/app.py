"""The gateway as a web application: alerts in, health and metrics out, approvals by link. Nothing is decided here."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module, resources
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.responses import JSONResponse, PlainTextResponse, Response

from deployments.gateway.alerts_route import alerts_router
from deployments.gateway.prefect_status import PrefectStatus
from deployments.gateway.self_metrics import SelfHealth
from deployments.gateway.service import Service
from deployments.gateway.settings import GatewaySettings
from deployments.pool import POOL
from flows.self_health import read_health

DRAIN_LIMIT_S = 600.0
APPROVE = "deployments.gateway.approve"  # signed links to approve or reject; its router factory is approve_router()
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def create_app(settings: GatewaySettings, service: Service | None = None) -> FastAPI:
    """The whole application. `service` is made from the settings unless one is given."""
    made = service or Service(settings)
    made.metrics.also(SelfHealth(lambda: read_health(POOL)))

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        await asyncio.to_thread(made.start)
        yield
        await asyncio.to_thread(drain, made)

    app = FastAPI(title="gpu-runbooks gateway", lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)
    app.state.service = made
    app.include_router(alerts_router(made))
    _add_pages(app, made)
    if find_spec(APPROVE):
        app.include_router(import_module(APPROVE).approve_router())
    return app


def _add_pages(app: FastAPI, service: Service) -> None:
    prefect = PrefectStatus()

    @app.get("/healthz")
    async def healthz() -> JSONResponse:
        """200 while alerts are taken and their runs can begin here; whether Prefect answers is said, not decided upon."""
        queued, running = service.runner.counts() if service.runner else (0, 0)
        able = service.runner is None or service.runner.able
        said: dict[str, Any] = {"draining": service.draining, "queued": queued, "running": running, "config_ok": service.files.in_order}
        said |= {"warm": able, "prefect": await asyncio.to_thread(prefect.said)}
        return JSONResponse(said, 503 if service.draining or not able else 200)

    @app.get("/metrics")
    async def metrics() -> Response:
        """The gateway's counts, and how the engine itself is: runs, locks, questions, reaper, pool."""
        return Response(await asyncio.to_thread(service.metrics.text), media_type=METRICS_TYPE)

    pages = alert_pages()

    @app.get("/alert-pages/{name}")
    async def alert_page(name: str) -> Response:
        """The page of an alert about the engine itself: what `runbook_url` of the rules leads to."""
        return PlainTextResponse(pages[name]) if name in pages else PlainTextResponse("no such alert", 404)


def alert_pages() -> dict[str, str]:
    """The page of each alert about the engine itself, by the alert's name."""
    folder = resources.files("deployments").joinpath("alert_pages")
    return {Path(p.name).stem: p.read_text(encoding="utf-8") for p in folder.iterdir() if p.name.endswith(".md")}


def drain(service: Service, limit_s: float = DRAIN_LIMIT_S) -> None:
    """No new run; waits for the runs in progress to end (ten minutes at most: a person may have killed their machine)."""
    service.drain()
    deadline = time.monotonic() + limit_s
    while service.runner and not service.runner.idle() and time.monotonic() < deadline:
        time.sleep(0.2)
    if service.runner:
        service.runner.close()
