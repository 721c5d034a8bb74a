"""A small world to try the commands on: a folder of grey shapes with a table of what they show.

A shape has a radius, a brightness, which grows with the radius, and may be a square. Where it lies
is no attribute: it is what a counterfactual must not change.
"""

from __future__ import annotations

import csv
import io
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from fcfg.support.errors import InputError, check_integer

SIZE = 16  # height and width of the images
_FINER = 8  # drawn so much larger, then averaged: edges are grey
GRAPH = {"radius": (), "brightness": ("radius",), "square": ()}


@dataclass(frozen=True)
class Shape:
    """One shape: three attributes, and where it lies."""

    radius: float
    brightness: int
    square: int
    x: float
    y: float

    def draw(self) -> Image.Image:
        """The shape as a grey picture.

        >>> Shape(radius=3.0, brightness=200, square=0, x=8.0, y=8.0).draw().getpixel((8, 8))
        200
        """
        page = Image.new("L", (SIZE * _FINER, SIZE * _FINER))
        pen = ImageDraw.Draw(page)
        box = [
            _FINER * (at + end) for end in (-self.radius, self.radius) for at in (self.x, self.y)
        ]
        (pen.rectangle if self.square else pen.ellipse)(box, fill=self.brightness)
        return page.resize((SIZE, SIZE), Image.Resampling.BOX)


def sample(count: int, seed: int = 0) -> list[Shape]:
    """Draw shapes at random.

    Args:
        count: Number of shapes.
        seed: Seed for everything that is drawn.
    """
    check_integer("count", count, 1, 10**6, do="1000 is enough to learn from")
    check_integer("seed", seed, 0, 2**63 - 1, do="0 is the default")
    rng = np.random.default_rng(seed)
    shapes: list[Shape] = []
    for _ in range(count):
        radius = round(float(rng.uniform(2, 5)), 2)
        brightness = int(np.clip(50 + 30 * radius + rng.normal(0, 15), 0, 255))
        x, y = (round(float(at), 2) for at in rng.uniform(6, 10, 2))
        shapes.append(Shape(radius, brightness, int(rng.integers(2)), x, y))
    return shapes


def write_shapes(folder: str | os.PathLike[str], count: int = 1000, seed: int = 0) -> Path:
    """Write a folder as :mod:`fcfg.datasets.folder` reads it: pictures and ``metadata.csv``.

    Args:
        folder: Folder to write; one that holds anything is refused.
        count: Number of pictures.
        seed: Seed for everything that is drawn.

    Returns:
        The folder.
    """
    place, shapes = Path(folder), sample(count, seed)
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise InputError(
            f"folder {place}",
            expected="one that does not exist, or is empty",
            got="something else",
            do="choose another name",
        )
    place.mkdir(parents=True, exist_ok=True)
    table = io.StringIO()
    rows = csv.writer(table, lineterminator="\n")
    rows.writerow(["file_name", *GRAPH])
    for number, shape in enumerate(shapes):
        name = f"{number:04}.png"
        shape.draw().save(place / name)
        rows.writerow([name, *(getattr(shape, attribute) for attribute in GRAPH)])
    (place / "metadata.csv").write_text(table.getvalue(), encoding="utf-8")
    return place
