"""Tables of attributes as users hold them: columns by name, rows, or a data frame."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Sized
from typing import Any, Protocol, TypeAlias, cast

from numpy.typing import ArrayLike

from fcfg.support.errors import InputError, quoted, short


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
