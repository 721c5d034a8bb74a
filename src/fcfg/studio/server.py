"""The server of the studio: a socket, and uvicorn on it until it is interrupted."""

from __future__ import annotations

import asyncio
import errno
import secrets
import socket
from functools import partial
from types import FrameType
from typing import Any, cast

import uvicorn

from fcfg.studio.app import Studio, build_app
from fcfg.studio.connections import Connection, Door
from fcfg.studio.safety import Rule, is_loopback
from fcfg.support.errors import InputError

_WAITING = 1024  # connections that the system keeps until they are accepted
_STRANGERS = (20.0, 200.0)  # requests per second of an address, and at once, with a token


def open_socket(host: str, port: int) -> socket.socket:
    """Return a socket at an address, or say why there is none."""
    tcp, passive = socket.SOCK_STREAM, socket.AI_PASSIVE
    try:
        (family, *_, address), *_ = socket.getaddrinfo(host, port, type=tcp, flags=passive)
        both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
        return socket.create_server(address, family=family, backlog=_WAITING, dualstack_ipv6=both)
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        raise InputError(
            f"address {host}:{port}",
            expected="one that is free on this machine",
            got="one in use" if taken else error.strerror,
            do="choose another with --port, or 0 for any" if taken else "choose another --host",
        ) from error


def rule_for(host: str, *, token: bool = False) -> Rule:
    """Return who may ask: everybody on this machine, or whoever has a new token."""
    if is_loopback(host) and not token:
        return Rule()
    return Rule(secrets.token_urlsafe(24), *_STRANGERS)


def address_of(opened: socket.socket, host: str, rule: Rule) -> str:
    """Return the address to open in a browser."""
    name = socket.gethostname() if host in ("0.0.0.0", "::", "") else host  # all interfaces
    name = f"[{name}]" if ":" in name else name
    token = "" if rule.token is None else f"?token={rule.token}"
    return f"http://{name}:{opened.getsockname()[1]}/{token}"


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


def serve(studio: Studio, opened: socket.socket) -> None:
    """Answer requests until the process is interrupted or terminated."""
    server_of(studio).run(sockets=[opened])


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
