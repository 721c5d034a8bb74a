"""Draw the picture of a model card: held-out pictures, and the model's default answers to them.

Below answers about drawings stands the truth.
"""

from __future__ import annotations

from PIL import Image

import fcfg
from fcfg.datasets import portraits
from fcfg.generation import sample_pictures
from fcfg.sheet import sheet

QUESTIONS = {
    "portraits-128": {
        "other smile": {"smiling": "flip"},
        "other sex": {"male": "flip"},
        "other age": {"young": "flip"},
    },
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
COLUMNS = {"portraits-128": 6, "digits": 10, "radiographs": 8}
SCALE = {"portraits-128": 1, "digits": 2, "radiographs": 1}


def draw(name: str) -> Image.Image:
    """Return the pictures of a model and its answers, a row for every question.

    Args:
        name: Name of the shipped model.
    """
    model, columns = fcfg.load(name), COLUMNS[name]
    drawn = portraits.sample(columns, portraits.EVALUATION_SEED, model.size)
    shipped = sample_pictures(model) or drawn
    images = shipped.images[:columns]
    attributes = {key: column[:columns] for key, column in shipped.attributes.items()}
    abduction = model.abduct(images, attributes)
    rows = {"factual": images}
    for label, do in QUESTIONS[name].items():
        action = model.act(attributes, do, keys=abduction.keys)
        rows[label] = model.predict(abduction, action).images
        if shipped is drawn:
            rows[f"{label}, truth"] = portraits.counterfactual(drawn, do).images
    return sheet(rows, scale=SCALE[name])
