"""Pictures that can be asked about: drawings, those that come with a model, and uploads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from jaxtyping import Float
from torch import Tensor

from fcfg.causal.attributes import (
    AbstractAttribute,
    AttributeSpace,
    Binary,
    Categorical,
    Continuous,
)
from fcfg.datasets import portraits
from fcfg.datasets.portraits import EVALUATION_SEED, Portraits
from fcfg.generation.picture_files import sample_pictures
from fcfg.generation.results import Value, scores_of, value_text, values_of
from fcfg.judge import Reading
from fcfg.studio.models import StudioModel
from fcfg.support.images import data_url, images_from_bytes, images_to_bytes, to_pictures, to_png

SAMPLES = 12  #: drawings that the page offers
SEED = EVALUATION_SEED  #: of the drawings, which no model was trained on
_SURE = 0.8  # probability from which a reading is called sure


@dataclass(frozen=True, eq=False)
class StudioPicture:
    """A picture at the size of the model."""

    id: str
    name: str
    image: Float[Tensor, "1 channel height width"] = field(repr=False)  #: in [-1, 1]
    attributes: Mapping[str, Value]  #: as read by the judge, or as drawn
    readings: Mapping[str, Mapping[str, Any]]  #: of the judge; empty without one
    notes: tuple[str, ...] = ()  #: changes that made it fit the model
    drawing: Portraits | None = field(default=None, repr=False)  #: of one face, if it is drawn

    @property
    def png(self) -> bytes:
        """Contents of a PNG file."""
        return to_png(to_pictures(self.image)[0])

    def to_json(self) -> dict[str, Any]:
        """Return what the page needs to know."""
        return {
            "id": self.id,
            "name": self.name,
            "image": f"/api/images/{self.id}.png",
            "attributes": dict(self.attributes),
            "readings": dict(self.readings),
            "notes": list(self.notes),
        }


def find_samples(model: StudioModel) -> list[StudioPicture]:
    """Return pictures to ask about: drawings of the model's world, or those that come with it.

    Of the latter, those that the judge reads rightly come first: one asks about them first.
    """
    drawn = None
    if model.world is None:
        if (shipped := sample_pictures(model.model)) is None:
            return []
        noun, images, attributes = "picture", shipped.images, shipped.attributes
    else:
        drawn = portraits.sample(SAMPLES, SEED, model.pixels.size, model.world)
        # Rounded as in a file, so that an answer is that of the picture one can download.
        images = images_from_bytes(images_to_bytes(drawn.images))
        noun, attributes = "drawing", drawn.attributes
    reading, space = model.model.read(images), model.model.space
    found = [
        StudioPicture(
            f"s{row}",
            f"{noun} {row}",
            images[row : row + 1],
            values_of(space, attributes, row),
            {} if reading is None else describe_reading(space, reading, row),
            drawing=None if drawn is None else _face(drawn, row),
        )
        for row in range(len(images))
    ]
    return sorted(found, key=lambda each: drawn is None and _is_misread(space, each))


def _is_misread(space: AttributeSpace, picture: StudioPicture) -> bool:
    """Return whether the judge reads other values, or more than a tenth of a range beside them."""

    def errs(attribute: AbstractAttribute, read: Any, value: Any) -> bool:
        if isinstance(attribute, Continuous):
            return abs(read - value) > 0.1 * (attribute.high - attribute.low)
        return read != value

    readings, values = picture.readings, picture.attributes
    return any(errs(space[name], readings[name]["value"], values[name]) for name in readings)


def _face(drawn: Portraits, row: int) -> Portraits:
    """Return one of the drawings."""
    tables = {"attributes": drawn.attributes, "factors": drawn.factors, "noise": drawn.noise}
    own: dict[str, Any] = {
        part: {name: column[row : row + 1] for name, column in table.items()}
        for part, table in tables.items()
    }
    return replace(drawn, images=drawn.images[row : row + 1], **own)


def describe_reading(
    space: AttributeSpace, reading: Reading, row: int = 0
) -> dict[str, dict[str, Any]]:
    """Return what the judge reads, and how sure it is, as JSON values."""
    values, scores = values_of(space, reading.attributes, row), scores_of(space, reading, row)
    found: dict[str, dict[str, Any]] = {}
    for attribute in space:
        value, score = values[attribute.name], scores[attribute.name]
        if isinstance(score, dict):
            sure = score = score[str(value)]
        elif isinstance(attribute, Binary):
            sure = score if value else 1 - score
        else:
            sure = None
        found[attribute.name] = {
            "value": value,
            "score": score,
            "sure": sure is None or sure >= _SURE,
            "text": value_text(float(value)) if sure is None else f"{sure:.2f}",
        }
    return found


def without_judge(space: AttributeSpace) -> dict[str, Value]:
    """Return the values that the page shows first for a picture that nobody read."""

    def first(attribute: AbstractAttribute) -> Value:
        if isinstance(attribute, Categorical):
            return attribute.levels[0]
        return (attribute.low + attribute.high) / 2 if isinstance(attribute, Continuous) else 0

    return {attribute.name: first(attribute) for attribute in space}


def image_url(images: Float[Tensor, "1 channel height width"]) -> str:
    """Return an image as a PNG inside an address; pixels that are not finite are grey."""
    return data_url(to_png(to_pictures(images.float().nan_to_num())[0]))
