"""Data sets whose labels are tables, of which a row describes an image.

Such a data set declares its :class:`LabelTable` objects, and says in ``cases`` what becomes of a
row: an example, or a reason to leave it out. Reading, counting and splitting are the same for all.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, TypeAlias

from fcfg.causal.attributes import AttributeSpace
from fcfg.datasets.base import (
    Fractions,
    Listing,
    existing_folder,
    find_file,
    split_by_group,
)
from fcfg.datasets.loading import AbstractDiskData
from fcfg.datasets.pixels import Source
from fcfg.support.csv_files import check_columns, read_columns

Row: TypeAlias = Mapping[str, str]  # by name of the column


@dataclass(frozen=True)
class LabelTable:
    """A file of labels, and where to get it."""

    files: tuple[str, ...]  #: relative paths, the official one first
    origin: str
    columns: Sequence[str]  #: those that are needed
    others: bool = False  #: whether to read all other columns as well

    def rows(self, root: Path, more: Iterable[str] = ()) -> Iterator[Row]:
        """Read the table, which must also have the columns ``more``."""
        path = find_file(root, self.files, self.origin)
        table = read_columns(path, None if self.others else (*self.columns, *more))
        check_columns(str(path), (*self.columns, *more), table)
        for values in zip(*table.values(), strict=True):
            yield dict(zip(table, values, strict=True))

    def first_by(self, key: str, root: Path) -> dict[str, Row]:
        """Return the first row of each value of a column."""
        first: dict[str, Row] = {}
        for row in self.rows(root):
            first.setdefault(row[key], row)
        return first


@dataclass(frozen=True)
class Case:
    """An image with its labels, or the reason why it is left out."""

    source: Source
    name: str  #: unique
    values: Row  #: by name of the attribute
    group: str | None = None  #: patient or person
    split: str = ""  #: empty if it is drawn
    reasons: Mapping[str, bool] = field(default_factory=dict)
    """Why the protocol excludes images, and whether it excludes this one; the first counts."""

    @property
    def reason(self) -> str:
        """Why the protocol excludes the image; empty if it does not."""
        return next((reason for reason, holds in self.reasons.items() if holds), "")


class AbstractTableData(AbstractDiskData, frozen=True):
    """Options of data sets whose labels are tables."""

    #: Reasons that exclude an image after its patient was drawn into a split.
    after_split: ClassVar[frozenset[str]] = frozenset()

    @abstractmethod
    def cases(self, root: Path, space: AttributeSpace) -> Iterable[Case]:
        """Read the tables without opening an image."""

    def splits(self, cases: Sequence[Case]) -> Sequence[str]:
        """Return the split of each case: by default what the tables say."""
        return [case.split for case in cases]

    def listing(self, space: AttributeSpace) -> Listing:
        """Read the tables without opening an image."""
        root = existing_folder(self.path)
        found = list(self.cases(root, space))
        early = [case for case in found if not case.reason or case.reason in self.after_split]
        splits = zip(early, self.splits(early), strict=True)
        kept = [(case, split) for case, split in splits if not case.reason]
        return Listing(
            root,
            [case.source for case, _ in kept],
            [case.name for case, _ in kept],
            {name: [case.values[name] for case, _ in kept] for name in space.names},
            [split for _, split in kept],
            [group for case, _ in kept if (group := case.group) is not None] or None,
            Counter(case.reason for case in found if case.reason),
        )


class AbstractDrawnTableData(AbstractTableData, frozen=True):
    """Options of tables without a split: groups are drawn into one at random."""

    fractions: Fractions = (0.8, 0.1, 0.1)  #: of patients
    split_seed: int = 0  #: seed for the split

    def splits(self, cases: Sequence[Case]) -> Sequence[str]:
        """Return the split of each case: drawn by group where the tables say none."""
        if not cases or cases[0].split:
            return super().splits(cases)
        groups = [case.group or "" for case in cases]
        return split_by_group(groups, self.fractions, self.split_seed)
