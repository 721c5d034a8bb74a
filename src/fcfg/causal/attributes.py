"""Attributes: the semantic parents :math:`pa` of an image, and the only place they are scaled.

A *column* holds one attribute of many images: an ``int64`` array of 0 and 1 for a binary
attribute, :class:`~fcfg.causal.codes.Codes` for a categorical one, a ``float64`` array for a
continuous one. A *table* maps names to columns of equal length. All attributes that users pass
are converted to such a table here, or refused by name.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from numbers import Real
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fcfg.causal.codes import Codes, are_other_numbers, checked_levels, levels_of
from fcfg.support.errors import InputError, check_among, check_is, nearest, quoted, short, together
from fcfg.support.names import RESERVED, check_name
from fcfg.support.tables import TableLike, check_lengths, columns_of

Column: TypeAlias = NDArray[Any]  # int64 codes or float64 values, one dimension
Table: TypeAlias = dict[str, Column]


@dataclass(frozen=True)
class AbstractAttribute(ABC):
    """One attribute: a name, legal values and their scaling."""

    name: str
    kind: ClassVar[str]  #: its name in configurations
    _advice: ClassVar[str]  # what to do about an illegal value

    def __post_init__(self) -> None:
        check_name(self.name)
        if self.name in RESERVED:
            raise self._error(
                f"a name other than {quoted(RESERVED)}",
                repr(self.name),
                "rename it: guidance groups by intervention have these names",
            )

    @property
    def width(self) -> int:
        """Count of numbers that :meth:`encode` returns for one value."""
        return 1

    @property
    def choices(self) -> tuple[Any, ...]:
        """All values there are, in the order of their codes; empty for numbers of a range."""
        return ()

    @property
    def numbers(self) -> tuple[str, ...]:
        """Names of the numbers that :meth:`encode` returns for one value."""
        return (self.name,)

    def value(self, computed: Any) -> float | str:
        """Return a legal value of a column as JSON holds it: a level by its name."""
        return int(computed)

    @abstractmethod
    def parse(self, values: ArrayLike) -> Column:
        """Convert a value or a sequence of values to a column, or refuse it."""

    def column(self, computed: Column) -> Column:
        """Convert computed legal values to a column."""
        return computed

    @abstractmethod
    def encode(self, column: Column) -> NDArray[np.float64]:
        """Scale a column for a network: shape (batch, width)."""

    @abstractmethod
    def decode(self, encoded: NDArray[np.floating]) -> Column:
        """Return the column that :meth:`encode` scaled, or the legal values closest to it."""

    def to_config(self) -> dict[str, Any]:
        """Describe the attribute in JSON values, for :func:`attribute_from_config`."""
        options = {k: value for k, value in vars(self).items() if k != "name" and value != ()}
        lists = {name: list(value) for name, value in options.items() if isinstance(value, tuple)}
        return {"kind": self.kind, **options, **lists}

    def _numbers(self, values: ArrayLike, expected: str) -> NDArray[np.float64]:
        raw = self._read(values, expected)
        try:
            if raw.dtype.kind not in "biufO" or any(isinstance(value, str) for value in raw):
                raise TypeError
            column = raw.astype(np.float64)  # a copy, so that the caller can change the original
        except (TypeError, ValueError, OverflowError) as error:
            raise self._error(expected, short(values)) from error
        self._require(np.isfinite(column), column, expected)
        return column

    def _read(self, values: ArrayLike, expected: str) -> NDArray[Any]:
        try:
            column = np.atleast_1d(np.asarray(values))
        except (TypeError, ValueError, RuntimeError) as error:  # ragged, on a GPU, with gradients
            raise self._error(expected, short(values)) from error
        if column.ndim > 1:
            raise self._error(
                "one value or a column of values",
                f"an array of shape {column.shape}",
                "pass a one-dimensional column",
            )
        if np.ma.is_masked(values):
            raise self._error(expected, "masked values")
        return column

    def _require(self, legal: NDArray[np.bool_], column: NDArray[Any], expected: str) -> None:
        """Refuse the first illegal value, with its row."""
        if not legal.all():
            row = int(np.argmin(legal))
            raise self._error(expected, f"{column[row].item()!r} in row {row}")

    def _error(self, expected: str, got: object, do: str | None = None) -> InputError:
        subject = f"attribute '{self.name}'"
        return InputError(subject, expected=expected, got=got, do=do or self._advice)


@dataclass(frozen=True)
class Binary(AbstractAttribute):
    """An attribute that is 0 or 1; ``bool`` is accepted, and the names of the two, if it has any.

    >>> Binary("smiling").parse([True, 0, 1.0]), Binary("sex", ["F", "M"]).parse(["F", "M"])
    (array([1, 0, 1]), array([0, 1]))
    """

    levels: Sequence[str] = field(default=(), repr=False)  #: names of 0 and 1
    kind = "binary"
    _advice = "write 0 and 1, or declare it Categorical with the names of its levels"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.levels:
            object.__setattr__(self, "levels", checked_levels(self.name, self.levels, count=2))

    @property
    def choices(self) -> tuple[Any, ...]:
        return tuple(self.levels) or (0, 1)

    def parse(self, values: ArrayLike) -> NDArray[np.int64]:
        """Accept 0 and 1, and their names."""
        expected = f"0 or 1, or {quoted(self.levels)}" if self.levels else "0 or 1"
        names = [str(value) for value in self._read(values, expected)] if self.levels else []
        if names and all(name in self.levels for name in names):
            return np.array([self.levels.index(name) for name in names])
        column = self._numbers(values, expected)
        self._require((column == 0) | (column == 1), column, expected)
        return column.astype(np.int64)

    def encode(self, column: Column) -> NDArray[np.float64]:
        """Return the values unchanged: shape (batch, 1)."""
        return column.astype(np.float64)[:, None]

    def decode(self, encoded: NDArray[np.floating]) -> NDArray[np.int64]:
        """Return 1 above a half, otherwise 0."""
        return (encoded[:, 0] > 0.5).astype(np.int64)


@dataclass(frozen=True)
class Categorical(AbstractAttribute):
    """An attribute with named levels; columns hold codes, the positions in ``levels``.

    >>> hair = Categorical("hair", ["dark", "fair", "grey"])
    >>> hair.parse(["grey", "dark"])
    Codes([2, 0])
    >>> hair.labels(hair.parse([2, 0]))
    ['grey', 'dark']

    If levels are numbers other than their positions, only strings are accepted:

    >>> Categorical("stars", ["1", "2", "3"]).parse([1, 2])
    Traceback (most recent call last):
    fcfg.InputError: attribute 'stars': expected strings among '1', '2', '3', since a number
    could be a level or its position, got list [1, 2]; use the names of the levels.
    """

    levels: Sequence[str]
    kind = "categorical"
    _advice = "use the names of the levels"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "levels", checked_levels(self.name, self.levels))

    @property
    def choices(self) -> tuple[Any, ...]:
        return tuple(self.levels)

    @property
    def width(self) -> int:
        return len(self.levels)

    @property
    def numbers(self) -> tuple[str, ...]:
        return tuple(f"{self.name}: {level}" for level in self.levels)

    def value(self, computed: Any) -> str:
        return self.levels[int(computed)]

    def parse(self, values: ArrayLike) -> Codes:
        """Accept names of levels, and codes that cannot be mistaken for names."""
        levels, known = tuple(self.levels), levels_of(values)
        expected = f"one of {quoted(levels)} or a code 0 to {self.width - 1}"
        if known not in ((), levels):
            raise self._error(f"codes of the levels {quoted(levels)}", f"of {quoted(known)}")
        raw = self._read(values, expected)
        if all(isinstance(value, str) for value in raw):
            for row, name in enumerate(raw):
                if name not in levels:
                    got, do = f"'{name}' in row {row}", nearest(str(name), levels)
                    raise self._error(f"one of {quoted(levels)}", got, do)
            return self.column(np.array([levels.index(str(name)) for name in raw]))
        if not known and are_other_numbers(levels):
            why = "since a number could be a level or its position"
            raise self._error(f"strings among {quoted(levels)}, {why}", short(values))
        column = self._numbers(raw, expected)
        self._require(np.isin(column, np.arange(self.width)), column, expected)
        return self.column(column)

    def column(self, computed: Column) -> Codes:
        return Codes.of(computed, tuple(self.levels))

    def labels(self, column: Column) -> list[str]:
        """Return the names of the levels in a column."""
        return [self.levels[int(code)] for code in column]

    def encode(self, column: Column) -> NDArray[np.float64]:
        """Return one-hot codes: shape (batch, levels)."""
        return np.eye(self.width)[column]

    def decode(self, encoded: NDArray[np.floating]) -> Codes:
        """Return the level with the largest number."""
        return self.column(encoded.argmax(axis=1))


@dataclass(frozen=True)
class Continuous(AbstractAttribute):
    """A number from ``low`` to ``high``; scaled to [-1, 1] for networks.

    >>> age = Continuous("age", low=20, high=80)
    >>> age.encode(age.parse([20, 50, 80])).ravel()
    array([-1.,  0.,  1.])
    """

    low: float
    high: float
    kind = "continuous"
    _advice = "correct the value, or widen the range"

    def __post_init__(self) -> None:
        super().__post_init__()
        numbers = all(isinstance(bound, Real) for bound in (self.low, self.high))
        if not numbers or not -math.inf < self.low < self.high < math.inf:
            raise self._error(
                "finite bounds with low < high",
                f"low={self.low!r}, high={self.high!r}",
                "give the range in which the attribute lies",
            )

    def value(self, computed: Any) -> float:
        return float(computed)

    def parse(self, values: ArrayLike) -> NDArray[np.float64]:
        """Accept numbers in the range."""
        expected = f"numbers from {self.low:g} to {self.high:g}"
        column = self._numbers(values, expected)
        self._require((column >= self.low) & (column <= self.high), column, expected)
        return column

    def encode(self, column: Column) -> NDArray[np.float64]:
        """Scale [low, high] to [-1, 1]: shape (batch, 1)."""
        return (2 * (column - self.low) / (self.high - self.low) - 1)[:, None]

    def decode(self, encoded: NDArray[np.floating]) -> NDArray[np.float64]:
        """Scale [-1, 1] to [low, high]; clip last, since rounding may leave the range."""
        value = self.low + (encoded[:, 0].astype(np.float64) + 1) / 2 * (self.high - self.low)
        return value.clip(self.low, self.high)


_KINDS = {attribute.kind: attribute for attribute in (Binary, Categorical, Continuous)}


def attribute_from_config(name: str, config: Mapping[str, Any]) -> AbstractAttribute:
    """Build an attribute from the output of :meth:`AbstractAttribute.to_config`."""
    options = dict(config)
    kind = str(options.pop("kind", None))
    check_among(f"attribute '{name}', kind", kind, _KINDS)
    try:
        return _KINDS[kind](name, **options)
    except TypeError as error:
        expected, got = f"the options of a {kind} attribute", quoted(options)
        do = "give 'levels' to a categorical and 'low', 'high' to a continuous one"
        raise InputError(f"attribute '{name}'", expected=expected, got=got, do=do) from error


@dataclass(frozen=True)
class AttributeSpace:
    """The attributes a model is conditioned on, in the order of their embedding blocks.

    The order of columns in a table does not matter. Unknown, missing and illegal columns are
    refused by name.

    >>> space = AttributeSpace([Binary("smiling"), Continuous("age", 20, 80)])
    >>> space.parse({"age": [20, 65], "smiling": [1, 0]})
    {'smiling': array([1, 0]), 'age': array([20., 65.])}
    """

    attributes: Sequence[AbstractAttribute]

    def __post_init__(self) -> None:
        object.__setattr__(self, "attributes", tuple(self.attributes))
        kinds = "a Binary, Categorical or Continuous"
        for attribute in self.attributes:
            check_is("attribute space", attribute, AbstractAttribute, kinds)
        repeated = sorted(name for name, count in Counter(self.names).items() if count > 1)
        if repeated or not self.attributes:
            expected = "at least one attribute, every name once"
            got = f"{quoted(repeated)} more than once" if repeated else "none"
            do = "name every attribute once"
            raise InputError("attribute space", expected=expected, got=got, do=do)

    @property
    def names(self) -> tuple[str, ...]:
        """Names in order."""
        return tuple(attribute.name for attribute in self.attributes)

    @property
    def widths(self) -> tuple[int, ...]:
        """Count of numbers of each attribute in :meth:`encode`."""
        return tuple(attribute.width for attribute in self.attributes)

    def __iter__(self) -> Iterator[AbstractAttribute]:
        return iter(self.attributes)

    def __len__(self) -> int:
        return len(self.attributes)

    def __getitem__(self, name: str) -> AbstractAttribute:
        self.check_known([name])
        return self.attributes[self.names.index(name)]

    def check_known(self, names: Iterable[str], subject: str = "attributes") -> None:
        """Refuse names that are not attributes."""
        together(*(partial(check_among, subject, name, self.names) for name in names))

    def parse(self, table: TableLike, rows: int | None = None) -> Table:
        """Convert a whole table, with columns in this order, or refuse it.

        Args:
            table: A mapping from names to columns; a data frame, whose other columns do not
                matter; or a list with a mapping for each row.
            rows: Required number of rows; any by default.
        """
        columns = columns_of(table, self.names)
        self.check_known(columns)
        missing = [name for name in self.names if name not in columns]
        if missing:
            expected, got = f"columns for {quoted(self.names)}", f"no column for {quoted(missing)}"
            do = "add the missing columns: the model was conditioned on them"
            raise InputError("attributes", expected=expected, got=got, do=do)
        found = together(*(partial(a.parse, columns[a.name]) for a in self.attributes))
        parsed = dict(zip(self.names, found, strict=True))
        check_lengths(parsed, rows)
        return parsed

    def encode(
        self, table: Mapping[str, Column], names: Iterable[str] | None = None
    ) -> NDArray[np.float64]:
        """Scale parsed columns, all or some, for a network: shape (batch, sum of widths)."""
        names = self.names if names is None else tuple(names)
        return np.concatenate([self[name].encode(table[name]) for name in names], axis=1)

    def decode(self, encoded: NDArray[np.floating]) -> Table:
        """Return the table that :meth:`encode` scaled, all of it."""
        pieces = np.split(encoded, np.cumsum(self.widths)[:-1], axis=1)
        return {a.name: a.decode(piece) for a, piece in zip(self, pieces, strict=True)}

    def to_config(self) -> dict[str, dict[str, Any]]:
        """Describe the space in JSON values: the configuration of each attribute by name."""
        return {attribute.name: attribute.to_config() for attribute in self.attributes}

    @classmethod
    def from_config(cls, config: Mapping[str, Mapping[str, Any]]) -> AttributeSpace:
        """Build a space from the output of :meth:`to_config`."""
        return cls(together(*(partial(attribute_from_config, *item) for item in config.items())))
