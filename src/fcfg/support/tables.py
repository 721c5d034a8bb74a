"""Tables of attributes as users hold them: columns by name, rows, a data frame, or CSV files.

Files are read strictly and within bounds, plain or compressed with gzip.
"""

from __future__ import annotations

import csv
import gzip
import os
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Sized
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Protocol, TextIO, TypeAlias, cast

from numpy.typing import ArrayLike

from fcfg.support.errors import InputError, listed, quoted, refuse_all, short

_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "vertical bars"}  # of other dialects
_ROW = 2**20  # characters of the longest row
_CELLS = 10**8  # values kept from all columns together: about a gigabyte


class Frame(Protocol):
    """A data frame of pandas or polars, a table of Arrow, or a dataset of Hugging Face."""

    def __getitem__(self, name: Any, /) -> Any:
        """Return a column."""


#: Attributes of images: a mapping from names to columns, a data frame, or a mapping for each row.
TableLike: TypeAlias = Mapping[str, ArrayLike] | Frame | Sequence[Mapping[str, Any]]


def columns_of(table: object, names: Iterable[str]) -> Mapping[str, ArrayLike]:
    """Return the columns of a table, by name.

    >>> columns_of([{"age": 20, "sex": 0}, {"age": 65, "sex": 1}], ["age", "sex"])
    {'age': [20, 65], 'sex': [0, 1]}
    """
    if isinstance(table, Mapping):
        return cast("Mapping[str, ArrayLike]", table)
    known = getattr(table, "column_names", getattr(table, "columns", None))
    if known is not None:
        return {name: _column(cast("Frame", table)[name]) for name in names if name in known}
    rows = cast("Sequence[object]", table) if isinstance(table, list | tuple) else ()
    found = [cast("Mapping[str, Any]", row) for row in rows if isinstance(row, Mapping)]
    if not rows or len(found) < len(rows):
        expected = "a mapping from names to columns, a data frame, or a list of rows as mappings"
        do = "pass one of these"
        raise InputError("attributes", expected=expected, got=short(table), do=do)
    every = list(dict.fromkeys(name for row in found for name in row))
    for number, row in enumerate(found):
        if len(row) < len(every):
            expected, got = f"{quoted(every)} in every row", f"{quoted(row)} in row {number}"
            do = "give each row the same names"
            raise InputError("attributes", expected=expected, got=got, do=do)
    return {name: [row[name] for row in found] for name in every}


def _column(column: Any) -> ArrayLike:
    """Return a column as a list, where its library can make one: Arrow, polars and lazy ones."""
    for name in ("to_pylist", "to_list"):
        if hasattr(column, name):
            return getattr(column, name)()
    return list(column) if isinstance(column, Sequence) else column


def check_lengths(columns: Mapping[str, Sized], rows: int | None) -> None:
    """Refuse columns of different lengths, or of another one than wanted."""
    lengths = {name: len(column) for name, column in columns.items()}
    first, *others = set(lengths.values())
    if others or first == 0 or rows not in (None, first):
        every = "columns of one length, at least 1"
        expected = every if rows is None else f"{rows} values in each column"
        got = f"lengths {lengths}" if others else first
        do = "give one value for each image in every column"
        raise InputError("attributes", expected=expected, got=got, do=do)


def read_columns(path: Path, wanted: Iterable[str] | None = None) -> dict[str, list[str]]:
    """Read columns of a ``.csv`` or ``.csv.gz`` file as strings."""
    try:
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
            return _columns(path, _rows(path, file), wanted)
    except UnicodeDecodeError as error:
        got = f"another encoding: the byte 0x{error.object[error.start]:02x}"
        do = "save it as 'CSV UTF-8', or convert Latin-1 with: iconv -f LATIN1 -t UTF-8 OLD > NEW"
        raise InputError(str(path), expected="a table in UTF-8", got=got, do=do) from error
    except (csv.Error, EOFError, OSError) as error:
        expected = "a comma-separated table in UTF-8 that can be read"
        got = getattr(error, "strerror", None) or f"{error}"
        do = "save or download it again" if os.path.isfile(path) else "check the path"
        raise InputError(str(path), expected=expected, got=got, do=do) from error


def check_columns(where: str, wanted: Iterable[str], columns: Collection[str]) -> None:
    """Refuse a table that lacks a wanted column."""

    def fault(name: str) -> InputError:
        close = get_close_matches(name, columns, n=1)
        do = f"if you mean '{close[0]}', rename one of the two" if close else "add it"
        expected, got = f"a column '{name}'", f"columns {quoted(columns)}"
        return InputError(where, expected=expected, got=got, do=do)

    refuse_all(fault(name) for name in wanted if name not in columns)


def _rows(path: Path, file: TextIO) -> Iterator[list[str]]:
    """Parse rows of bounded length; a quoted value may span several lines."""
    length = 0

    def lines() -> Iterator[str]:
        nonlocal length
        while line := file.readline(_ROW + 1):
            length += len(line)
            if length > _ROW:
                raise _too_large(path, f"rows of at most {_ROW:,} characters", "a longer one")
            yield line

    for row in csv.reader(lines(), strict=True):
        length = 0
        yield row


def _columns(
    path: Path, rows: Iterator[list[str]], wanted: Iterable[str] | None
) -> dict[str, list[str]]:
    header = next(rows, [])
    _check_header(path, header)
    names = header if wanted is None else list(wanted)
    places = {name: place for place, name in enumerate(header)}
    check_columns(str(path), names, places)
    columns = {name: (places[name], list[str]()) for name in names}
    cells = 0
    for line, row in enumerate(rows, start=2):
        if not row:  # an empty line, as editors leave at the end
            continue
        if len(row) != len(header):
            expected, do = f"{len(header)} values", "quote values that contain commas"
            raise InputError(f"{path}, line {line}", expected=expected, got=f"{len(row)}", do=do)
        cells += len(columns)
        if cells > _CELLS:
            raise _too_large(path, f"at most {_CELLS:,} values", f"more, after {line:,} lines")
        for index, values in columns.values():
            values.append(sys.intern(row[index]))  # texts that recur are stored once
    return {name: values for name, (_, values) in columns.items()}


def _check_header(path: Path, header: list[str]) -> None:
    doubled = [name for name, count in Counter(header).items() if count > 1]
    others = [name for mark, name in _SEPARATORS.items() if mark in "".join(header)]
    if len(header) == 1 and others:
        got = f"{others[0]} in its first line, and no comma"
        expected, do = "commas between the columns", "save it with commas as separators"
    elif doubled or not header:
        got = f"{listed(doubled)} more than once" if doubled else "an empty file"
        expected, do = "a first line that names every column once", "add or correct the first line"
    else:
        return
    raise InputError(str(path), expected=expected, got=got, do=do)


def _too_large(path: Path, expected: str, got: str) -> InputError:
    return InputError(
        str(path), expected=expected, got=got, do="remove rows or columns that are not needed"
    )
