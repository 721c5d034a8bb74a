"""The parts of every data set: options, a listing of its images, and loaded examples."""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self, TypeAlias

import numpy as np
from jaxtyping import Shaped
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from fcfg.causal.attributes import AttributeSpace, Table
from fcfg.datasets.columns import is_missing
from fcfg.datasets.pixels import Source
from fcfg.support.errors import InputError, listed, nearest, quoted, refuse_all
from fcfg.support.hashing import hex_digest

if TYPE_CHECKING:
    from torch import Tensor

SPLITS = ("train", "val", "test")
_OUTSIDE = re.compile(r"^$|^[/\\]|(^|[/\\])\.\.([/\\]|$)")  # names that leave the folder

OnProgress: TypeAlias = Callable[[str, int, int], None]  # name of the work, done, total
Measure: TypeAlias = "Callable[[Tensor], NDArray[np.float64]]"  # images in [-1, 1] to numbers
Size: TypeAlias = Annotated[int, Field(ge=8, le=2048)]
Channels: TypeAlias = Literal[1, 3]
Fractions: TypeAlias = tuple[float, float, float]  # of train, val and test


def silent(what: str, done: int, total: int) -> None:
    """Report progress to nobody."""


@dataclass(frozen=True, eq=False)
class Examples:
    """Images with their attributes, in the same order in every field."""

    images: Shaped[np.ndarray, "example channel *size"] = field(repr=False)
    """Pixels as bytes, or latents as numbers; possibly a memory-mapped file."""
    attributes: Table = field(repr=False)
    names: tuple[str, ...] = field(repr=False)  #: unique file names
    factors: dict[str, NDArray[np.float64]] = field(default_factory=dict, repr=False)
    """Continuous quantity behind each attribute; known in drawn worlds only."""
    groups: tuple[str, ...] | None = field(default=None, repr=False)
    """Patient or person of each image, if the labels say it."""

    def __len__(self) -> int:
        return len(self.images)


Splits: TypeAlias = dict[str, Examples]  # keys are names in SPLITS; 'test' may be missing


@dataclass(frozen=True)
class Case:
    """An image with its labels, as strings of the label files."""

    source: Source
    name: str  #: unique
    values: Mapping[str, str]  #: by name of the attribute
    group: str | None = None  #: patient or person; no group is in two splits
    split: str = ""  #: 'train', 'val' or 'test'; empty if it is drawn
    reasons: Mapping[str, bool] = field(default_factory=dict)
    """Why the protocol excludes images, and whether it excludes this one; the first counts."""

    @property
    def reason(self) -> str:
        """Why the protocol excludes the image; empty if it does not."""
        return next((reason for reason, holds in self.reasons.items() if holds), "")


@dataclass(frozen=True, eq=False)
class Listing:
    """The images of a data set; :mod:`fcfg.datasets.columns` turns their labels into values."""

    root: Path  #: folder of the data set, and of its cache by default
    cases: Sequence[Case] = field(repr=False)
    excluded: Mapping[str, int] = field(default_factory=dict)
    """Number of rows that the protocol excludes, by reason."""

    def __post_init__(self) -> None:
        """Refuse unknown or empty splits, and groups in several."""
        refuse_all(split_faults(self.root, self.cases, self.excluded))

    def split(self, name: str) -> list[Case]:
        """Images of a split."""
        return [case for case in self.cases if case.split == name]


def name_faults(root: Path, cases: Sequence[Case]) -> Iterator[InputError]:
    """Yield names that leave the folder or are double, and images without a group."""
    fault, names = partial(_fault, root), [case.name for case in cases]
    if outside := [name for name in names if _OUTSIDE.search(name)]:
        expected, do = "paths inside the folder, without '..'", "move the images into the folder"
        yield fault("names", expected, listed(outside), do)
    if doubled := [name for name, count in Counter(names).items() if count > 1]:
        got = f"{listed(doubled)} more than once"
        yield fault("names", "every file once", got, "remove the duplicate rows")
    groups = [(case.name, case.group) for case in cases if case.group is not None]
    if missing := [name for name, group in groups if is_missing(group)]:
        got, do = f"none for {listed(missing)}", "fill it in, such as with the file name"
        yield fault("group", "a value for every image", got, do)


def split_faults(
    root: Path, cases: Sequence[Case], excluded: Mapping[str, int]
) -> Iterator[InputError]:
    """Yield unknown or empty splits, and groups in several."""
    fault, splits = partial(_fault, root, "split"), {case.split for case in cases}
    if unknown := sorted(splits - set(SPLITS)):
        expected, do = f"one of {quoted(SPLITS)}", nearest(unknown[0], SPLITS)
        yield fault(expected, listed(unknown), do)
    if empty := [split for split in ("train", "val") if split not in splits]:
        do = f"check it, and what was excluded: {dict(excluded) or 'nothing'}"
        yield fault("examples in 'train' and 'val'", f"none in {quoted(empty)}", do)
    places = Counter(group for group, _ in {(case.group, case.split) for case in cases})
    if leaking := sorted(group for group, count in places.items() if group and count > 1):
        do = "move all images of a group into one split, or leave the split out to draw one"
        yield fault("every group in one split only", f"{listed(leaking)} in several", do)


def _fault(root: Path, part: str, expected: str, got: str, do: str) -> InputError:
    return InputError(f"data in {root}, {part}", expected=expected, got=got, do=do)


class AbstractData(BaseModel, ABC, frozen=True, extra="forbid"):
    """What every data set offers, whether it is drawn or on disk."""

    is_drawn: ClassVar[bool] = False  #: whether the images follow from the options
    groups_are: ClassVar[str] = "patients"  #: what a group of images is, in reports

    format: str  #: name of the data set

    def at(self, folder: Path) -> Self:
        """Return the options of the same data in another folder; refuse it for drawn ones."""
        expected, do = f"none, since '{self.format}' is drawn", "leave it out"
        raise InputError("--data", expected=expected, got=folder, do=do)

    @abstractmethod
    def load(
        self, space: AttributeSpace, *, skip_bad: bool = False, on_progress: OnProgress = silent
    ) -> Splits:
        """Load all splits; skip unreadable images with a warning, or refuse all."""

    @abstractmethod
    def training_images(self, space: AttributeSpace) -> int | None:
        """Return the number of training images, if it is known without loading any."""

    def excluded(self, space: AttributeSpace) -> Mapping[str, int]:
        """Return the number of images that are left out on purpose, by reason."""
        return {}

    def measures(self) -> dict[str, Measure]:
        """Return how to measure attributes in an image without a judge, by name."""
        return {}


def split_by_group(groups: Sequence[str], fractions: Fractions, seed: int) -> list[str]:
    """Assign every group to a split at random, and every example to the split of its group.

    Groups are sorted by a hash of the seed and their name. The split therefore depends neither on
    the order of the rows nor on the machine, and a few new groups move few of the others.
    Fractions of train, val and test count groups, rounded; a split with a positive fraction has
    at least one group.

    >>> split_by_group(["ann", "bob", "ann", "cleo"], (0.4, 0.3, 0.3), seed=0)
    ['test', 'val', 'test', 'train']
    """
    if min(fractions[:2]) <= 0 or fractions[2] < 0 or abs(sum(fractions) - 1) > 1e-6:
        expected = "three numbers that sum to 1, the first two above 0"
        do = "(0.8, 0.1, 0.1) is the default"
        raise InputError("data, fractions", expected=expected, got=f"{fractions}", do=do)

    unique = sorted(set(groups), key=lambda group: hex_digest(f"{seed}:{group}"))
    val, test = (max(1, round(f * len(unique))) if f > 0 else 0 for f in fractions[1:])
    train = len(unique) - val - test
    if train < 1:
        expected = f"at least {1 + (val > 0) + (test > 0)} groups for {fractions}"
        do = "add images, or change the fractions"
        raise InputError("data, fractions", expected=expected, got=f"{len(unique)}", do=do)
    names = [split for split, n in zip(SPLITS, (train, val, test), strict=True) for _ in range(n)]
    split_of = dict(zip(unique, names, strict=True))
    return [split_of[group] for group in groups]


def existing_folder(path: Path | None) -> Path:
    """Return the folder of a data set, or refuse a path that is not one."""
    if path is None or not os.path.isdir(path):
        got = "none" if path is None else f"'{path}'"
        do = "name the folder of the data set, in a configuration as 'path' of the section data"
        raise InputError("data, path", expected="a folder that exists", got=got, do=do)
    return path
