"""Attacks on the studio by strangers on this machine, bounded in count and time.

    python tests/attacks.py [NAME ...]

starts ``fcfg studio portraits --token`` for each attack, and prints how it went: what a user with
the token had, what the terminal says, and the memory and the files of the server.
"""

from __future__ import annotations

import http.client
import io
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
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


@contextmanager
def _studio(files: int) -> Generator[tuple[Target, subprocess.Popen[str], Path]]:
    """The command itself, with a limit of open files."""
    import resource  # not on Windows

    words = [sys.executable, "-m", "fcfg", "studio", "portraits", "--token", "--no-open"]
    limit = (files, files)
    with (
        tempfile.TemporaryDirectory() as folder,
        (Path(folder) / "log").open("w+") as log,
        subprocess.Popen(
            [*words, "--port", "0"],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, limit),
        ) as process,
    ):
        assert process.stdout is not None
        try:
            found = re.search(r":(\d+)/\?token=(\S+)", process.stdout.readline())
            assert found is not None
            yield Target(int(found[1]), found[2]), process, Path(log.name)
        finally:
            process.terminate()


def _user(target: Target) -> str:
    """What a user with the token has of five visits, with a small picture each."""
    picture, statuses, slowest = large(64), Counter[int](), 0.0
    for _ in range(5):
        start = time.monotonic()
        statuses[target.ask("GET", "/api/model")] += 1
        statuses[target.ask("POST", "/api/images", picture)] += 1
        slowest = max(slowest, time.monotonic() - start)
    return f"user {dict(statuses)}, slowest visit {slowest:.1f} s"


def _report(files: int, attack: Callable[[Target], AbstractContextManager[None]]) -> str:
    with _studio(files) as (target, process, log):
        own = Path("/proc") / str(process.pid)
        target.ask("GET", "/api/model")
        (own / "clear_refs").write_text("5")
        begun = time.monotonic()
        with attack(target):
            had = _user(target)
            opened = len(os.listdir(own / "fd"))
        seconds = time.monotonic() - begun
        peak = re.search(r"VmHWM:\s+(\d+)", (own / "status").read_text())
        lines = log.read_text().splitlines()
        assert peak is not None
    memory = int(peak[1]) // 1024
    return (
        f"{had}; {len(lines)} lines, {opened} files, {memory} MB at most, {seconds:.0f} s in all"
    )


@contextmanager
def _large(target: Target) -> Generator[None]:
    statuses: list[int] = []
    with flood(target, 16, large(5000), statuses):
        yield
    print(f"  uploads {dict(Counter(statuses))}")


@contextmanager
def _words(target: Target) -> Generator[None]:
    """Requests that cost nothing, but lead elsewhere."""
    aim = f"GET //evil.example/?token={target.token} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    print("  ", re.findall(rb"location: .*", exchange(target, aim)))
    print("  too long:", target.ask("POST", "/api/images", bytes(17 * 2**20)))
    yield


ATTACKS: dict[str, tuple[int, Callable[[Target], AbstractContextManager[None]]]] = {
    "nobody": (256, lambda target: siege(target, 0, b"")),
    "1,100 half-sent headers": (20_000, lambda target: siege(target, 1100, HALF)),
    "400 strangers, 256 files": (256, lambda target: siege(target, 400, HALF, 50)),
    "16 slow bodies": (256, lambda target: siege(target, 16, target.head(10**6) + b"x")),
    "16 large pictures": (256, _large),
    "words": (256, _words),
}

if __name__ == "__main__":
    for name, (files, attack) in ATTACKS.items():
        if not sys.argv[1:] or name in sys.argv[1:]:
            print(f"{name}: {_report(files, attack)}", flush=True)
