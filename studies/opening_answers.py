"""Write the answers that the studio shows first, beside the shipped models that give them.

    python studies/opening_answers.py

Each is of the first picture, with the first attribute changed as far as a gallery changes it.
"""

from __future__ import annotations

from typing import Any

import fcfg
from fcfg.storage import shipped
from fcfg.studio.answers import Answers
from fcfg.studio.engine import Job
from fcfg.studio.export import other_values
from fcfg.studio.models import OPENING, Opening, as_studio_models
from fcfg.studio.pictures import find_samples
from fcfg.studio.questions import Question, prepare_question
from fcfg.support.hashing import digest_of


def opening_of(name: str) -> Opening:
    """Compute the first answer of a model.

    Args:
        name: Name of the shipped model.
    """
    (model,) = as_studio_models([(name, fcfg.load(name))])
    picture, first = find_samples(model)[0], next(iter(model.model.space))
    before = picture.attributes[first.name]
    values = other_values(first, before)
    if not isinstance(before, str):
        values = sorted(values, key=lambda each: -abs(float(each) - before))
    attributes = dict(picture.attributes)
    question = Question(image=picture.id, attributes=attributes, do={first.name: values[0]})
    prepared, events = prepare_question(question, model, picture), list[Any]()
    Answers().answer(prepared, Job("", lambda job: None, events.append))
    (answer,) = [event for event in events if event["type"] == "answer"]
    weights = digest_of(model.model.image_model)
    return Opening(weights=weights, asked=prepared.depends, image=answer["image"])


if __name__ == "__main__":
    for name in ("portraits", "portraits-128", "portraits-causal", "digits", "radiographs"):
        text = opening_of(name).model_dump_json(indent=1)
        (shipped()[name] / OPENING).write_text(f"{text}\n", "utf-8")
