"""A folder of small pictures with a table."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
from PIL import Image

from fcfg.causal.attributes import AttributeSpace, Binary, Categorical, Continuous
from fcfg.datasets.folder import FolderData

SPACE = AttributeSpace(
    [Binary("smiling"), Categorical("hair", ("dark", "fair")), Continuous("age", 0, 100)]
)


def picture(number: int, size: tuple[int, int] = (20, 16)) -> Image.Image:
    rng = np.random.default_rng(number)
    return Image.fromarray(rng.integers(0, 256, (size[1], size[0], 3), dtype=np.uint8))


def faces(folder: Path, count: int = 10, **columns: list[str]) -> FolderData:
    """Write a folder of small pictures; a column can be replaced or added."""
    names = [f"{'more/' if n % 3 == 0 else ''}{n}.png" for n in range(count)]
    table = {
        "file_name": names,
        "smiling": [str(n % 2) for n in range(count)],
        "hair": [["dark", "fair"][n % 2] for n in range(count)],
        "age": [str(20 + n) for n in range(count)],
    } | columns
    (folder / "more").mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(names):
        picture(number).save(folder / name)
    write_table(folder, table)
    return FolderData(path=folder, size=16)


def write_table(folder: Path, table: Mapping[str, Iterable[object]]) -> None:
    """Write the table of a folder."""
    with (folder / "metadata.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(table)
        writer.writerows(zip(*table.values(), strict=True))
