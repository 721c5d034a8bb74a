"""Studios of tiny models, and the events of their answers."""

from __future__ import annotations

import base64
import io
import json
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Thread
from typing import Any

import numpy as np
from PIL import Image
from starlette.testclient import TestClient

from fcfg.model import AnyModel
from fcfg.studio.app import Studio, build_app
from fcfg.studio.models import as_studio_models
from fcfg.studio.safety import Rule
from fcfg.studio.server import Place, server_of

FACTUAL = {"smiling": 0, "age": 40.0, "hair": "dark"}


def studio_of(*models: AnyModel, rule: Rule | None = None, **parts: Any) -> Studio:
    named = [(f"runs/model{number}", model) for number, model in enumerate(models)]
    return Studio(as_studio_models(named), rule or Rule(), **parts)


@contextmanager
def client_of(studio: Studio, host: str = "localhost") -> Iterator[TestClient]:
    """A client on this machine, with the studio at work."""
    with TestClient(
        build_app(studio), base_url=f"http://{host}", raise_server_exceptions=False
    ) as client:
        yield client


@contextmanager
def serving(studio: Studio) -> Iterator[str]:
    """The address of a studio, whose server runs in a thread of this process."""
    server = server_of(studio)
    with Place(port=0).open() as opened:
        thread = Thread(target=server.run, kwargs={"sockets": [opened]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{opened.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


def file_of(picture: Image.Image, format: str = "PNG", **options: Any) -> bytes:
    file = io.BytesIO()
    picture.save(file, format=format, **options)
    return file.getvalue()


def png(size: int = 8, seed: int = 0) -> bytes:
    """A picture of noise."""
    noise = np.random.default_rng(seed).integers(0, 256, (size, size, 3), dtype=np.uint8)
    return file_of(Image.fromarray(noise))


def upload(client: TestClient, seed: int = 0) -> str:
    return client.post("/api/images", content=png(seed=seed)).json()["id"]


def ask(client: TestClient, image: str, **question: Any) -> list[dict[str, Any]]:
    """All events of an answer."""
    body = {"image": image, "attributes": FACTUAL, "do": {"smiling": 1}, **question}
    reply = client.post("/api/answer", json=body)
    assert reply.status_code == 200, reply.text
    return [json.loads(line) for line in reply.text.splitlines()]


def of(events: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [event for event in events if event["type"] == kind]


def pixels_of(data: bytes) -> np.ndarray:
    """Pixels of a picture file."""
    with Image.open(io.BytesIO(data)) as picture:
        return np.asarray(picture).astype(int)


def picture_in(url: str) -> np.ndarray:
    """Pixels of a picture inside an address."""
    return pixels_of(base64.b64decode(url.removeprefix("data:image/png;base64,")))


def meanwhile(work: Callable[[], None], serving: Callable[[], Any]) -> Any:
    """Work in a thread while the main one serves, then interrupt it as Ctrl-C does."""
    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(work)
        working.add_done_callback(lambda _: os.kill(os.getpid(), signal.SIGINT))
        served = serving()
        working.result()  # which may have failed
        return served
