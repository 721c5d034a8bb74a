"""Label files: find one, read its rows, and parse its columns.

A binary attribute takes ``0`` and ``1``, also ``0.0``, ``1.0``, and in any case ``false``,
``true``, ``no``, ``yes``; or the names of its two levels. A categorical one takes the names of its
levels, exactly; a continuous one numbers in its range.

An empty string, ``nan``, ``NA``, ``N/A``, ``null`` or ``?`` is a missing value, which is never
valid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import numpy as np

from fcfg.causal.attributes import (
    AbstractAttribute,
    AttributeSpace,
    Binary,
    Categorical,
    Column,
    Continuous,
    Table,
)
from fcfg.causal.codes import binary_code, number
from fcfg.support.errors import InputError, listed, quoted, refuse_all
from fcfg.support.tables import check_columns, read_columns

_MISSING = {"", "nan", "na", "n/a", "null", "?"}
_BINARY = "0 or 1 (or true, false, yes, no)"
_SHOWN = 10  # values in one message

Row: TypeAlias = Mapping[str, str]  # by name of the column


def find_file(root: Path, candidates: Sequence[str], source: str) -> Path:
    """Return the first candidate, the official one first, or say where (``source``) to get it."""
    for candidate in candidates:
        if (root / candidate).exists():
            return root / candidate
    expected, got = " or ".join(f"'{candidate}'" for candidate in candidates), "no such file"
    raise InputError(f"data in {root}", expected=expected, got=got, do=f"get it from {source}")


@dataclass(frozen=True)
class LabelTable:
    """A file of labels, of which a row describes an image, and where to get it."""

    files: tuple[str, ...]  #: relative paths, the official one first
    origin: str
    columns: Sequence[str]  #: those that are needed
    others: bool = False  #: whether to read all other columns as well

    def rows(self, root: Path, more: Iterable[str] = ()) -> Iterator[Row]:
        """Read the table, which must also have the columns ``more``."""
        path, wanted = find_file(root, self.files, self.origin), (*self.columns, *more)
        table = read_columns(path, None if self.others else wanted)
        check_columns(str(path), wanted, table)
        for values in zip(*table.values(), strict=True):
            yield dict(zip(table, values, strict=True))

    def first_by(self, key: str, root: Path) -> dict[str, Row]:
        """Return the first row of each value of a column."""
        first: dict[str, Row] = {}
        for row in self.rows(root):
            first.setdefault(row[key], row)
        return first


def is_missing(text: str) -> bool:
    """Whether a string stands for a missing value.

    >>> is_missing(" "), is_missing("NaN"), is_missing("NA"), is_missing("0")
    (True, True, True, False)
    """
    return text.strip().lower() in _MISSING


@dataclass(frozen=True, eq=False)
class ParsedColumn:
    """Values of one attribute; invalid rows hold 0."""

    attribute: AbstractAttribute = field(repr=False)
    texts: Sequence[str] = field(repr=False)
    column: Column
    missing: list[int]  #: rows without a value
    illegal: list[int]  #: rows with a value that the attribute cannot have

    def faults(self, names: Sequence[str], where: str) -> Iterator[InputError]:
        """Yield what is wrong with the column of a label file, with the files that have it."""
        subject = f"attribute '{self.attribute.name}' in {where}"
        if self.missing:
            without = [names[row] for row in self.missing]
            yield InputError(
                subject,
                expected="a value for every image",
                got=f"none for {len(without)}: {listed(without)}",
                do="fill in the values, or leave the rows out: data of a training with "
                "'missing: drop', 'fcfg data check' with --missing drop",
            )
        if self.illegal:
            pairs = [f"'{self.texts[row]}' for '{names[row]}'" for row in self.illegal[:_SHOWN]]
            rest = len(self.illegal) - len(pairs)
            yield InputError(
                subject,
                expected=_parser(self.attribute)[1],
                got=", ".join(pairs) + (f" and {rest} more" if rest else ""),
                do="correct the values, or, before a training, the attribute",
            )


def parse_column(attribute: AbstractAttribute, texts: Sequence[str]) -> ParsedColumn:
    """Parse the strings of an attribute, and report the rows that are invalid.

    >>> parse_column(Binary("smiling"), ["1", "False", "", "2"])
    ParsedColumn(column=array([1, 0, 0, 0]), missing=[2], illegal=[3])
    """
    parse = _parser(attribute)[0]
    values = {text: parse(text.strip()) for text in set(texts)}  # a level may be called NA
    invalid = [row for row, text in enumerate(texts) if values[text] is None]
    missing = [row for row in invalid if is_missing(texts[row])]
    dtype = np.float64 if isinstance(attribute, Continuous) else np.int64
    column = attribute.column(np.array([values[text] or 0 for text in texts], dtype=dtype))
    illegal = sorted(set(invalid) - set(missing))
    return ParsedColumn(attribute, texts, column, missing, illegal)


def _parser(attribute: AbstractAttribute) -> tuple[Callable[[str], float | None], str]:
    """Return what parses one string of an attribute, and a description of legal ones."""
    if isinstance(attribute, Binary):
        expected = quoted(attribute.levels) if attribute.levels else _BINARY
        return lambda text: binary_code(text, attribute.levels), expected
    if isinstance(attribute, Categorical):
        codes = {level: code for code, level in enumerate(attribute.levels)}
        return codes.get, f"one of {quoted(attribute.levels)}"
    assert isinstance(attribute, Continuous)
    low, high = attribute.low, attribute.high

    def within(text: str) -> float | None:
        value = number(text)
        return value if value is not None and low <= value <= high else None

    return within, f"a number from {low:g} to {high:g}"


def parse_table(
    space: AttributeSpace, columns: Mapping[str, Sequence[str]], names: Sequence[str], where: str
) -> Table:
    """Parse the columns of all attributes, or refuse them by attribute and file."""
    parsed = [parse_column(each, columns[each.name]) for each in space]
    refuse_all(fault for column in parsed for fault in column.faults(names, where))
    return {each.attribute.name: each.column for each in parsed}
