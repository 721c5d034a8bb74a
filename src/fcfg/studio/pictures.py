"""Pictures that can be asked about: drawings, those that come with a model, and uploads.

An upload is bytes of a stranger, made to a picture of the model or refused. Its format follows
from the content, and its pixels are counted before any is decoded. Nothing is written to a file.
"""

from __future__ import annotations

import io
import math
import secrets
import warnings
from collections.abc import Generator, Mapping
from contextlib import contextmanager
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
from fcfg.generation.picture_files import Picture, drawable, read_picture, sample_pictures
from fcfg.generation.results import Value, probability_of, scores_of, value_text, values_of
from fcfg.judge import Reading
from fcfg.studio.models import StudioModel
from fcfg.support.errors import InputError
from fcfg.support.images import (
    images_from_bytes,
    images_to_bytes,
    slice_widths,
    to_pictures,
    to_png,
)
from fcfg.support.pictures import Pixels, UnreadableError
from fcfg.support.volumes import Voxels, read_volume, unpacked, volume_size

SAMPLES = 12  #: drawings that the page offers
SEED = EVALUATION_SEED  #: of the drawings, which no model was trained on
_SURE = 0.8  # probability from which a reading is called sure
MOST_BYTES = 16 * 2**20
MOST_PIXELS = 25_000_000
LEAST_SIDE = 8
MOST_VOXELS = 2**24
_HEADER = 4096  # bytes that tell the size of a volume
_OF_VOXEL = 32  # bytes, if the file has numbers of 64 bits
_BYTES = 16  # of a pixel, as measured of the worst kinds: WebP, and TIFF of 32 bits
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")


@dataclass(frozen=True, eq=False)
class StudioPicture:
    """A picture at the size of the model, or a volume."""

    id: str
    picture: Picture  #: as the model gets it
    attributes: Mapping[str, Value]  #: as read by the judge, or as drawn
    readings: Mapping[str, Mapping[str, Any]]  #: of the judge; empty without one
    drawing: Portraits | None = field(default=None, repr=False)  #: of one face, if it is drawn

    @property
    def image(self) -> Float[Tensor, "1 channel *size"]:
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
            "slices": slice_widths(self.picture.image.shape[1:]),
        }


def find_samples(model: StudioModel) -> list[StudioPicture]:
    """Return pictures to ask about: drawings of the model's world, or those that come with it.

    Of the latter, those that the judge reads rightly come first: one asks about them first.
    """
    drawn = None
    if model.world is None:
        if (shipped := sample_pictures(model.model)) is None:
            return []
        noun = "volume" if model.model.dimensions == 3 else "picture"
        images, attributes = shipped.images, shipped.attributes
    else:
        assert isinstance(model.pixels, Pixels), "drawn worlds are pictures"
        drawn = portraits.sample(SAMPLES, SEED, model.pixels.size, model.world)
        # Rounded as in a file, so that an answer is that of the picture one can download.
        images = images_from_bytes(images_to_bytes(drawn.images))
        noun, attributes = "drawing", drawn.attributes
    reading, space = model.model.read(images), model.model.space
    found = [
        StudioPicture(
            f"s{row}",
            Picture(Path(f"{noun} {row}"), tuple(images.shape[2:]), images[row]),
            values_of(space, attributes, row),
            _described(space, reading, row),
            drawing=None if drawn is None else drawn.some(slice(row, row + 1)),
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


def png_of(images: Float[Tensor, "1 channel *size"]) -> bytes:
    """Return an image as a PNG, a volume as its middle slices; what is not finite is grey."""
    return to_png(to_pictures(drawable(images[0]).float().nan_to_num()[None])[0])


def decoded_bytes(data: bytes, model: StudioModel) -> int:
    """Return how much memory a picture takes while it is read; refuse one that is too large."""
    if isinstance(model.pixels, Voxels):
        with _readable("NIfTI"):
            size = volume_size(unpacked(data, _HEADER))
        return _affordable(size, MOST_VOXELS, _OF_VOXEL)
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
    return _affordable((width, height), MOST_PIXELS, _BYTES)


def read_upload(data: bytes, model: StudioModel) -> StudioPicture:
    """Read a picture, and its attributes with the judge."""
    path, wanted, space = Path("your picture"), model.pixels, model.model.space
    if isinstance(wanted, Pixels):
        with _readable("PNG or JPEG"):
            picture = read_picture(io.BytesIO(data), path, wanted, FORMATS)
    else:
        with _readable("NIfTI"):
            image, file = read_volume(unpacked(data, _HEADER + 8 * MOST_VOXELS), wanted)
        picture = Picture(path, file.stored, image, file.notes, file)
    readings = _described(space, model.model.read(picture.image[None]))
    attributes = {name: reading["value"] for name, reading in readings.items()}
    if not readings:  # the page shows something first
        attributes = values_of(space, space.decode(np.zeros((1, sum(space.widths)))), 0)
        note = "the model has no judge: set the attributes yourself"
        picture = replace(picture, notes=(*picture.notes, note))
    return StudioPicture(secrets.token_hex(16), picture, attributes, readings)


def _affordable(size: tuple[int, ...], most: int, each: int) -> int:
    """Return the bytes of a picture while it is read; refuse one that is too large or small."""
    if math.prod(size) > most or min(size) < LEAST_SIDE:
        raise _refusal(
            f"at least {LEAST_SIDE} pixels on each side, and at most {most:,} in all",
            " × ".join(map(str, size)),
            "scale it first",
        )
    return each * math.prod(size)


@contextmanager
def _readable(kind: str) -> Generator[None]:
    """Say that a picture cannot be read, and as what to save it."""
    try:
        yield
    except UnreadableError as error:
        raise _refusal("one that can be read", error, f"save it again as {kind}") from error


def _refusal(expected: str, got: object, do: str) -> InputError:
    return InputError("picture", expected=expected, got=got, do=do)
