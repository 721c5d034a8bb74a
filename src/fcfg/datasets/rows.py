"""Images and attributes from what yields rows: datasets of torch and Hugging Face, and loaders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from fcfg.support.errors import InputError, quoted, short
from fcfg.support.images import ImagesLike


def read_rows(
    rows: object, names: Iterable[str], *, image: str = "image", most: int | None = None
) -> tuple[ImagesLike, dict[str, list[Any]]]:
    """Return the images of rows, and the columns of their attributes, as a model takes them.

    >>> images, table = read_rows([(torch.zeros(3, 8, 8), [1])], ["smiling"])
    >>> images.shape, table
    (torch.Size([1, 3, 8, 8]), {'smiling': [1]})

    Args:
        rows: A dataset of torch or Hugging Face, or a loader of batches. A row is a mapping, or
            a pair of an image and its attributes: a mapping, or values in the order of ``names``.
        names: Attributes to read.
        image: Name of the image in a mapping.
        most: Largest number of rows; all by default.
    """
    names, pictures = tuple(names), list[Any]()
    table: dict[str, list[Any]] = {name: [] for name in names}
    for number, row in enumerate(islice(_each(rows), most)):
        picture, values = _read(row, names, image, number)
        pictures.append(picture)
        for name in names:
            table[name].append(_plain(values[name]))
    stacked = bool(pictures) and all(isinstance(picture, Tensor) for picture in pictures)
    return torch.stack(pictures) if stacked else pictures, table


def _each(rows: Any) -> Iterator[Any]:
    """Yield rows, also those of batches."""
    if isinstance(rows, DataLoader):
        for batch in rows:
            yield from _unbatched(batch)
    elif hasattr(rows, "__len__") and hasattr(rows, "__getitem__"):
        yield from (rows[number] for number in range(len(rows)))  # not all end with IndexError
    elif isinstance(rows, Iterable):
        yield from rows
    else:
        raise InputError(
            "rows",
            expected="a dataset, a loader or a list of rows",
            got=short(rows),
            do="pass what yields an image and its attributes",
        )


def _unbatched(batch: Any) -> Iterator[Any]:
    if isinstance(batch, Mapping):
        rows = zip(*batch.values(), strict=True)
        return (dict(zip(batch, row, strict=True)) for row in rows)
    return zip(*(_unbatched(p) if isinstance(p, Mapping) else p for p in batch), strict=True)


def _read(
    row: Any, names: Sequence[str], image: str, number: int
) -> tuple[Any, Mapping[str, Any]]:
    """Return the image of a row, and at least its attributes by name."""
    if isinstance(row, Mapping):
        picture, values = row.get(image), row
    else:
        picture, values = row if isinstance(row, tuple | list) and len(row) == 2 else (None, {})
        if not isinstance(values, Mapping):
            listed = torch.as_tensor(values).reshape(-1).tolist()
            values = dict(zip(names, listed, strict=False)) if len(listed) == len(names) else {}
    missing = [name for name in names if name not in values]
    if picture is None or missing:
        raise InputError(
            f"rows, row {number}",
            expected=f"an image, named '{image}' in a mapping, and {quoted(names)}",
            got=short(row if picture is None else missing),
            do="name the image with image=, or yield pairs of an image and its attributes",
        )
    return picture, values


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value
