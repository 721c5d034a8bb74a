"""Tables of labels, of which a row describes an image."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from fcfg.datasets.base import find_file
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
