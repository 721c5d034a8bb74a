"""What every request must pass: host, origin, rate, token, and room for its body; and headers.

The server listens to this machine alone unless it is told otherwise; then a token is needed. A
page of another site can neither read nor ask anything: its origin differs, and a name that it
points to this machine (DNS rebinding) is not one of ours.
"""

from __future__ import annotations

import asyncio
import hmac
import io
import ipaddress
import json
import re
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fcfg.support.hashing import hex_digest

HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}
ADMITTED = "admitted"  #: key in the state of a request that passed, while it is worked on
_LENGTH = 600  # of a message
_CLIENTS = 4096  # addresses whose rate is known
_RATE = 64 * 2**10  # bytes a second that a body has at least
_HOST = re.compile(r"(?:\[([0-9a-f:]+)\]|([^:]+))(?::\d+)?")  # name and port


class JSON(JSONResponse):
    """A reply in ASCII, which any text of a client can be quoted in."""

    def render(self, content: Any) -> bytes:
        """Return the bytes of the reply."""
        return json.dumps(content, allow_nan=False).encode()


def refusal(status: int, message: str) -> JSON:
    """Return a reply that says why, in a line of bounded length."""
    short = message if len(message) <= _LENGTH else f"{message[:_LENGTH]}…"
    return JSON({"error": short}, status)


def most_connections() -> int:
    """Return how many connections leave half of the files of this process free."""
    try:
        import resource
    except ImportError:  # Windows
        return 256
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 1024 if files == resource.RLIM_INFINITY else min(1024, files // 2)


@dataclass(frozen=True)
class Rule:
    """Who may ask, and how often."""

    token: str | None = None  #: that strangers need; None if only this machine can connect
    rate: float = 200.0  #: requests per second of one address, on average
    burst: float = 2000.0  #: requests that may come at once
    patience: float = 10.0  #: seconds that the server waits for a client
    connections: int = field(default_factory=most_connections)
    """Connections at once; three quarters of them may have a request that is worked on.

    Of one address there are three quarters, and half of them with such a request.
    """
    clock: Callable[[], float] = field(default=time.monotonic, repr=False)


def is_loopback(host: str) -> bool:
    """Return whether a name or address means this machine alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Safety:
    """Lets requests pass, or refuses them."""

    def __init__(self, app: ASGIApp, rule: Rule) -> None:
        self._app, self._rule = app, rule
        self._busy = Counter[str]()  # requests that are worked on, by address
        self._tokens: OrderedDict[str, tuple[float, float]] = OrderedDict()  # left, and when

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request, state, unread = Request(scope), scope.setdefault("state", {}), True
        address = request.client.host if request.client else ""

        def leave() -> None:
            if state.pop(ADMITTED, False):
                self._busy -= Counter((address,))

        async def receive_noting() -> Message:
            nonlocal unread
            message = await receive()
            unread = message.get("more_body", False)
            return message

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            elif unread and not message.get("more_body", False):
                # A connection that is closed with bytes unread is reset, and the reply is lost.
                await send({**message, "more_body": True})
                leave()
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._rule.patience):
                        while unread:
                            await receive_noting()
                message = {"type": "http.response.body"}
            await send(message)

        places = self._places_of_token(request)
        reply = self._too_often(f"{address} {bool(places)}") or self._from_elsewhere(request)
        reply = reply or self._without_token(places) or self._too_many(address)
        if reply is not None:
            await reply(scope, receive, send_safely)
            return
        state[ADMITTED] = True
        self._busy[address] += 1
        try:
            await self._app(scope, receive_noting, send_safely)
        finally:
            leave()

    def _too_many(self, address: str) -> Response | None:
        """Refuse a request if too many are worked on, so that connections stay free for others."""
        most = self._rule.connections
        if self._busy[address] < most // 2 and self._busy.total() < most * 3 // 4:
            return None
        wanted = f"at most {most // 2} of an address at once, and {most * 3 // 4} in all"
        return refusal(503, f"requests: expected {wanted}, got more; try again in a moment.")

    def _too_often(self, sender: str) -> Response | None:
        """Refuse more requests than a bucket of tokens holds, which fills at a constant rate."""
        rule, now = self._rule, self._rule.clock()
        left, before = self._tokens.pop(sender, (rule.burst, now))
        left = min(rule.burst, left + (now - before) * rule.rate)
        self._tokens[sender] = max(0.0, left - 1), now
        if len(self._tokens) > _CLIENTS:
            self._tokens.popitem(last=False)
        if left >= 1:
            return None
        wanted = f"at most {rule.rate:g} a second"
        reply = refusal(429, f"requests: expected {wanted}, got more; wait a second.")
        reply.headers["retry-after"] = "1"
        return reply

    def _from_elsewhere(self, request: Request) -> Response | None:
        """Refuse pages of other sites."""
        host = request.headers.get("host", "")
        name = _HOST.fullmatch(host)
        if self._rule.token is None and not (name and is_loopback(name[1] or name[2])):
            got, do = repr(host[:80]), "open the address that fcfg studio printed"
            return refusal(421, f"host: expected localhost or 127.0.0.1, got {got}; {do}.")
        origin = request.headers.get("origin")
        site = request.headers.get("sec-fetch-site", "none")
        foreign = origin not in (None, f"http://{host}", f"https://{host}")
        inner = request.url.path.startswith("/api/")
        if foreign or (inner and site not in ("none", "same-origin")):
            wanted = "the page of this server"
            return refusal(403, f"origin: expected {wanted}, got another site; open the page.")
        return None

    def _places_of_token(self, request: Request) -> list[str]:
        """Return where a request has the token."""
        token = self._rule.token or ""
        given = {
            "address": request.query_params.get("token", "") if request.method == "GET" else "",
            "cookie": request.cookies.get(cookie_of(token), ""),
            "header": request.headers.get("authorization", "").removeprefix("Bearer "),
        }
        right = token.encode()
        return [each for each in given if hmac.compare_digest(given[each].encode(), right)]

    def _without_token(self, places: Sequence[str]) -> Response | None:
        """Refuse strangers without a token; keep a right one in a cookie, out of the address."""
        token = self._rule.token
        if token is not None and "address" in places:
            reply = RedirectResponse("/", 303)
            # Lax, so that a link from elsewhere opens the page; other sites are refused above.
            reply.set_cookie(cookie_of(token), token, httponly=True, samesite="lax")
            return reply
        if token is None or places:
            return None
        told = "token: expected that of this server, got none or another; open the printed URL."
        return refusal(401, told)


def cookie_of(token: str) -> str:
    """Return the name of the cookie with a token; browsers share cookies among all ports."""
    return f"fcfg-studio-{hex_digest(token, size=4)}"


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
        told = f"body: expected at most {most:,} bytes, got more; send fewer."
        too_long = HTTPException(413, told)
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
            wanted = f"{_RATE:,} bytes a second, and room for them"
            raise HTTPException(
                408, f"body: expected {wanted}, got a part; send it again."
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
            told = "picture: expected few large ones at once, got many; try again in a moment."
            raise HTTPException(503, told) from error
        try:
            yield
        finally:
            self._taken -= size  # before a wait, which may be cancelled
            async with self._changed:
                self._changed.notify_all()
