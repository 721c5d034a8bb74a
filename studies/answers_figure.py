"""Draw the picture of a model card: held-out pictures, and the model's default answers to them."""

from __future__ import annotations

from PIL import Image

import fcfg
from fcfg.generation import sample_pictures
from fcfg.sheet import sheet

QUESTIONS = {
    "digits": {
        "thicker": {"thickness": 5.0},
        "thinner": {"thickness": 1.7},
        "darker": {"intensity": 90.0},
        "an 8": {"digit": "8"},
    },
    "radiographs": {
        "other sex": {"sex": "flip"},
        "age 20": {"age": 20.0},
        "age 80": {"age": 80.0},
        "other view": {"view": "flip"},
        "effusion": {"effusion": "flip"},
    },
}
COLUMNS = {"digits": 10, "radiographs": 8}
SCALE = {"digits": 2, "radiographs": 1}


def draw(name: str) -> Image.Image:
    """Return the pictures of a model and its answers, a row for every question.

    Args:
        name: Name of the shipped model.
    """
    model, columns = fcfg.load(name), COLUMNS[name]
    shipped = sample_pictures(model)
    assert shipped is not None
    images = shipped.images[:columns]
    attributes = {key: column[:columns] for key, column in shipped.attributes.items()}
    abduction = model.abduct(images, attributes)
    rows = {"factual": images}
    for label, do in QUESTIONS[name].items():
        action = model.act(attributes, do, keys=abduction.keys)
        rows[label] = model.predict(abduction, action).images
    return sheet(rows, scale=SCALE[name])
