"""Morpho-MNIST: 70,000 handwritten digits, redrawn with a known thickness and intensity.

::

    morphomnist/
      morphomnist.npz     x_train, x_test: (60000, 28, 28) and (10000, 28, 28), bytes
                          y_train, y_test: the digit
                          thickness_train, ..., intensity_test: one number per image

This is the data set of deep structural causal models, in one file (verified on it). Each digit was
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

import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray
from pydantic import Field

from fcfg.causal.attributes import AttributeSpace, Categorical, Continuous
from fcfg.causal.graph import CausalGraph
from fcfg.datasets.base import Case, Channels, Size, find_file, split_by_group
from fcfg.datasets.loading import AbstractDiskData
from fcfg.datasets.pixels import Source
from fcfg.support.csv_files import check_columns
from fcfg.support.errors import InputError

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

    def attributes(self) -> tuple[AttributeSpace, CausalGraph]:
        """Thickness, which causes intensity, and the digit."""
        space = AttributeSpace(
            [
                Continuous("thickness", 0.5, 6.5),
                Continuous("intensity", 64, 255),
                Categorical("digit", [str(digit) for digit in range(10)]),
            ]
        )
        return space, CausalGraph({"thickness": [], "intensity": ["thickness"], "digit": []})

    def cases(self, root: Path, space: AttributeSpace) -> Iterator[Case]:
        """Read the labels, and the shapes of the images."""
        path = find_file(root, [_FILE], _SOURCE)
        check_columns(str(path), space.names, _ARRAYS)
        counts, labels = _read_labels(path)
        own = [f"train-{row:05d}" for row in range(counts["train"])]
        fractions = (1 - self.val_fraction, self.val_fraction, 0.0)
        split_of = dict(zip(own, split_by_group(own, fractions, self.split_seed), strict=True))
        for split, count in counts.items():
            for row in range(count):
                name = f"{split}-{row:05d}"
                source = Source(path, f"x_{split}", _PADDED, row)
                values = {each: str(labels[each, split][row]) for each in space.names}
                yield Case(source, name, values, split=split_of.get(name, "test"))


def _read_labels(path: Path) -> tuple[dict[str, int], dict[tuple[str, str], NDArray[np.generic]]]:
    """Return the number of images of each published split, and the labels by name and split."""
    counts: dict[str, int] = {}
    labels: dict[tuple[str, str], NDArray[np.generic]] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for split in ("train", "test"):
                with archive.open(f"x_{split}.npy") as file:
                    npy.read_magic(file)
                    shape, _, dtype = npy.read_array_header_1_0(file)
                if dtype != np.uint8 or shape[1:] != (_SIDE, _SIDE):
                    raise ValueError(f"x_{split} of {dtype} {shape}")
                counts[split] = shape[0]
        with np.load(path, allow_pickle=False) as arrays:
            for name, prefix in _ARRAYS.items():
                for split, count in counts.items():
                    labels[name, split] = column = arrays[f"{prefix}_{split}"]
                    if column.shape != (count,):
                        raise ValueError(f"{prefix}_{split} of shape {column.shape}")
    except (OSError, EOFError, KeyError, ValueError, zlib.error, zipfile.BadZipFile) as error:
        raise InputError(
            str(path),
            expected=f"images x_train and x_test of {_SIDE} by {_SIDE} bytes, and their labels",
            got=" ".join(str(error).strip("\"'").split())[:120],
            do=f"get it from {_SOURCE}",
        ) from error
    return counts, labels
