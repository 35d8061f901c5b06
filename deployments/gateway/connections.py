"""How the gateway listens: bounded connections, and none that holds its place by sending nothing or very little."""

import asyncio
import resource
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from deployments.gateway.settings import GatewaySettings

MOST_CONNECTIONS = 512
KEEP_ALIVE_S = 30
HEADERS_S = 8.0  # from the first byte (or the connection) to the end of a request's headers; its body has a limit of its own
LARGEST_HEADERS = 32 << 10
HANDSHAKE_S = 5.0  # for TLS; asyncio's own limit is a minute
MOST_SILENT = 256  # connections without a whole request yet: of more, the one that has waited longest is closed
OPEN_FILES = 16_384  # connections that have not begun TLS hold nothing but their file


class Loop(asyncio.SelectorEventLoop):
    """asyncio's loop, with a limit of ours for TLS handshakes: uvicorn has no setting for it."""

    async def create_server(self, *args: Any, **kwargs: Any) -> asyncio.Server:
        """As asyncio's."""
        limit = {"ssl_handshake_timeout": HANDSHAKE_S} if kwargs.get("ssl") else {}
        return await super().create_server(*args, **(limit | kwargs))


def allow_open_files() -> None:
    """Raises this process's soft limit of open files: the usual 1,024 are soon held by connections that say nothing."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class Prompt(H11Protocol):
    """uvicorn's protocol waits for ever for the headers of a request that has begun: this one closes."""

    _deadline: asyncio.TimerHandle | None = None
    _silent: "dict[Prompt, None]" = {}  # of all connections, the longest silent one first

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect()
        if len(self._silent) > MOST_SILENT:
            longest = next(iter(self._silent))
            longest._forget()
            longest.transport.abort()

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
            self._silent[self] = None
            self._deadline = self.loop.call_later(HEADERS_S, self.transport.close)

    def _forget(self) -> None:
        self._silent.pop(self, None)
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
        loop=f"{__name__}:{Loop.__name__}",
        ws="none",
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_keep_alive=KEEP_ALIVE_S,
        h11_max_incomplete_event_size=LARGEST_HEADERS,
    )
