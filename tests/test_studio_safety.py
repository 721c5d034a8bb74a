"""Who may ask the studio, how often, in how many bytes, and what every reply says."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Iterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.testclient import TestClient

from fcfg.studio import app
from fcfg.studio.safety import HEADERS, Bodies, Room, Rule, cookie_of, most_connections
from refusal import check_form
from studios import FACTUAL, ask, client_of, png, studio_of, upload
from tiny import tiny_pipeline

pytestmark = pytest.mark.anyio
PUBLIC = "studio.example.org"
LONG = 100.0  # seconds that no test waits
TOKEN = "a-token-that-nobody-guesses"


@pytest.fixture
def public() -> Iterator[TestClient]:
    with client_of(studio_of(tiny_pipeline(), rule=Rule(TOKEN)), PUBLIC) as client:
        yield client


def refused(reply: Any, status: int, *fragments: str) -> None:
    assert reply.status_code == status
    check_form(reply.json()["error"], "", *fragments)


def test_every_reply_has_the_headers_of_safety(client: TestClient) -> None:
    for path in ("/", "/api/model", "/nowhere", "/api/images/x.png", "/static/../app.py"):
        reply = client.get(path)
        assert HEADERS.items() <= dict(reply.headers).items()
        assert "unsafe" not in reply.headers["content-security-policy"]
        assert "server" not in reply.headers


#: Names that evil.org may point to 127.0.0.1 (DNS rebinding), and what looks like ours.
HOSTS = (
    *("evil.org", "localhost.evil.org", "127.0.0.1.evil.org", "192.168.0.7", "", "[", "a b"),
    *("[127.0.0.1]evil.com", "[::1]evil.com", "[::1", "[localhost]", "[::1%lo]", "[]:1"),
    *("localhost:1@evil.com", "localhost:", "localhost:1:2", "localhost:x", "a@localhost"),
    *("localhost/evil.com", "localhost#", "localhost\\.evil.com", "127.0.0.1,evil.com"),
)
ORIGINS = ("http://evil.org", "http://localhost:1", "null", "http://localhost.evil.org")
#: Paths that lead to no file but those of the page.
FILES = ("nothing.js", "../../app.py", "%2e%2e/app.py", "/etc/passwd", "..%2fapp.py")
PATHS = (*(f"/static/{x}" for x in FILES), "/api/images/..%2f..%2fx.png", "/api/nothing%0a%ff")
PICTURE = "/api/images/x.png"
REFUSED = [
    *(("GET", "/api/model", {"host": host}, 421) for host in HOSTS),
    *(("GET", PICTURE, {"origin": origin}, 403) for origin in ORIGINS),
    *(("POST", "/api/answer", {"origin": origin}, 403) for origin in ORIGINS),
    *(("GET", PICTURE, {"sec-fetch-site": site}, 403) for site in ("cross-site", "same-site")),
    *(("GET", path, {}, 404) for path in PATHS),
    *((method, path, {}, 405) for method, path in (("GET", "/api/answer"), ("PUT", "/"))),
]


@pytest.mark.promise("The studio answers this machine; others need a token that no site sees")
def test_only_this_machine_may_ask_and_by_all_its_names(client: TestClient) -> None:
    for method, path, headers, status in REFUSED:
        refused(client.request(method, path, headers=headers), status)
    for path, headers in (
        ("/api/model", {"origin": "http://localhost", "sec-fetch-site": "same-origin"}),
        ("/", {"sec-fetch-site": "cross-site"}),  # a link
        *(("/", {"host": host}) for host in ("127.0.0.1", "127.0.0.1:8765", "[::1]:80")),
    ):
        assert client.get(path, headers=headers).status_code == 200, headers


@pytest.mark.promise("The studio answers this machine; others need a token that no site sees")
def test_strangers_need_the_token_and_do_not_use_up_the_rate_of_users(public: TestClient) -> None:
    for path in ("/", "/api/model", "/api/samples", "/static/index.html", "/?token=wrong"):
        reply = public.get(path)
        refused(reply, 401)
        assert TOKEN not in reply.text
    assert public.post("/api/images", content=b"").status_code == 401
    assert public.post(f"/api/answer?token={TOKEN}", json={}).status_code == 401
    broken = f"{cookie_of(TOKEN)}=x".encode() + b"\xe9"
    assert public.get("/", headers={"cookie": broken}).status_code == 401
    rule = Rule(TOKEN, rate=0.0, burst=2.0)
    with client_of(studio_of(tiny_pipeline(), rule=rule), PUBLIC) as client:
        assert [client.get("/").status_code for _ in range(3)] == [401, 401, 429]
        bearer = {"authorization": f"Bearer {TOKEN}"}
        seen = [client.get("/api/model", headers=bearer).status_code for _ in range(3)]
        assert seen == [200, 200, 429]


@pytest.mark.promise("The studio answers this machine; others need a token that no site sees")
def test_the_token_of_the_address_becomes_a_cookie_that_no_script_and_no_site_sees(public) -> None:
    for path in ("//evil.com/", "/\\evil.com", "/%5cevil.com", "//evil.com//..", "/"):
        reply = public.get(f"http://{PUBLIC}{path}?token={TOKEN}", follow_redirects=False)
        assert (reply.status_code, reply.headers["location"]) == (303, "/")  # and nowhere else
    cookie = reply.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie  # a link in a message opens the page
    assert cookie.startswith(cookie_of(TOKEN))
    assert cookie_of(TOKEN) != cookie_of("another server on this machine")
    assert public.get("/api/model").json()["public"] is True
    public.cookies.clear()
    bearer = {"authorization": f"Bearer {TOKEN}"}
    assert public.get("/api/model", headers=bearer).status_code == 200


@pytest.mark.parametrize(
    ("files", "most"), [(256, 128), (1024, 512), (10**6, 1024), (-1, 1024), (None, 256)]
)
def test_connections_leave_half_of_the_files_free(monkeypatch, files, most) -> None:
    limit = SimpleNamespace(RLIMIT_NOFILE=7, RLIM_INFINITY=-1, getrlimit=lambda _: (files, files))
    monkeypatch.setitem(sys.modules, "resource", limit if files else None)  # None on Windows
    assert Rule().connections == most_connections() == most


def test_the_rate_of_an_address_is_bounded_and_recovers() -> None:
    now = [0.0]
    rule = Rule(rate=2.0, burst=5.0, clock=lambda: now[0])
    with client_of(studio_of(tiny_pipeline(), rule=rule)) as client:

        def answered(count: int) -> list[int]:
            return [client.get("/api/model").status_code for _ in range(count)]

        assert answered(7) == [200] * 5 + [429] * 2
        now[0] = 1.0  # two more
        assert answered(4) == [200] * 2 + [429] * 2
        now[0] = 1000.0  # not more than may come at once
        assert answered(6) == [200] * 5 + [429]
        reply = client.get("/api/model")
        refused(reply, 429, "at most 2 a second")
        assert reply.headers["retry-after"] == "1"


def test_the_memory_for_rates_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fcfg.studio.safety._CLIENTS", 3)
    built = app.build_app(studio_of(tiny_pipeline(), rule=Rule(burst=1.0, rate=0.0)))

    def status(address: str) -> int:
        client = TestClient(built, base_url="http://localhost", client=(address, 1))
        return client.get("/api/samples").status_code

    assert [status(name) for name in "aabcd"] == [200, 429, 200, 200, 200]
    assert status("d") == 429  # still known
    assert status("a") == 200  # forgotten


BROKEN = (b"{", b"\xff\xfe", b"[" * 50_000)  #: bodies that are no JSON
WRONG = [  #: what replaces a part of a question, and what the refusal says
    *(({"image": 3}, "'image'"), ({"more": 1}, "'more'"), ({"\ud800": 1}, "unicode string")),
    *(({"image": "x" * 201}, "at most 200"), ({"seed": -1}, "greater than or equal to 0")),
    *(
        ({"do": {"smiling": value}}, "a number or a text")
        for value in (True, [1], float("nan"), "1" * 300)
    ),
    *(({"do": {}}, "'do'"), ({"do": {"beard": 1}}, "beard"), ({"do": {"smiling": 7}}, "0 or 1")),
    ({"attributes": {"smiling": 0}}, "attributes"),
    ({"attributes": {**FACTUAL, "beard": 1}}, "beard"),
    ({"guidance": "magic:3"}, "magic"),
    ({"guidance": "cfg:2;align=21", "sampling": "ddim uniform 5"}, "at most 100 steps"),
    ({"sampling": "ddim uniform 101"}, "1 to 100"),
    ({"sampling": "fixed-point:21 uniform 5"}, "at most 100 steps"),
    *(({"sampling": "euler"}, "euler"), ({"model": "other"}, "model")),
    ({"image": "../x"}, "a sample or a recent upload"),
]


def test_a_wrong_question_and_an_error_of_ours_are_one_line(client, monkeypatch) -> None:
    known = {"image": upload(client), "attributes": FACTUAL, "do": {"smiling": 1}}
    asked = [(json.dumps(known | change).encode(), reason) for change, reason in WRONG]
    asked += [(body, "expected JSON") for body in BROKEN]
    asked += [(b"[]", "a mapping"), (b"{}", "'image'")]
    for body, reason in asked:
        for path in ("/api/act", "/api/answer"):
            refused(client.post(path, content=body), 404 if "upload" in reason else 400, reason)
    monkeypatch.setattr(app, "check_among", Mock(side_effect=ZeroDivisionError("/home/secret")))
    body = {"image": "x", "attributes": {}, "do": {"smiling": 1}}
    reply = client.post("/api/act", json=body)
    refused(reply, 500, "ZeroDivisionError")
    assert "secret" not in reply.text


def test_a_full_queue_and_a_want_of_room_are_replies_and_no_errors_of_the_server(
    monkeypatch,
) -> None:
    studio = studio_of(tiny_pipeline())
    with client_of(studio) as client:
        image = upload(client)
        assert ask(client, image)[-1]["type"] == "done"
        studio.engine.close()
        body = {"image": image, "attributes": FACTUAL, "do": {"smiling": 1}}
        refused(client.post("/api/answer", json=body), 503, "try again")
    monkeypatch.setattr(app, "_DECODED", 10)
    with client_of(studio_of(tiny_pipeline(), rule=Rule(patience=0.05))) as client:
        reply = client.post("/api/images", content=png())
    refused(reply, 503, "few large ones at once", "try again in a moment")


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


async def test_a_slow_body_is_given_up() -> None:
    """One of which nothing comes, one that is fast at first, and one of drops."""
    for body in (pieces(), pieces(b"x" * 1000), pieces(*[b"x"] * 100, b"end", pause=0.02)):
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


async def test_who_waits_in_vain_takes_no_room() -> None:
    room = Room(100, patience=0.05)
    async with room.take(100):
        with pytest.raises(HTTPException):
            async with room.take(1):
                pass
    async with room.take(100):
        pass
