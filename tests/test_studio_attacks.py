"""Strangers on this machine who attack the server, while a user with the token works."""

from __future__ import annotations

import asyncio
import errno
import http.client
import socket
import struct
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from threading import Event, Thread

import pytest

from fcfg.studio.pictures import MOST_BYTES
from fcfg.studio.safety import Rule
from fcfg.studio.server import Door
from studios import png, serving, studio_of
from tiny import tiny_pipeline

TOKEN = "a-token-that-nobody-guesses"
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
def siege(target: Target, count: int, data: bytes, addresses: int) -> Generator[None]:
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
                        opened[number].sendall(b"x")
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
def attacked(rule: Rule | None = None) -> Generator[Target]:
    with serving(studio_of(tiny_pipeline(), rule=rule or Rule(TOKEN))) as address:
        yield Target(int(address.rpartition(":")[2]), TOKEN)


def is_closed(opened: socket.socket, seconds: float) -> bool:
    """Whether the server closes a connection in a time."""
    opened.settimeout(seconds)
    try:
        return opened.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


def send_on(opened: socket.socket, data: bytes) -> None:
    """Send for twenty seconds, or until the server has enough."""
    for _ in range(2000):
        opened.sendall(data)
        time.sleep(0.01)


@pytest.mark.parametrize("addresses", [1, 50])
@pytest.mark.promise("Strangers cannot lock users out of the studio")
def test_a_user_gets_in_among_strangers_and_the_terminal_gets_one_line(addresses, capfd) -> None:
    with attacked(Rule(TOKEN, connections=64)) as target, siege(target, 200, HALF, addresses):
        assert [target.ask("GET", "/api/model") for _ in range(5)] == [200] * 5
        assert target.ask("POST", "/api/images", png()) == 200

    told = capfd.readouterr().err
    assert told.count("\n") == 1
    assert "more than 64 connections, or 48 of one address" in told


def test_an_address_takes_at_most_three_quarters_of_the_connections() -> None:
    with attacked(Rule(TOKEN, connections=20)) as target, ExitStack() as stack:
        other = stack.enter_context(target.connect("127.0.0.9"))
        crowd = [stack.enter_context(target.connect("127.0.0.2")) for _ in range(30)]
        assert [is_closed(one, 2) for one in crowd[:15]] == [True] * 15  # the oldest
        assert not any(is_closed(one, 0.01) for one in crowd[15:])
        assert not is_closed(other, 0.01)


@pytest.mark.promise("Strangers cannot lock users out of the studio")
def test_a_silent_connection_is_closed_in_time() -> None:
    """After nothing, half a header, half of a second one, or a part of a stranger's body."""
    whole = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
    part = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nx"
    with attacked(Rule(TOKEN, patience=0.3)) as target:
        for sent in (b"", HALF, whole + HALF, part):
            with target.connect() as opened:
                opened.sendall(sent)
                start = time.monotonic()
                while not is_closed(opened, 20):
                    assert time.monotonic() - start < 20


def test_whoever_does_not_take_the_reply_is_left() -> None:
    """The page is asked for again and again, and never read."""
    asked = f"GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()

    with attacked(Rule(TOKEN, rate=1e6, burst=1e6, patience=0.3)) as target:
        with socket.socket() as opened:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            opened.connect(("127.0.0.1", target.port))
            with pytest.raises(ConnectionError):
                send_on(opened, asked * 10)
        assert target.ask("GET", "/") == 200


@pytest.mark.parametrize(("addresses", "most"), [(9, 6), (1, 4)])
def test_requests_that_are_worked_on_are_bounded_and_not_given_up_for_strangers(
    addresses: int, most: int
) -> None:
    with attacked(Rule(TOKEN, connections=8, patience=60.0)) as target:
        with ExitStack() as stack:
            uploads: list[socket.socket] = []
            for number in range(most):
                uploads.append(target.connect(f"127.0.0.{1 + number % addresses}"))
                stack.enter_context(uploads[-1]).sendall(target.head(4) + b"no")
            start = time.monotonic()
            while target.ask("GET", "/api/model") != 503:  # all have been begun
                assert time.monotonic() - start < 30
                time.sleep(0.2)
            with siege(target, 50, HALF, 50):
                for one in uploads:
                    one.sendall(b"ne")
                    assert b" 400 " in one.recv(2**16).partition(b"\r\n")[0]
        assert target.ask("GET", "/api/model") == 200


def test_bodies_of_crumbs_and_bodies_without_end_are_left() -> None:
    """Each of a million chunks costs as much as a large one."""
    lines = "POST / HTTP/1.1", "Host: a", "Transfer-Encoding: chunked", "", ""
    crumbs = "\r\n".join(lines).encode() + b"1\r\nx\r\n" * 10**6

    with attacked() as target:
        assert b" 401 " not in exchange(target, crumbs)  # 400, or a reset
        assert target.ask("GET", "/api/model") == 200
    with attacked(Rule(TOKEN, patience=0.3)) as target, target.connect() as opened:
        opened.sendall(target.head(10**12))
        assert b" 413 " in opened.recv(2**16).partition(b"\r\n")[0]  # at once
        with pytest.raises(ConnectionError):
            send_on(opened, bytes(1000))


def test_a_reply_before_the_end_of_the_body_is_read_by_its_sender() -> None:
    body = bytes(MOST_BYTES + 10**6)
    with attacked() as target:
        for authorization, wanted in ((f"Bearer {TOKEN}", 413), ("none", 401)):
            for connection in ("close", "keep-alive"):
                headers = {"Authorization": authorization, "Connection": connection}
                asked = [target.ask("POST", "/api/images", body, **headers) for _ in range(3)]
                assert asked == [wanted] * 3


#: What strangers send; each is answered or closed, without a word in the terminal.
HOSTILE = {
    "nothing of HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
    "a long header": b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 200_000 + b"\r\n\r\n",
    "a broken chunk": b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nZ\r\n",
    "half a chunk": b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
    "many requests at once": b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * 300,
    "requests, then garbage": b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * 3 + b"\0\r\n\r\n" * 3,
    "a web socket": b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/1.0 that stays": b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" * 2,
    "a proxy's request": b"CONNECT evil.com:80 HTTP/1.1\r\nHost: evil.com\r\n\r\n",
    "another address": b"GET http://evil.com/ HTTP/1.1\r\nHost: a\r\n\r\n",
    "a broken escape": b"GET /%ff%00%zz HTTP/1.1\r\nHost: a\r\n\r\n",
    "broken cookies": b'GET / HTTP/1.1\r\nHost: a\r\nCookie: =;;=\xff\xfe; a="\r\n\r\n',
    "a token of other letters": b"GET /?token=%ed%a0%80 HTTP/1.1\r\nHost: a\r\n"
    b"Authorization: Bearer \xff\r\n\r\n",
    "a body that is expected": b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
    b"Content-Length: 5\r\n\r\n",
    "a head with a body": b"HEAD / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab",
}


@pytest.mark.parametrize("token", [False, True], ids=["stranger", "user"])
def test_no_stranger_makes_the_terminal_speak(token: bool, capfd, caplog) -> None:
    with attacked() as target:
        for name, sent in HOSTILE.items():
            known = b" HTTP/1.1\r\nAuthorization: Bearer " + TOKEN.encode() + b"\r\n"
            reply = exchange(target, sent.replace(b" HTTP/1.1\r\n", known) if token else sent, 0.2)
            assert b" 500 " not in reply, name
            with target.connect() as opened:  # and gone without a word
                opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                opened.sendall(sent)
        assert target.ask("GET", "/api/model") == 200

    assert capfd.readouterr() == ("", "")
    assert caplog.records == []  # of asyncio


def test_garbage_after_the_reply_closes_the_connection_without_a_word(caplog) -> None:
    lines = "POST / HTTP/1.1", "Host: a", "Transfer-Encoding: chunked", "", "1", "x", ""

    with attacked() as target, target.connect() as opened:
        opened.sendall("\r\n".join(lines).encode())
        assert b" 401 " in opened.recv(2**16)
        opened.sendall(b"garbage\r\n")
        while not is_closed(opened, 5):  # after the rest of the reply
            pass

    assert caplog.records == []


def test_a_process_without_files_says_so_in_a_line(capfd, caplog) -> None:
    async def work() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(Door(Rule()).on_error)
        for _ in range(100):
            loop.call_exception_handler({"message": "", "exception": OSError(errno.EMFILE, "")})
        loop.call_exception_handler({"message": "of ours", "exception": ZeroDivisionError()})

    asyncio.run(work())
    assert capfd.readouterr().err.count("no file is left") == 1
    assert [record.message.strip() for record in caplog.records] == ["of ours"]
