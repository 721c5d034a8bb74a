"""Bodies and decoded pictures of all requests together are bounded in bytes and in time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request

from fcfg.studio.bodies import Bodies, Room

pytestmark = pytest.mark.anyio
LONG = 100.0  # seconds that no test waits


def request_of(pieces: AsyncIterator[bytes]) -> Request:
    """A request whose body comes in pieces; after the last one, more is announced for ever."""

    async def receive() -> dict[str, object]:
        piece = await anext(pieces, None)
        if piece is None:
            await asyncio.sleep(LONG)
        return {"type": "http.request", "body": piece, "more_body": piece != b"end"}

    return Request({"type": "http", "method": "POST", "headers": []}, receive)


async def pieces(*given: bytes, pause: float = 0.0) -> AsyncIterator[bytes]:
    for piece in given:
        await asyncio.sleep(pause)
        yield piece


async def received(bodies: Bodies, body: AsyncIterator[bytes]) -> bytes | int:
    """The body, or the status of its refusal."""
    try:
        async with bodies.read(request_of(body), 10**6) as data:
            return data
    except HTTPException as error:
        return error.status_code


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.parametrize(
    "body",
    [
        pieces(),
        pieces(b"x" * 1000),  # fast at first
        pieces(*[b"x"] * 100, pause=0.02),  # always a little
    ],
    ids=["nothing", "a part", "drops"],
)
async def test_a_slow_body_is_given_up(body: AsyncIterator[bytes]) -> None:
    assert await received(Bodies(10**6, patience=0.2), body) == 408


async def test_a_body_that_keeps_its_rate_may_take_longer_than_one_may_be_silent() -> None:
    body = [b"x" * 2**16] * 5 + [b"end"]
    whole = await received(Bodies(10**6, patience=0.5), pieces(*body, pause=0.15))
    assert whole == b"".join(body)


async def test_the_largest_body_makes_room_for_others() -> None:
    bodies = Bodies(1000, LONG)
    slow = [asyncio.create_task(received(bodies, pieces(b"x" * size))) for size in (300, 400, 200)]
    await asyncio.sleep(0.05)
    assert await received(bodies, pieces(b"y" * 150, b"end")) == b"y" * 150 + b"end"
    assert await slow[1] == 408
    assert not slow[0].done()
    assert not slow[2].done()
    assert await received(bodies, pieces(b"z" * 1001, b"end")) == 408  # itself, too
    for one in slow:
        one.cancel()


async def test_a_body_counts_until_it_is_worked_on() -> None:
    bodies = Bodies(1000, LONG)
    async with bodies.read(request_of(pieces(b"x" * 800, b"end")), 10**6):
        assert await received(bodies, pieces(b"y" * 400, b"end")) == 408
    assert await received(bodies, pieces(b"y" * 400, b"end")) == b"y" * 400 + b"end"


async def test_a_large_picture_waits_for_another_and_a_small_one_does_not() -> None:
    room, order = Room(100, LONG), list[str]()

    async def decode(name: str, size: int, seconds: float = 0.0) -> None:
        async with room.take(size):
            await asyncio.sleep(seconds)
            order.append(name)

    await asyncio.gather(decode("first", 80, 0.2), decode("second", 80), decode("small", 20))
    assert order == ["small", "first", "second"]


async def test_who_finds_no_room_is_told_to_come_again() -> None:
    room = Room(100, patience=0.05)
    async with room.take(100):
        with pytest.raises(HTTPException, match="try again in a moment") as refused:
            async with room.take(1):
                pass
    assert refused.value.status_code == 503
    async with room.take(100):  # nothing was kept
        pass
