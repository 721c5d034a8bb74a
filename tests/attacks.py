"""Attacks on the studio by strangers on this machine, bounded in count and time.

Ten requests of a user with the token during each, on two busy cores, at ecd2317 and at ee9796d,
where this file was a program that measured them:

=======================  =============================================  ==========================
1,100 half-sent headers  all 503                                        all 200 within 0.2 s
400 strangers            no reply; 4,522,722 lines, 256 of 256 files    all 200, 0.2 s; 1 line, 135
16 slow bodies           three without a reply, 15 s                    all 200, 0.5 s
16 large pictures        all 200, 13.5 s; 962 MB                        all 200, 0.1 s; 526 MB
17 MB, //evil.example/   a reset; leads there                           413; leads to /
=======================  =============================================  ==========================
"""

from __future__ import annotations

import http.client
import io
import socket
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Event, Thread

from PIL import Image

HALF = b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Waiting: "


@dataclass(frozen=True)
class Target:
    """A server to attack."""

    port: int
    token: str = ""

    def connect(self, source: str = "127.0.0.1") -> socket.socket:
        """Connect from one of the addresses of this machine."""
        return socket.create_connection(("127.0.0.1", self.port), 5, (source, 0))

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> int:
        """Return the status of the reply to a user with the token; 0 if there is none."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=15)
        told = {"Authorization": f"Bearer {self.token}", "Connection": "close", **headers}
        try:
            connection.request(method, path, body, told)
            reply = connection.getresponse()
            reply.read()
            return reply.status
        except OSError:
            return 0
        finally:
            connection.close()

    def head(self, length: int) -> bytes:
        """Return the head of an upload by a user with the token."""
        return (
            f"POST /api/images HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self.token}"
            f"\r\nContent-Length: {length}\r\n\r\n"
        ).encode()


def exchange(target: Target, data: bytes, wait: float = 1) -> bytes:
    """Send bytes, and return all that comes until the server closes or is silent."""
    received = bytearray()
    with target.connect() as opened, suppress(OSError):
        opened.settimeout(wait)
        opened.sendall(data)
        while piece := opened.recv(2**16):
            received += piece
    return bytes(received)


@contextmanager
def siege(
    target: Target, count: int, data: bytes, addresses: int = 1, drip: bytes = b"x"
) -> Generator[None]:
    """Connections that send some bytes, then one at a time, and come back when they are closed."""
    opened: dict[int, socket.socket] = {}
    begun, over = Event(), Event()

    def attack() -> None:
        while not over.is_set():
            for number in range(count):
                with suppress(OSError):
                    if number not in opened:
                        opened[number] = target.connect(f"127.0.0.{2 + number % addresses}")
                        opened[number].sendall(data)
                        time.sleep(0.001)  # a thousand a second
                    try:
                        opened[number].sendall(drip)
                    except OSError:
                        opened.pop(number).close()
                if over.is_set():
                    break
            begun.set()
            over.wait(0.2)

    thread = Thread(target=attack)
    thread.start()
    try:
        begun.wait(60)
        yield
    finally:
        over.set()
        thread.join()
        for one in opened.values():
            one.close()


@contextmanager
def flood(target: Target, count: int, body: bytes, statuses: list[int]) -> Generator[None]:
    """Uploads of the same file at once, whose statuses are noted."""
    with ThreadPoolExecutor(count) as pool:
        asked = [pool.submit(target.ask, "POST", "/api/images", body) for _ in range(count)]
        time.sleep(1)
        yield
        statuses += [one.result() for one in asked]


def large(side: int) -> bytes:
    """A picture of few bytes and many pixels."""
    file = io.BytesIO()
    Image.new("RGB", (side, side), "red").save(file, format="PNG")
    return file.getvalue()
