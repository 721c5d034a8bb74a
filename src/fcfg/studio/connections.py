"""Connections: whoever keeps the server waiting is left, and makes room for others.

A connection is admitted while the studio works on a request that passed :class:`Safety`. At all
other times the server waits for its client, for a bounded time. Of too many connections, the one
that it has waited for longest is closed: a client that asks at once always gets in.
"""

from __future__ import annotations

import asyncio
import errno
import sys
from contextlib import suppress
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from fcfg.studio.safety import ADMITTED, Rule

_PIECE = 256  # bytes of a body that come at once, on average; the smallest networks send 536
_CRUMBS = 200  # smaller pieces that are accepted
_SILENCE = 60.0  # seconds from one line in the terminal to the next


class Door:
    """Room for connections."""

    def __init__(self, rule: Rule) -> None:
        self._rule, self._silent_until = rule, 0.0
        self._inside: dict[Connection, None] = {}  # the one that asked longest ago first

    def enter(self, new: Connection) -> None:
        """Let a connection in; if there are too many, close the one that asked longest ago."""
        self._inside[new] = None
        most, inside = self._rule.connections, list(self._inside)
        alike = [one for one in inside if one.address == new.address]
        crowd = alike if len(alike) > most * 3 // 4 else inside if len(inside) > most else []
        if crowd:
            oldest = next(one for one in crowd if not one.admitted)
            self.leave(oldest)
            oldest.transport.abort()
            self._say(
                f"more than {most} connections, or {most * 3 // 4} of one address; "
                "those that asked nothing for longest are closed"
            )

    def stay(self, one: Connection) -> None:
        """Note that a connection has asked."""
        if one in self._inside:
            del self._inside[one]
            self._inside[one] = None

    def leave(self, one: Connection) -> None:
        """Note that a connection is closed."""
        self._inside.pop(one, None)

    def close_silent(self) -> None:
        """Close the connections that the server has waited for too long."""
        now = asyncio.get_running_loop().time()
        for one in list(self._inside):
            if one.silence(now) > self._rule.patience:
                one.transport.abort()

    def on_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Report an error of the loop: in a line, if the process has no file for a connection."""
        if getattr(context.get("exception"), "errno", None) in (errno.EMFILE, errno.ENFILE):
            self._say("no file is left for new connections; they wait")
        else:
            loop.default_exception_handler(context)

    def _say(self, text: str) -> None:
        """Print a line, but not for every stranger."""
        now = asyncio.get_running_loop().time()
        if now >= self._silent_until:
            self._silent_until = now + _SILENCE
            print(f"fcfg studio: {text}", file=sys.stderr, flush=True)


class _Pieces(h11.Connection):
    """HTTP whose bodies do not come in crumbs: each piece costs time, however small it is."""

    _crumbs = 0.0

    def next_event(self) -> Any:
        """Return the next event; a body of many small pieces is an error of its sender."""
        event = super().next_event()
        if isinstance(event, h11.Data):
            self._crumbs = max(0.0, self._crumbs + 1 - len(event.data) / _PIECE)
            if self._crumbs > _CRUMBS:
                raise h11.RemoteProtocolError("a body in small pieces")
        return event


class Connection(H11Protocol):
    """A connection that knows since when the server waits for its client."""

    def __init__(self, door: Door, **parts: Any) -> None:
        super().__init__(**parts)
        self.conn = _Pieces(h11.SERVER)
        self._door, self._unsent = door, 0
        self._since = self.loop.time()  # when the server began to wait
        self.address = ""  #: of the client

    @property
    def admitted(self) -> bool:
        """Whether the studio works on a request."""
        return bool(self.scope) and ADMITTED in self.scope.get("state", {})

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Take a place, maybe that of another one."""
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        self._door.enter(self)

    def on_response_complete(self) -> None:
        """Begin to wait for the next request."""
        self._since = self.loop.time()
        self._door.stay(self)
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Free the place."""
        self._door.leave(self)
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP, also in the middle of a request."""
        if self.cycle and not self.cycle.response_complete:
            self.cycle.disconnected = True  # nothing more of this request can be answered
            self.cycle.message_event.set()
        with suppress(h11.LocalProtocolError):  # a reply has begun
            super().send_400_response(msg)
        self.transport.close()

    def silence(self, now: float) -> float:
        """Return for how long the client has neither asked nor taken any of its reply."""
        unsent = self.transport.get_write_buffer_size()
        if unsent < self._unsent or (self.admitted and not unsent):
            self._since = now
        self._unsent = unsent
        return now - self._since
