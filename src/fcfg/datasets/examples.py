"""What every data set becomes: images as bytes, their attributes, their names, in splits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from jaxtyping import UInt8
from numpy.typing import NDArray

from fcfg.causal.attributes import Table

SPLITS = ("train", "val", "test")
OnProgress: TypeAlias = Callable[[str, int, int], None]  # what is done, how many, of how many


@dataclass(frozen=True, eq=False)
class Examples:
    """Images with their attributes; the order is the same in every field."""

    images: UInt8[np.ndarray, "example channel height width"] = field(repr=False)
    """Bytes; possibly a file that is mapped into memory and never read whole."""
    attributes: Table = field(repr=False)
    names: tuple[str, ...] = field(repr=False)  #: of the files, each once
    factors: dict[str, NDArray[np.float64]] = field(default_factory=dict, repr=False)
    """What is known of the continuous quantity behind each attribute: drawn worlds only."""

    def __len__(self) -> int:
        return len(self.images)


Splits: TypeAlias = dict[str, Examples]  # by the names in SPLITS; 'test' may be missing
