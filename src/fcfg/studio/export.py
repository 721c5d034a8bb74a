"""A gallery of answers in one page, which needs no server: ``fcfg studio --export``.

The page is that of the studio. Its answers were computed beforehand: some drawings, each
attribute changed, a few rules and weights, with everything that the live studio shows. Its
scripts, which the live page loads one after the other, are one in this file: browsers load neither
further files nor modules from ``file://``.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fcfg.causal.attributes import AbstractAttribute, Binary, Categorical, Continuous
from fcfg.generation.results import Value
from fcfg.pipeline.plans import PAPER_GUIDANCE
from fcfg.studio.app import STATIC, Studio
from fcfg.studio.engine import Job
from fcfg.studio.models import StudioModel
from fcfg.studio.pictures import StudioPicture, png_of
from fcfg.studio.questions import Question
from fcfg.support.errors import InputError
from fcfg.support.images import data_url
from fcfg.support.options import TextForm
from fcfg.support.outputs import Outputs
from fcfg.support.progress import OnProgress, Progress
from fcfg.version import __version__

PAGE = "index.html"
DRAWINGS = 6  #: of the samples of the studio, if there are not too many questions
MOST_ANSWERS = 36  #: at about 12 KB each, so that the page stays below 500 KB
_SHARES = (0.5, 1.0, 2.0)  # of the default weight
_FURTHER = ("cfg:3.0",)
_AGES = (1 / 6, 1 / 2, 5 / 6)  # places in the range of a continuous attribute
_LEFT_OUT = ("started", "progress")  # events that a finished answer does not need
_SCRIPTS = re.compile(r'(?:<script src="/static/[a-z]+\.js"></script>\n)+')
_STYLE = '<link rel="stylesheet" href="/static/style.css">\n'


def export_gallery(
    model: StudioModel, folder: Path, overwrite: bool, on_progress: OnProgress
) -> Path:
    """Write the gallery of a model, and return the path of its page."""
    outputs = Outputs(folder, "studio", model.name, overwrite)
    outputs.check([PAGE])
    table = gallery_table(model, DRAWINGS, on_progress)
    (page,) = outputs.write({PAGE: one_page(table).encode("utf-8")})
    return page


def gallery_table(
    model: StudioModel, drawings: int, on_progress: OnProgress | None = None
) -> dict[str, Any]:
    """Return everything that the page of a gallery shows, as JSON values."""
    studio = Studio((model,))
    pictures = list(studio.samples.values())
    if not pictures:
        wanted, got = "a model of a drawn world, such as portraits", "one without drawings"
        do = "export the gallery of a shipped model"
        raise InputError(f"model {model.name}", expected=wanted, got=got, do=do)
    each = len(list(questions(model, pictures[0])))
    pictures = pictures[: max(1, min(drawings, MOST_ANSWERS // each))]
    asked = [each for picture in pictures for each in questions(model, picture)]
    progress, answers = Progress(len(asked), on_progress), list[dict[str, Any]]()
    for question in asked:
        answers.append(_answer(studio, question))
        progress.advance(1)
    about = {"models": [model.describe()], "version": __version__, "public": False}
    samples = [{**each.to_json(), "image": data_url(png_of(each.image))} for each in pictures]
    return {"about": about, "samples": samples, "answers": answers}


def questions(model: StudioModel, picture: StudioPicture) -> Iterator[Question]:
    """Yield the questions about a picture."""
    about: dict[str, Any] = {"image": picture.id, "attributes": dict(picture.attributes)}
    about |= {"reverse": True, "trust": True, "truth": True}
    for attribute in model.model.space:
        for value in other_values(attribute, picture.attributes[attribute.name]):
            for guidance in guidances(model, attribute.name):
                yield Question(**about, do={attribute.name: value}, guidance=guidance)


def other_values(attribute: AbstractAttribute, value: Value) -> list[Value]:
    """Return the values that an attribute is changed to."""
    if isinstance(attribute, Categorical):
        return [level for level in attribute.levels if level != value]
    if isinstance(attribute, Continuous):
        low, high = attribute.low, attribute.high
        return [round(low + share * (high - low), 2) for share in _AGES]
    assert isinstance(attribute, Binary)
    return [1 - int(value)]


def guidances(model: StudioModel, target: str) -> list[str]:
    """Return the settings that answer a question, the model's own among them."""
    asks = model.model
    usual = asks.plan([target]).setting
    if not asks.traits.groups:
        return [repr(usual)]
    texts = [repr(usual), repr(PAPER_GUIDANCE), *_FURTHER]
    form = TextForm.read(texts[0], "guidance", "cfg:3")
    if "" in form.numbers:
        weights = [round(share * form.numbers[""], 2) for share in _SHARES]
        texts += [str(replace(form, numbers={"": weight})) for weight in weights]
    return list(dict.fromkeys(repr(asks.parse_setting(text)) for text in texts))


def _answer(studio: Studio, question: Question) -> dict[str, Any]:
    events: list[dict[str, Any] | None] = []
    job = Job("gallery", lambda job: None, events.append)
    studio.answers.answer(studio.prepare(question), job)
    kept = [event for event in events if event is not None and event["type"] not in _LEFT_OUT]
    for event in kept:
        event.pop("seconds", None)  # the same page whenever it is made
        event.pop("signals", None)  # which the record has, too
    return {**question.model_dump(include={"image", "do", "guidance"}), "events": kept}


def static_text(name: str) -> str:
    """Return a text file of the page."""
    return (STATIC / name).read_text("utf-8")


def one_page(table: Mapping[str, Any]) -> str:
    """Return the page with its style, its script and a table of answers inside.

    A content security policy inside the page allows nothing else, so that it cannot ask anyone.
    """
    page, style = static_text("index.html"), static_text("style.css")
    script = "".join(map(static_text, re.findall(r"(\w+\.js)", page)))
    own = f"script-src {_digest(script)}; style-src {_digest(style)}"
    policy = f"default-src 'none'; {own}; img-src data: blob:"
    data = json.dumps(table, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    meta = f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    answers = f'<script type="application/json" id="table">{data}</script>'
    page = page.replace(_STYLE, f"{meta}\n<style>{style}</style>\n")
    return _SCRIPTS.sub(lambda _: f"{answers}\n<script>{script}</script>\n", page)


def _digest(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
