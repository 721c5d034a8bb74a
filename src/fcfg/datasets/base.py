"""The parts of every data set: options, a listing of its images, and loaded examples.

A data set on disk is a class of options with two methods: ``listing`` reads the labels and opens
no image, and ``attributes`` returns the natural attributes and their graph. One function,
:func:`fcfg.datasets.loading.load_listing`, turns any listing into examples.
"""

from __future__ import annotations

import hashlib
import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import numpy as np
from jaxtyping import UInt8
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from fcfg.causal.attributes import AttributeSpace, Table
from fcfg.causal.graph import CausalGraph
from fcfg.datasets.pixels import Source
from fcfg.support.errors import InputError, check_among, listed
from fcfg.support.pictures import Pixels

if TYPE_CHECKING:
    from torch import Tensor

SPLITS = ("train", "val", "test")

OnProgress: TypeAlias = Callable[[str, int, int], None]  # name of the work, done, total
Measure: TypeAlias = "Callable[[Tensor], NDArray[np.float64]]"  # images in [-1, 1] to numbers
Size: TypeAlias = Annotated[int, Field(ge=8, le=2048)]
Channels: TypeAlias = Literal[1, 3]
Fractions: TypeAlias = tuple[float, float, float]  # of train, val and test


@dataclass(frozen=True, eq=False)
class Examples:
    """Images with their attributes, in the same order in every field."""

    images: UInt8[np.ndarray, "example channel height width"] = field(repr=False)
    """Pixels as bytes; possibly a memory-mapped file."""
    attributes: Table = field(repr=False)
    names: tuple[str, ...] = field(repr=False)  #: unique file names
    factors: dict[str, NDArray[np.float64]] = field(default_factory=dict, repr=False)
    """Continuous quantity behind each attribute; known in drawn worlds only."""

    def __len__(self) -> int:
        return len(self.images)


Splits: TypeAlias = dict[str, Examples]  # keys are names in SPLITS; 'test' may be missing


@dataclass(frozen=True, eq=False)
class Listing:
    """Images and labels of a data set, in the same order in every field.

    Columns hold the strings of the label files;
    :func:`fcfg.datasets.columns.parse_column` turns them into values.
    """

    root: Path  #: folder of the data set, and of its cache by default
    sources: tuple[Source, ...] = field(repr=False)
    names: tuple[str, ...] = field(repr=False)  #: unique
    columns: Mapping[str, Sequence[str]] = field(repr=False)  #: by name of the attribute
    splits: tuple[str, ...] = field(repr=False)  #: 'train', 'val' or 'test'
    groups: tuple[str, ...] | None = field(default=None, repr=False)
    """Patient or person of each image; no group is in two splits."""
    excluded: Mapping[str, int] = field(default_factory=dict)
    """Number of rows that the protocol excludes, by reason."""

    def __post_init__(self) -> None:
        """Refuse duplicates, unknown or empty splits, and groups in several splits."""
        check_unique("data", self.names)
        for split in sorted(set(self.splits)):
            check_among("data, split", split, SPLITS)
        for split in ("train", "val"):
            if split not in self.splits:
                raise InputError(
                    f"data in {self.root}",
                    expected=f"at least one example in '{split}'",
                    got=f"{dict(Counter(self.splits)) or 'none at all'}",
                    do="check the split, and what was excluded: "
                    + (str(dict(self.excluded)) if self.excluded else "nothing"),
                )
        shared = [] if self.groups is None else leaking_groups(self.groups, self.splits)
        if shared:
            raise InputError(
                "data, split",
                expected="every group in one split only",
                got=f"{listed(shared)} in several",
                do="move all images of a group into one split, or remove 'split' to draw one",
            )

    def __len__(self) -> int:
        return len(self.names)

    def by_split(self) -> Listing:
        """Sort by split: training, validation, test. The order within a split is kept."""
        return self.take(sorted(range(len(self)), key=lambda row: SPLITS.index(self.splits[row])))

    def take(self, rows: Sequence[int]) -> Listing:
        """Select rows, in the given order."""
        return Listing(
            self.root,
            tuple(self.sources[row] for row in rows),
            tuple(self.names[row] for row in rows),
            {name: [texts[row] for row in rows] for name, texts in self.columns.items()},
            tuple(self.splits[row] for row in rows),
            None if self.groups is None else tuple(self.groups[row] for row in rows),
            self.excluded,
        )


class AbstractDiskData(BaseModel, ABC, frozen=True, extra="forbid"):
    """Options that all data sets on disk have."""

    format: str  #: name of the data set
    path: Path | None = None  #: folder of the data set
    size: Size = 64  #: height and width of the images
    channels: Channels = 3  #: 1 for grey, 3 for RGB
    cache: Path | None = None  #: folder of decoded images, see :mod:`fcfg.datasets.loading`

    @property
    def pixels(self) -> Pixels:
        """Common format of the images."""
        return Pixels(**self.model_dump(include={"size", "channels", "intensity", "fit"}))

    @abstractmethod
    def listing(self, space: AttributeSpace) -> Listing:
        """Read the labels of some attributes without opening an image."""

    @abstractmethod
    def attributes(self) -> tuple[AttributeSpace, CausalGraph] | None:
        """The natural attributes and their graph; None if there are none."""


def check_unique(subject: str, names: Sequence[str]) -> None:
    """Refuse names that occur more than once.

    >>> check_unique("metadata.csv", ["a.png", "b.png", "a.png"])
    Traceback (most recent call last):
    fcfg.InputError: metadata.csv: expected every file once, got 'a.png' more than once;
    remove the duplicate rows.
    """
    if duplicates := repeated(names):
        raise InputError(
            subject,
            expected="every file once",
            got=f"{listed(duplicates)} more than once",
            do="remove the duplicate rows",
        )


def repeated(names: Sequence[str]) -> list[str]:
    """Names that occur more than once."""
    return [name for name, count in Counter(names).items() if count > 1]


def leaking_groups(groups: Sequence[str], splits: Sequence[str]) -> list[str]:
    """Groups in more than one split, in order of their first example.

    >>> leaking_groups(["ann", "bob", "ann"], ["train", "train", "test"])
    ['ann']
    """
    seen: dict[str, set[str]] = {}
    for group, split in zip(groups, splits, strict=True):
        seen.setdefault(group, set()).add(split)
    return [group for group, where in seen.items() if len(where) > 1]


def split_by_group(groups: Sequence[str], fractions: Fractions, seed: int) -> list[str]:
    """Assign every group to a split at random, and every example to the split of its group.

    Groups are sorted by a hash of the seed and their name. The split therefore depends neither on
    the order of the rows nor on the machine, and a few new groups move few of the others.
    Fractions count groups, rounded; a split with a positive fraction has at least one group.

    >>> split_by_group(["ann", "bob", "ann", "cleo"], (0.4, 0.3, 0.3), seed=0)
    ['test', 'val', 'test', 'train']

    Args:
        groups: Patient, person or file name of each example.
        fractions: Fractions of train, val and test; their sum is 1.
        seed: Seed for the assignment.
    """
    if min(fractions[:2]) <= 0 or fractions[2] < 0 or abs(sum(fractions) - 1) > 1e-6:
        raise InputError(
            "data, fractions",
            expected="three numbers that sum to 1, the first two above 0",
            got=f"{fractions}",
            do="(0.8, 0.1, 0.1) is the default",
        )

    def order(group: str) -> bytes:
        return hashlib.blake2b(f"{seed}:{group}".encode(), digest_size=16).digest()

    unique = sorted(set(groups), key=order)
    val, test = (max(1, round(f * len(unique))) if f > 0 else 0 for f in fractions[1:])
    train = len(unique) - val - test
    if train < 1:
        raise InputError(
            "data, fractions",
            expected=f"at least {1 + (val > 0) + (test > 0)} groups for {fractions}",
            got=f"{len(unique)}",
            do="add images, or change the fractions",
        )
    names = [split for split, n in zip(SPLITS, (train, val, test), strict=True) for _ in range(n)]
    split_of = dict(zip(unique, names, strict=True))
    return [split_of[group] for group in groups]


def existing_folder(path: Path | None) -> Path:
    """Return the folder of a data set, or refuse a path that is not one."""
    if path is None or not os.path.isdir(path):
        raise InputError(
            "data, path",
            expected="a folder that exists",
            got="none" if path is None else f"'{path}'",
            do="give the folder of the data set: --data DIR, or 'path' of the section data",
        )
    return path


def find_file(folder: Path | None, candidates: Sequence[str], source: str) -> Path:
    """Return the first candidate that exists, or say where to get it.

    Args:
        folder: Folder of the data set; None is refused.
        candidates: Relative paths, the official one first.
        source: Origin of the data set, for messages.
    """
    root = existing_folder(folder)
    for candidate in candidates:
        if (root / candidate).exists():
            return root / candidate
    raise InputError(
        f"data in {root}",
        expected=" or ".join(f"'{candidate}'" for candidate in candidates),
        got="no such file",
        do=f"get it from {source}",
    )
