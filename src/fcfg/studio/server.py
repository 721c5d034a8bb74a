"""The server of the studio: uvicorn, and its connections, left if they keep it waiting.

A connection is admitted while the studio works on a request that passed :class:`Safety`. At all
other times the server waits for its client, for a bounded time. Of too many connections, the one
that it has waited for longest is closed: a client that asks at once always gets in.
"""

from __future__ import annotations

import asyncio
import errno
import secrets
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from types import FrameType
from typing import Any, cast

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from fcfg.studio.app import Studio, build_app
from fcfg.studio.safety import ADMITTED, Rule, is_loopback
from fcfg.support.errors import InputError, check_integer

_WAITING = 1024  # connections that the system keeps until they are accepted
_STRANGERS = (20.0, 200.0)  # requests per second of an address, and at once, with a token
_PIECE = 256  # bytes of a body that come at once, on average; the smallest networks send 536
_CRUMBS = 200  # smaller pieces that are accepted
_SILENCE = 60.0  # seconds from one line in the terminal to the next


@dataclass(frozen=True)
class Place:
    """Where a studio listens, and to whom."""

    host: str = "127.0.0.1"
    """Address to listen on. By default only this machine can connect; any other one needs the
    token of the printed URL."""
    port: int = 8765  #: port; 0 for any free one
    token: bool = False  #: whether to ask for a token on this machine, too: behind a proxy

    def open(self) -> socket.socket:
        """Return a socket, or say why there is none."""
        port = check_integer("port", self.port, 0, 65535, do="0 is any free one")
        tcp, passive = socket.SOCK_STREAM, socket.AI_PASSIVE
        try:
            found = socket.getaddrinfo(self.host, port, type=tcp, flags=passive)
            family, *_, address = found[0]
            how: dict[str, Any] = {"family": family, "backlog": _WAITING}
            how["dualstack_ipv6"] = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
            return socket.create_server(address, **how)
        except OSError as error:
            subject, free = f"address {self.host}:{port}", "one that is free on this machine"
            got, do = error.strerror, "choose another --host"
            if error.errno == errno.EADDRINUSE:
                got, do = "one in use", "choose another with --port, or 0 for any"
            raise InputError(subject, expected=free, got=got, do=do) from error

    def rule(self) -> Rule:
        """Return who may ask: everybody on this machine, or whoever has a new token."""
        if is_loopback(self.host) and not self.token:
            return Rule()
        return Rule(secrets.token_urlsafe(24), *_STRANGERS)

    def address(self, opened: socket.socket, rule: Rule) -> str:
        """Return the address to open in a browser."""
        everywhere = self.host in ("0.0.0.0", "::", "")
        name = socket.gethostname() if everywhere else self.host
        name = f"[{name}]" if ":" in name else name
        token = "" if rule.token is None else f"?token={rule.token}"
        return f"http://{name}:{opened.getsockname()[1]}/{token}"


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


class _Server(uvicorn.Server):
    """A server that ends by a signal as if it had nothing more to do."""

    def __init__(self, config: uvicorn.Config, door: Door) -> None:
        super().__init__(config)
        self._door = door

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept connections, and let many wait for it."""
        asyncio.get_running_loop().set_exception_handler(self._door.on_error)
        await super().startup(sockets)
        for opened in sockets or ():
            opened.listen(_WAITING)

    async def on_tick(self, counter: int) -> bool:
        """Close silent connections, twice a second."""
        if counter % 5 == 0:
            self._door.close_silent()
        return await super().on_tick(counter)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Finish what is under way; at the second signal, do not."""
        self.force_exit, self.should_exit = self.should_exit, True


def server_of(studio: Studio) -> uvicorn.Server:
    """Return the server of a studio, which is ready to run."""
    door = Door(studio.rule)
    config = uvicorn.Config(
        build_app(studio),
        loop="asyncio",
        http=cast("Any", partial(Connection, door)),
        log_level="error",  # a warning is about a request: strangers would fill the terminal
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        backlog=studio.rule.connections // 8,  # accepted at once, before others make room
        timeout_graceful_shutdown=1,
    )
    return _Server(config, door)
