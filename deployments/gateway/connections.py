"""How the gateway listens: bounded connections, and none that holds its place by sending nothing or very little."""

import asyncio

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from deployments.gateway.settings import GatewaySettings

MOST_CONNECTIONS = 512
KEEP_ALIVE_S = 30
HEADERS_S = 8.0  # from the first byte (or the connection) to the end of a request's headers; its body has a limit of its own
LARGEST_HEADERS = 32 << 10


class Prompt(H11Protocol):
    """uvicorn's protocol waits for ever for the headers of a request that has begun: this one closes."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect()

    def data_received(self, data: bytes) -> None:
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:
            self._forget()
        elif before is None or before.response_complete:
            self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    def _expect(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(HEADERS_S, self.transport.close)

    def _forget(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def server_config(app: FastAPI, settings: GatewaySettings) -> uvicorn.Config:
    """Everything uvicorn is told."""
    return uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        ssl_certfile=settings.tls_cert,
        ssl_keyfile=settings.tls_key,
        http=Prompt,
        ws="none",
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_keep_alive=KEEP_ALIVE_S,
        h11_max_incomplete_event_size=LARGEST_HEADERS,
    )
