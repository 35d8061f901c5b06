"""Connections to one PostgreSQL that stay open, for a server whose threads come and go."""

import asyncio
from collections.abc import Awaitable, Callable
from threading import Thread
from typing import Any, TypeVar

import asyncpg

T = TypeVar("T")


class Connections:
    """Work is handed in from any thread and done on one loop; a connection that died is not used again."""

    def __init__(self, url: str, statement_timeout_ms: int) -> None:
        self.url, self._settings = url, {"statement_timeout": str(statement_timeout_ms)}
        self._loop, self._free = asyncio.new_event_loop(), list[Any]()
        Thread(target=self._loop.run_forever, daemon=True).start()

    def run(self, work: Callable[[Any], Awaitable[T]]) -> T:
        """What the work returns. Raises OSError where the database cannot be reached, and what the work raises."""
        return asyncio.run_coroutine_threadsafe(self._with_one(work), self._loop).result()

    async def _with_one(self, work: Callable[[Any], Awaitable[T]]) -> T:
        self._free = [c for c in self._free if not c.is_closed()]
        c = self._free.pop() if self._free else await self._open()
        try:
            return await work(c)
        finally:
            self._free.append(c)

    async def _open(self) -> Any:
        return await asyncpg.connect(self.url, server_settings=self._settings, statement_cache_size=0)

    def close(self) -> None:
        """End them all."""
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)

    async def _end(self) -> None:
        for c in self._free:
            c.terminate()
