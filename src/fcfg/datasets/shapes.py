"""A small example data set: a folder of grey shapes with a table of their attributes.

A shape is a disc or a square with a radius and a brightness that grows with the radius. Its
position is not an attribute: a counterfactual must not change it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from fcfg.support.errors import InputError, check_integer

SIZE = 16  # height and width of the images
_FINER = 8  # factor of oversampling, for smooth edges
GRAPH = {"radius": (), "brightness": ("radius",), "square": ()}


@dataclass(frozen=True)
class Shape:
    """One shape: three attributes and its position."""

    radius: float
    brightness: int
    square: int
    x: float
    y: float

    def draw(self) -> Image.Image:
        """Draw the shape as a grey picture."""
        page = Image.new("L", (SIZE * _FINER, SIZE * _FINER))
        pen = ImageDraw.Draw(page)
        ends, centre = (-self.radius, self.radius), (self.x, self.y)
        box = [_FINER * (middle + end) for end in ends for middle in centre]
        (pen.rectangle if self.square else pen.ellipse)(box, fill=self.brightness)
        return page.resize((SIZE, SIZE), Image.Resampling.BOX)


def sample(count: int, seed: int = 0) -> list[Shape]:
    """Sample shapes; the seed is for attributes and positions."""
    check_integer("count", count, 1, 10**6, do="1000 is the default")
    check_integer("seed", seed, 0, 2**63 - 1, do="0 is the default")
    rng = np.random.default_rng(seed)
    shapes: list[Shape] = []
    for _ in range(count):
        radius = round(float(rng.uniform(2, 5)), 2)
        brightness = int(np.clip(50 + 30 * radius + rng.normal(0, 15), 0, 255))
        x, y = (round(float(value), 2) for value in rng.uniform(6, 10, 2))
        shapes.append(Shape(radius, brightness, int(rng.integers(2)), x, y))
    return shapes


def write_shapes(folder: str | os.PathLike[str], count: int = 1000, seed: int = 0) -> Path:
    """Write pictures and ``metadata.csv`` to a new or empty folder, see :func:`sample`.

    Args:
        folder: A folder that does not exist, or is empty.
        count: Number of pictures.
        seed: Seed of all that is drawn.
    """
    path, shapes = Path(folder), sample(count, seed)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        expected, do = "a folder that does not exist, or is empty", "choose another name"
        raise InputError(f"folder {path}", expected=expected, got="something else", do=do)
    path.mkdir(parents=True, exist_ok=True)
    lines = [",".join(["file_name", *GRAPH])]
    for number, shape in enumerate(shapes):
        shape.draw().save(path / f"{number:04}.png")
        lines.append(f"{number:04}.png,{shape.radius},{shape.brightness},{shape.square}")
    (path / "metadata.csv").write_text("\n".join([*lines, ""]), encoding="utf-8")
    return path
