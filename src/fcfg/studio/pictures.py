"""Pictures that can be asked about: drawings, those that come with a model, and uploads.

An upload is bytes of a stranger, made to a picture of the model or refused. Its format follows
from the content, and its pixels are counted before any is decoded. Nothing is written to a file.
"""

from __future__ import annotations

import io
import secrets
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from PIL import Image
from torch import Tensor

from fcfg.causal.attributes import AttributeSpace, Continuous
from fcfg.datasets import portraits
from fcfg.datasets.portraits import EVALUATION_SEED, Portraits
from fcfg.generation.picture_files import Picture, read_picture, sample_pictures
from fcfg.generation.results import Value, probability_of, scores_of, value_text, values_of
from fcfg.judge import Reading
from fcfg.studio.models import StudioModel
from fcfg.support.errors import InputError
from fcfg.support.images import images_from_bytes, images_to_bytes, to_pictures, to_png
from fcfg.support.pictures import UnreadableError

SAMPLES = 12  #: drawings that the page offers
SEED = EVALUATION_SEED  #: of the drawings, which no model was trained on
_SURE = 0.8  # probability from which a reading is called sure
MOST_BYTES = 16 * 2**20
MOST_PIXELS = 25_000_000
LEAST_SIDE = 8
_BYTES = 16  # of a pixel, as measured of the worst kinds: WebP, and TIFF of 32 bits
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")


@dataclass(frozen=True, eq=False)
class StudioPicture:
    """A picture at the size of the model."""

    id: str
    picture: Picture  #: as the model gets it
    attributes: Mapping[str, Value]  #: as read by the judge, or as drawn
    readings: Mapping[str, Mapping[str, Any]]  #: of the judge; empty without one
    drawing: Portraits | None = field(default=None, repr=False)  #: of one face, if it is drawn

    @property
    def image(self) -> Float[Tensor, "1 channel height width"]:
        """The picture as a batch of one."""
        return self.picture.image[None]

    def to_json(self) -> dict[str, Any]:
        """Return what the page needs to know."""
        return {
            "id": self.id,
            "name": str(self.picture.path),
            "image": f"/api/images/{self.id}.png",
            "attributes": dict(self.attributes),
            "readings": dict(self.readings),
            "notes": list(self.picture.notes),
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
            Picture(Path(f"{noun} {row}"), (model.pixels.size, model.pixels.size), images[row]),
            values_of(space, attributes, row),
            _described(space, reading, row),
            drawing=None if drawn is None else _face(drawn, row),
        )
        for row in range(len(images))
    ]
    return sorted(found, key=lambda each: drawn is None and _is_misread(space, each))


def _is_misread(space: AttributeSpace, picture: StudioPicture) -> bool:
    """Return whether the judge reads other values, or more than a tenth of a range beside them."""
    margins = {a.name: 0.1 * (a.high - a.low) for a in space if isinstance(a, Continuous)}
    values: dict[str, Any] = {**picture.attributes}
    read = {name: reading["value"] for name, reading in picture.readings.items()}
    return any(
        abs(read[name] - values[name]) > margins[name]
        if name in margins
        else read[name] != values[name]
        for name in read
    )


def _face(drawn: Portraits, row: int) -> Portraits:
    """Return one of the drawings."""
    own: dict[str, Any] = {"images": drawn.images[row : row + 1]}
    for part in ("attributes", "factors", "noise"):
        own[part] = {name: column[row : row + 1] for name, column in vars(drawn)[part].items()}
    return replace(drawn, **own)


def _described(
    space: AttributeSpace, reading: Reading | None, row: int = 0
) -> dict[str, dict[str, Any]]:
    """Return what the judge reads, and how sure it is, as JSON values; nothing without one."""
    if reading is None:
        return {}
    scores, found = scores_of(space, reading, row), dict[str, dict[str, Any]]()
    for name, value in values_of(space, reading.attributes, row).items():
        sure = probability_of(value, scores[name])
        found[name] = {
            "value": value,
            "score": sure if isinstance(scores[name], dict) else scores[name],
            "sure": sure is None or sure >= _SURE,
            "text": value_text(float(value)) if sure is None else f"{sure:.2f}",
        }
    return found


def png_of(images: Float[Tensor, "1 channel height width"]) -> bytes:
    """Return an image as a PNG; pixels that are not finite are grey."""
    return to_png(to_pictures(images.float().nan_to_num())[0])


def decoded_bytes(data: bytes) -> int:
    """Return how much memory a picture takes while it is read; refuse one that is too large."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Pillow, about many pixels: we count ourselves
            with Image.open(io.BytesIO(data), formats=FORMATS) as header:
                width, height = header.size
    except Image.DecompressionBombError as error:
        raise _refusal(f"at most {MOST_PIXELS:,} pixels", "many more", "scale it first") from error
    except Exception as error:  # Pillow raises many kinds for broken files
        got = "no bytes" if not data else f"{len(data):,} bytes of something else, or broken ones"
        names = f"{', '.join(FORMATS[:-1])} or {FORMATS[-1]}"
        raise _refusal(f"a file of {names}", got, "choose such a file") from error
    if width * height > MOST_PIXELS or min(width, height) < LEAST_SIDE:
        raise _refusal(
            f"at least {LEAST_SIDE} pixels on each side, and at most {MOST_PIXELS:,} in all",
            f"{width} × {height}",
            "scale it first",
        )
    return _BYTES * width * height


def read_upload(data: bytes, model: StudioModel) -> StudioPicture:
    """Read a picture, and its attributes with the judge."""
    try:
        picture = read_picture(io.BytesIO(data), Path("your picture"), model.pixels, FORMATS)
    except UnreadableError as error:
        raise _refusal("one that can be read", error, "save it again as PNG or JPEG") from error
    space = model.model.space
    readings = _described(space, model.model.read(picture.image[None]))
    attributes = {name: reading["value"] for name, reading in readings.items()}
    if not readings:  # the page shows something first
        attributes = values_of(space, space.decode(np.zeros((1, sum(space.widths)))), 0)
        note = "the model has no judge: set the attributes yourself"
        picture = replace(picture, notes=(*picture.notes, note))
    return StudioPicture(secrets.token_hex(16), picture, attributes, readings)


def _refusal(expected: str, got: object, do: str) -> InputError:
    return InputError("picture", expected=expected, got=got, do=do)
