"""Morpho-MNIST: 70,000 handwritten digits, redrawn with a known thickness and intensity.

``morphomnist.npz`` holds bytes of 28 by 28 in ``x_train`` and ``x_test``, and with the same
endings the digit in ``y``, ``thickness`` and ``intensity`` (verified on it). Each digit was
redrawn with thickness t = 0.5 + Gamma(10, 5) and intensity 64 + 191 σ(2 t - 5 + ε / 2), ε normal:
thickness causes intensity, and the digit causes neither. Labels are the values asked for;
:mod:`fcfg.metrics.strokes` measures those in an image.

Images are padded from 28 to 32 pixels with black, as in causal-gen, so that a network can halve
them. The test images are the published ones; validation images are drawn from the training images.

References:
    Morpho-MNIST (Castro et al., JMLR 2019), https://github.com/dccastro/Morpho-MNIST; deep
    structural causal models (Pawlowski et al., NeurIPS 2020); causal-gen (De Sousa Ribeiro et al.,
    ICML 2023).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fcfg.causal.attributes import AttributeSpace
from fcfg.datasets.base import Case, Channels, Measure, Size, split_by_group
from fcfg.datasets.columns import find_file
from fcfg.datasets.loading import AbstractDiskData
from fcfg.datasets.pixels import Source
from fcfg.support.errors import InputError
from fcfg.support.tables import check_columns

_SOURCE = "https://github.com/biomedia-mira/causal-gen, packed as fcfg.datasets.morphomnist says"
_FILE, _SIDE = "morphomnist.npz", 28
_PADDED = (-2, -2, _SIDE + 2, _SIDE + 2)
_ARRAYS = {"digit": "y", "thickness": "thickness", "intensity": "intensity"}


class MorphoMNISTData(AbstractDiskData, frozen=True):
    """Options of Morpho-MNIST; ``path`` is the folder with morphomnist.npz."""

    format: Literal["morphomnist"] = "morphomnist"
    size: Size = 32  #: height and width of the images; other sizes are resized from 32
    channels: Channels = 1  #: 1 for grey, 3 for RGB
    val_fraction: float = Field(default=0.1, gt=0, lt=1)  #: of the training images
    split_seed: int = 0  #: seed for the validation images

    def measures(self) -> dict[str, Measure]:
        from fcfg.metrics import stroke_intensity, stroke_thickness  # with torch

        return {"thickness": stroke_thickness, "intensity": stroke_intensity}

    def cases(self, root: Path, space: AttributeSpace) -> Iterator[Case]:
        path = find_file(root, [_FILE], _SOURCE)
        check_columns(str(path), space.names, _ARRAYS)
        arrays = _read_arrays(path)
        own = [f"train-{row:05d}" for row in range(len(arrays["x_train"]))]
        fractions = (1 - self.val_fraction, self.val_fraction, 0.0)
        split_of = dict(zip(own, split_by_group(own, fractions, self.split_seed), strict=True))
        for split in ("train", "test"):
            for row in range(len(arrays[f"x_{split}"])):
                name = f"{split}-{row:05d}"
                source = Source(path, f"x_{split}", _PADDED, row)
                values = {a: str(arrays[f"{_ARRAYS[a]}_{split}"][row]) for a in space.names}
                yield Case(source, name, values, split=split_of.get(name, "test"))


def _read_arrays(path: Path) -> Mapping[str, NDArray[Any]]:
    """Return the images and labels of the published splits, or refuse another file."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {
                f"{name}_{split}": archive[f"{name}_{split}"]
                for name in ("x", *_ARRAYS.values())
                for split in ("train", "test")
            }
        for name, array in arrays.items():
            kind, split = name.split("_")
            count = len(arrays[f"x_{split}"])
            wanted = (count, _SIDE, _SIDE) if kind == "x" else (count,)
            if array.shape != wanted or (kind == "x" and array.dtype != np.uint8):
                raise ValueError(f"{name} of {array.dtype} {array.shape}")
    except Exception as error:  # NumPy and zlib raise many kinds for broken files
        expected = f"images x_train and x_test of {_SIDE} by {_SIDE} bytes, and their labels"
        got, do = " ".join(str(error).strip("\"'").split())[:120], f"get it from {_SOURCE}"
        raise InputError(str(path), expected=expected, got=got, do=do) from error
    return arrays
