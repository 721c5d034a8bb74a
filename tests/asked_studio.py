"""A studio that is asked in this process, without a socket, by hostile requests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_to_bytes

import fcfg
from desk import pictures
from fcfg.studio.app import build_app
from fcfg.studio.safety import Rule
from hostile import (
    Broken,
    Given,
    Outcome,
    as_json,
    check_line,
    mutated_bytes,
    mutated_text,
    mutated_tree,
)
from studios import studio_of


@dataclass(frozen=True, eq=False)
class AskedStudio:
    """A studio that is asked in this process, without a socket."""

    app: Any
    loop: asyncio.AbstractEventLoop
    sample: str

    @classmethod
    @contextmanager
    def of(cls, model: fcfg.CounterfactualPipeline) -> Generator[AskedStudio]:
        studio = studio_of(model, rule=Rule(rate=1e9, burst=1e9))
        studio.engine.start()
        loop = asyncio.new_event_loop()
        try:
            yield cls(build_app(studio), loop, next(iter(studio.samples)))
        finally:
            studio.engine.close()
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()

    def meets(self, given: Given) -> Outcome:
        """Ask, and expect an answer or a refusal in JSON."""
        ways = "/api/act", "/api/answer", "/api/images", "/api/answer", "/api/act", "path", "head"
        way, method, headers = ways[given.base % len(ways)], "POST", {"host": "localhost"}
        question = {"image": self.sample, "attributes": {"smiling": 0, "male": 1, "young": 1},
                    "do": {"smiling": "flip"}, "seed": 1, "guidance": "cfg:2", "trust": True,
                    "sampling": "ddim uniform 1", "visitor": "me", "reverse": True}  # fmt: skip
        body, path = as_json(question), way
        if way == "/api/images":
            body = mutated_bytes(pictures()[given.base // 7 % len(pictures())][1], given.parts)
        elif way == "path":
            shown = "/", "/api/images/s0.png", "/static/index.html", "/api/samples", "/api/model"
            path = shown[given.base // 7 % len(shown)]
            for each in given.parts:
                path = mutated_text(path, each)
            method, body = ("GET", "HEAD", "PUT", "OPTIONS", "DELETE")[given.base // 49 % 5], b""
        elif way == "head":
            names = "host", "origin", "cookie", "authorization", "content-length", "sec-fetch-site"
            for each in given.parts:
                headers[names[each.where % len(names)]] = mutated_text("localhost", each)
            path, method, body = "/api/model", "GET", b""
        else:
            body = as_json(mutated_tree(question, given.parts))
        ask = self._ask(method, path, headers, mutated_bytes(body, given.raw))
        status, told = self.loop.run_until_complete(ask)
        if 400 <= status < 500:
            if method != "HEAD":
                check_line(json.loads(told)["error"])
            return "refused"
        if status >= 500 or b"an error of the server" in told:
            raise Broken(f"{status} {told[-300:]!r} of {method} {path} {headers} {body[:300]!r}")
        return "accepted"

    async def _ask(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, bytes]:
        raw, _, query = path.encode("utf-8", "surrogatepass").partition(b"?")
        scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1"}
        scope |= {"method": method, "raw_path": raw, "query_string": query, "scheme": "http"}
        scope |= {"path": unquote_to_bytes(raw).decode("utf-8", "replace"), "state": {}}
        scope |= {"client": ("127.0.0.1", 9), "server": ("127.0.0.1", 8), "root_path": ""}
        scope["headers"] = [(k.encode(), v.encode("utf-8", "replace")) for k, v in headers.items()]
        sent: list[Any] = []
        asked = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def receive() -> Any:
            if (message := next(asked, None)) is None:
                await asyncio.sleep(3600)
            return message

        async def send(message: Any) -> None:
            sent.append(message)

        await self.app(scope, receive, send)
        return sent[0]["status"], b"".join(each.get("body", b"") for each in sent[1:])
