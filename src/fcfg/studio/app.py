"""The routes of the studio: the page, and the JSON that it asks for."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from http import HTTPStatus
from pathlib import Path

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from fcfg.answers import Memory
from fcfg.studio.answers import Answers, Event
from fcfg.studio.engine import Engine, Job, our_fault
from fcfg.studio.models import StudioModel, describe_plan
from fcfg.studio.pictures import (
    MOST_BYTES,
    MOST_PIXELS,
    StudioPicture,
    decoded_bytes,
    find_samples,
    png_of,
    read_upload,
)
from fcfg.studio.questions import (
    MOST_STEPS,
    PreparedQuestion,
    Question,
    prepare_question,
    read_question,
)
from fcfg.studio.safety import JSON, Bodies, Room, Rule, Safety, refusal
from fcfg.support.errors import InputError, check_among
from fcfg.version import __version__

STATIC = Path(__file__).parent / "static"  #: files of the page
MOST_QUESTION = 64 * 2**10  #: bytes of a question
_UPLOADS = 32 * 2**20  # bytes of all uploads
_BODIES = 64 * 2**20  # bytes of all bodies that arrive or are worked on
_DECODED = 512 * 2**20  # bytes of all pictures that are decoded at once
_QUEUE = 1.0  # seconds from one message about the queue to the next
_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}


@dataclass(frozen=True, eq=False)
class Studio:
    """All that the routes share."""

    models: tuple[StudioModel, ...]
    rule: Rule = field(default_factory=Rule)
    ready: Callable[[], None] = lambda: None  #: called when requests are answered
    engine: Engine = field(default_factory=Engine)
    answers: Answers = field(default_factory=Answers)
    uploads: Memory = field(default_factory=lambda: Memory(_UPLOADS))  #: pictures by name

    @cached_property
    def samples(self) -> dict[str, StudioPicture]:
        """Pictures that the page offers, by their names."""
        return {sample.id: sample for sample in find_samples(self.models[0])}

    def picture(self, name: str) -> StudioPicture:
        """Return a sample or an upload."""
        found = self.samples.get(name) or self.uploads.get(name)
        if found is None:
            told = f"image: expected a sample or a recent upload, got {name[:80]!r}; upload it."
            raise HTTPException(404, told)
        return found

    def prepare(self, asked: Question) -> PreparedQuestion:
        """Check a question."""
        known = {model.name: model for model in self.models}
        name = self.models[0].name if asked.model is None else asked.model
        check_among("model", name, known)
        return prepare_question(asked, known[name], self.picture(asked.image))


def build_app(studio: Studio) -> ASGIApp:
    """Return the application, with all checks around it."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        studio.engine.start()
        studio.ready()
        try:
            yield
        finally:
            studio.engine.close()

    routes = _Routes(studio)
    app = Starlette(
        routes=[
            *(Route(path, reply, methods=["GET"]) for path, reply in _fixed(studio).items()),
            Route("/api/images", routes.upload, methods=["POST"]),
            Route("/api/images/{name}.png", routes.image),
            Route("/api/act", routes.act, methods=["POST"]),
            Route("/api/answer", routes.answer, methods=["POST"]),
        ],
        exception_handlers={
            InputError: lambda _, error: refusal(400, str(error)),
            ClientDisconnect: lambda _, error: Response(status_code=400),
            HTTPException: _refused,
            Exception: lambda _, error: refusal(500, our_fault(error)),
        },
        lifespan=lifespan,
    )
    return Safety(app, studio.rule)


def _fixed(studio: Studio) -> dict[str, Response]:
    """Return replies that are always the same, by path; so no request ever names a file."""
    files = {
        f"/static/{file.name}": Response(file.read_bytes(), media_type=_TYPES[file.suffix])
        for file in sorted(STATIC.iterdir())
    }
    about = {
        "models": [model.describe() for model in studio.models],
        "version": __version__,
        "public": studio.rule.token is not None,
        "limits": {"upload_bytes": MOST_BYTES, "pixels": MOST_PIXELS, "steps": MOST_STEPS},
    }
    samples = {"samples": [sample.to_json() for sample in studio.samples.values()]}
    replies = {"/api/model": JSON(about), "/api/samples": JSON(samples)}
    return {"/": files["/static/index.html"], **files, **replies}


def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    told, got = error.detail, repr(f"{request.method} {request.url.path[:80]}")
    if told == HTTPStatus(error.status_code).phrase:  # of the router
        told = f"request: expected one of the API, got {got}; see docs/studio-api.md."
    return refusal(error.status_code, told)


class _Routes:
    """One method for each route."""

    def __init__(self, studio: Studio) -> None:
        self._studio = studio
        self._pictures = Bodies(_BODIES * 3 // 4, studio.rule.patience)
        self._questions = Bodies(_BODIES // 4, studio.rule.patience)  # pictures hold up none
        self._room = Room(_DECODED, studio.rule.patience)
        self._tickets = itertools.count()

    async def upload(self, request: Request) -> Response:
        async with (
            self._pictures.read(request, MOST_BYTES) as data,
            self._room.take(await run_in_threadpool(decoded_bytes, data, self._studio.models[0])),
        ):
            picture = await run_in_threadpool(read_upload, data, self._studio.models[0])
        self._studio.uploads.put(picture.id, picture)
        return JSON(picture.to_json())

    async def image(self, request: Request) -> Response:
        picture = self._studio.picture(request.path_params["name"])
        return Response(png_of(picture.image), media_type="image/png")

    async def _asked(self, request: Request) -> PreparedQuestion:
        async with self._questions.read(request, MOST_QUESTION) as body:
            asked = read_question(body)
        return await run_in_threadpool(self._studio.prepare, asked)

    async def act(self, request: Request) -> Response:
        question = await self._asked(request)
        after, affected = question.after, question.model.model.graph.affected(question.asked.do)
        told = {
            "attributes": after,
            "affected": [name for name in after if name in affected],
            "invariant": [name for name in after if name not in affected],
            "default": describe_plan(question.plan),
        }
        return JSON(told)

    async def answer(self, request: Request) -> Response:
        ticket = next(self._tickets)  # by which later questions are told from earlier ones
        question = await self._asked(request)
        events: asyncio.Queue[Event | None] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def emit(event: Event | None) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(events.put_nowait, event)

        address = request.client.host if request.client else ""
        visitor = f"{address} {question.asked.visitor}"
        work, keep = partial(self._studio.answers.answer, question), question.asked.keep
        job = Job(visitor, work, emit, ticket, keep)
        if question.opening is not None:  # at once, however many wait
            emit({"type": "opening", "image": question.opening})
        self._studio.engine.submit(job)
        return StreamingResponse(self._lines(job, events), media_type="application/x-ndjson")

    async def _lines(self, job: Job, events: asyncio.Queue[Event | None]) -> AsyncIterator[bytes]:
        """Yield events as lines; a client that goes away cancels its question."""
        engine, told = self._studio.engine, None
        try:
            while True:
                ahead = engine.ahead(job)
                if ahead and ahead != told:
                    told = ahead
                    yield _line({"type": "queued", "ahead": ahead})
                try:
                    event = await asyncio.wait_for(events.get(), _QUEUE)
                except TimeoutError:
                    continue
                if event is None:
                    return
                yield _line(event)
        finally:
            engine.cancel(job)


def _line(event: Event) -> bytes:
    return json.dumps(event, allow_nan=False).encode() + b"\n"
