"""Uploads: bytes of a stranger, made to a picture of the model or refused.

The format follows from the content, and the number of pixels is checked before any is decoded.
Nothing is written to a file.
"""

from __future__ import annotations

import io
import secrets
import warnings
from pathlib import Path

from PIL import Image

from fcfg.generation.picture_files import read_picture
from fcfg.generation.results import values_of
from fcfg.studio.models import StudioModel
from fcfg.studio.pictures import StudioPicture, describe_reading, without_judge
from fcfg.support.errors import InputError
from fcfg.support.pictures import UnreadableError

MOST_BYTES = 16 * 2**20
MOST_PIXELS = 25_000_000
LEAST_SIDE = 8
_BYTES = 16  # of a pixel, as measured of the worst kinds: WebP, and TIFF of 32 bits
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")


def decoded_bytes(data: bytes) -> int:
    """Return how much memory a picture takes while it is read; refuse one that is too large."""
    width, height = _size(data)
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
        picture = read_picture(io.BytesIO(data), Path("picture"), model.pixels, FORMATS)
    except UnreadableError as error:
        raise _refusal("one that can be read", error, "save it again as PNG or JPEG") from error
    images, space = picture.image[None], model.model.space
    reading = model.model.read(images)
    notes = picture.notes
    if reading is None:
        attributes, readings = without_judge(space), {}
        notes = (*notes, "the model has no judge: set the attributes yourself")
    else:
        attributes = values_of(space, reading.attributes, 0)
        readings = describe_reading(space, reading)
    return StudioPicture(
        secrets.token_hex(16), "your picture", images, attributes, readings, notes
    )


def _size(data: bytes) -> tuple[int, int]:
    """Return width and height, from the header of the file."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Pillow, about many pixels: we count ourselves
            with Image.open(io.BytesIO(data), formats=FORMATS) as header:
                return header.size
    except Image.DecompressionBombError as error:
        raise _refusal(f"at most {MOST_PIXELS:,} pixels", "many more", "scale it first") from error
    except Exception as error:  # Pillow raises many kinds for broken files
        got = "no bytes" if not data else f"{len(data):,} bytes of something else, or broken ones"
        names = f"{', '.join(FORMATS[:-1])} or {FORMATS[-1]}"
        raise _refusal(f"a file of {names}", got, "choose such a file") from error


def _refusal(expected: str, got: object, do: str) -> InputError:
    return InputError("picture", expected=expected, got=got, do=do)
