"""Bodies of requests, and pictures decoded from them: bounded in bytes over all requests."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from starlette.exceptions import HTTPException
from starlette.requests import Request

_RATE = 64 * 2**10  # bytes a second that a body has at least


class Bodies:
    """Bodies that arrive or are worked on.

    Args:
        most: Largest number of bytes of all. Where there are more, the largest body that still
            arrives is given up, so that small ones get through.
        patience: Longest time in seconds without enough bytes.
    """

    def __init__(self, most: int, patience: float) -> None:
        self._most, self._patience = most, patience
        self._arriving: dict[asyncio.Timeout, int] = {}  # bytes so far
        self._arrived = 0  # bytes

    @asynccontextmanager
    async def read(self, request: Request, most: int) -> AsyncGenerator[bytes]:
        """Yield the body of a request; its bytes count until the end of the block."""
        too_long = HTTPException(
            413, f"body: expected at most {most:,} bytes, got more; send fewer."
        )
        length = request.headers.get("content-length", "0")
        if length.isdecimal() and int(length) > most:
            raise too_long
        body, time = io.BytesIO(), asyncio.get_running_loop().time
        limit = asyncio.timeout(self._patience)
        self._arriving[limit], until = 0, time() + self._patience
        try:
            async with limit:
                async for piece in request.stream():
                    if body.tell() + len(piece) > most:
                        raise too_long
                    body.write(piece)
                    self._count(limit, body.tell())
                    until = min(time() + self._patience, until + len(piece) / _RATE)
                    limit.reschedule(until)
        except TimeoutError as error:
            raise HTTPException(
                408,
                f"body: expected {_RATE:,} bytes a second, and room for them, "
                "got a part; send it again.",
            ) from error
        finally:
            self._arriving.pop(limit, None)
        self._arrived += body.tell()
        try:
            yield body.getvalue()
        finally:
            self._arrived -= body.tell()

    def _count(self, limit: asyncio.Timeout, size: int) -> None:
        """Note the size of a body, and give up the largest ones until all fit."""
        if limit in self._arriving:
            self._arriving[limit] = size
        while self._arriving and self._arrived + sum(self._arriving.values()) > self._most:
            largest = max(self._arriving, key=lambda one: self._arriving[one])
            del self._arriving[largest]
            if not largest.expired():
                largest.reschedule(0)
        if limit not in self._arriving:
            raise TimeoutError


class Room:
    """Bytes of decoded pictures."""

    def __init__(self, most: int, patience: float) -> None:
        self._most, self._patience = most, patience
        self._taken, self._changed = 0, asyncio.Condition()

    @asynccontextmanager
    async def take(self, size: int) -> AsyncGenerator[None]:
        """Take bytes until the end of the block, once they are free."""
        try:
            async with asyncio.timeout(self._patience), self._changed:
                await self._changed.wait_for(lambda: self._taken + size <= self._most)
                self._taken += size
        except TimeoutError as error:
            raise HTTPException(
                503, "picture: expected few large ones at once, got many; try again in a moment."
            ) from error
        try:
            yield
        finally:
            self._taken -= size  # before a wait, which may be cancelled
            async with self._changed:
                self._changed.notify_all()
