"""Attributes: the semantic parents :math:`pa` of an image, and the only place they are scaled.

A *column* holds one attribute of many images: an ``int64`` array of 0 and 1 for a binary
attribute, :class:`~fcfg.causal.codes.Codes` for a categorical one, a ``float64`` array for a
continuous one. A *table* is a mapping from names to columns of one length. Everything that users
hand over becomes such a table here, or is refused by name.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fcfg.causal.codes import Codes, are_other_numbers, levels_of
from fcfg.support.errors import InputError, check_among, check_is, nearest, quoted, short
from fcfg.support.names import RESERVED, check_name

Column: TypeAlias = NDArray[Any]  # int64 codes or float64 values, one dimension
Table: TypeAlias = dict[str, Column]


@dataclass(frozen=True)
class AbstractAttribute(ABC):
    """One attribute: a name and a kind, which knows its legal values and their scaling."""

    name: str
    _advice: ClassVar[str]  # what to do about an illegal value

    def __post_init__(self) -> None:
        """Refuse a name that means something else."""
        check_name(self.name)
        if self.name in RESERVED:
            raise InputError(
                f"attribute '{self.name}'",
                expected=f"a name other than {quoted(RESERVED)}",
                got=repr(self.name),
                do="rename it: guidance groups by intervention have these names",
            )

    @property
    @abstractmethod
    def width(self) -> int:
        """How many numbers :meth:`encode` makes of one value."""

    @abstractmethod
    def parse(self, values: ArrayLike) -> Column:
        """Return legal values (a number or a sequence) as a column, or refuse them."""

    def column(self, computed: Column) -> Column:
        """Return legal values that were computed, not given, as a column."""
        return computed

    @abstractmethod
    def encode(self, column: Column) -> NDArray[np.float64]:
        """Scale a column for a network: shape (batch, width)."""

    @abstractmethod
    def to_config(self) -> dict[str, Any]:
        """Describe the kind in JSON; :func:`attribute_from_config` reads it back."""

    def _read(self, values: ArrayLike, expected: str) -> NDArray[Any]:
        """Read values as a column, of whatever type."""
        try:
            column = np.atleast_1d(np.asarray(values))
        except (TypeError, ValueError, RuntimeError) as error:  # ragged, on a GPU, with gradients
            raise self._refusal(expected, short(values)) from error
        if column.ndim > 1:
            raise InputError(
                f"attribute '{self.name}'",
                expected="one value or a column of values",
                got=f"an array of shape {column.shape}",
                do="pass a one-dimensional column",
            )
        if np.ma.is_masked(values):
            raise self._refusal(expected, "masked values")
        return column

    def _numbers(self, values: ArrayLike, expected: str) -> NDArray[np.float64]:
        """Read values as finite numbers."""
        raw = self._read(values, expected)
        try:
            if raw.dtype.kind not in "biufO" or any(isinstance(value, str) for value in raw):
                raise TypeError
            column = raw.astype(np.float64)  # a copy, which later changes by the caller spare
        except (TypeError, ValueError, OverflowError) as error:
            raise self._refusal(expected, short(values)) from error
        self._require(np.isfinite(column), column, expected)
        return column

    def _require(self, legal: NDArray[np.bool_], column: NDArray[Any], expected: str) -> None:
        """Refuse the first value that is not legal, naming its row."""
        if not legal.all():
            row = int(np.argmin(legal))
            raise self._refusal(expected, f"{column[row].item()!r} in row {row}")

    def _refusal(self, expected: str, got: object) -> InputError:
        return InputError(f"attribute '{self.name}'", expected=expected, got=got, do=self._advice)


@dataclass(frozen=True)
class Binary(AbstractAttribute):
    """An attribute that is 0 or 1 (``bool`` counts as such).

    >>> Binary("smiling").parse([True, 0, 1.0])
    array([1, 0, 1])
    """

    _advice = "write 0 and 1, or declare it Categorical with the names of its levels"

    @property
    def width(self) -> int:
        """One number, 0 or 1 as it is."""
        return 1

    def parse(self, values: ArrayLike) -> NDArray[np.int64]:
        """Accept 0 and 1."""
        expected = "0 or 1"
        column = self._numbers(values, expected)
        self._require((column == 0) | (column == 1), column, expected)
        return column.astype(np.int64)

    def encode(self, column: Column) -> NDArray[np.float64]:
        """Leave the values as they are: shape (batch, 1)."""
        return column.astype(np.float64)[:, None]

    def to_config(self) -> dict[str, Any]:
        """Describe the kind."""
        return {"kind": "binary"}


@dataclass(frozen=True)
class Categorical(AbstractAttribute):
    """An attribute with named levels; columns hold their codes, the position in ``levels``.

    >>> hair = Categorical("hair", ["dark", "fair", "grey"])
    >>> hair.parse(["grey", "dark"])
    Codes([2, 0])
    >>> hair.labels(hair.parse([2, 0]))
    ['grey', 'dark']

    Where levels are numbers other than their positions, only texts are read:

    >>> Categorical("stars", ["1", "2", "3"]).parse([1, 2])
    Traceback (most recent call last):
    fcfg.InputError: attribute 'stars': expected texts among '1', '2', '3', since a number
    could be a level or its position, got list [1, 2]; use the names of the levels.
    """

    levels: Sequence[str]
    _advice = "use the names of the levels"

    def __post_init__(self) -> None:
        """Freeze the levels and refuse doubles."""
        super().__post_init__()
        given: Any = self.levels
        levels: tuple[Any, ...] = tuple(given) if isinstance(given, list | tuple) else ()
        texts = [level for level in levels if isinstance(level, str) and level]
        if len(set(texts)) < max(2, len(levels)):
            unquoted = any(isinstance(level, Real) for level in levels)  # also YAML's yes and no
            raise InputError(
                f"attribute '{self.name}'",
                expected="a list of at least two different levels, each a string",
                got=short(self.levels),
                do="quote every level" if unquoted else "name every level once",
            )
        object.__setattr__(self, "levels", levels)

    @property
    def width(self) -> int:
        """One number for each level."""
        return len(self.levels)

    def parse(self, values: ArrayLike) -> Codes:
        """Accept names of levels; codes, too, where they cannot be mistaken for names."""
        levels, known = tuple(self.levels), levels_of(values)
        expected = f"one of {quoted(levels)} or a code 0 to {self.width - 1}"
        if known not in ((), levels):
            raise self._refusal(f"codes of the levels {quoted(levels)}", f"of {quoted(known)}")
        raw = self._read(values, expected)
        if all(isinstance(value, str) for value in raw):
            return self._codes(raw)
        if not known and are_other_numbers(levels):
            why = "since a number could be a level or its position"
            raise self._refusal(f"texts among {quoted(levels)}, {why}", short(values))
        column = self._numbers(raw, expected)
        self._require(np.isin(column, np.arange(self.width)), column, expected)
        return self.column(column)

    def column(self, computed: Column) -> Codes:
        """Let codes know their levels."""
        return Codes.of(computed, tuple(self.levels))

    def _codes(self, names: NDArray[Any]) -> Codes:
        for row, name in enumerate(names):
            if name not in self.levels:
                raise InputError(
                    f"attribute '{self.name}'",
                    expected=f"one of {quoted(self.levels)}",
                    got=f"'{name}' in row {row}",
                    do=nearest(str(name), self.levels),
                )
        return self.column(np.array([self.levels.index(str(name)) for name in names]))

    def labels(self, column: Column) -> list[str]:
        """Names of the levels in a column."""
        return [self.levels[int(code)] for code in column]

    def encode(self, column: Column) -> NDArray[np.float64]:
        """One-hot codes: shape (batch, levels)."""
        return np.eye(self.width)[column]

    def to_config(self) -> dict[str, Any]:
        """Describe the kind."""
        return {"kind": "categorical", "levels": list(self.levels)}


@dataclass(frozen=True)
class Continuous(AbstractAttribute):
    """A number between ``low`` and ``high``, both included; scaled to [-1, 1] for networks.

    >>> age = Continuous("age", low=20, high=80)
    >>> age.encode(age.parse([20, 50, 80])).ravel()
    array([-1.,  0.,  1.])
    """

    low: float
    high: float
    _advice = "correct the value, or widen the range"

    def __post_init__(self) -> None:
        """Refuse an empty or infinite range."""
        super().__post_init__()
        numbers = all(isinstance(bound, Real) for bound in (self.low, self.high))
        if not numbers or not -math.inf < self.low < self.high < math.inf:
            raise InputError(
                f"attribute '{self.name}'",
                expected="finite bounds with low < high",
                got=f"low={self.low!r}, high={self.high!r}",
                do="give the range in which the attribute lies",
            )

    @property
    def width(self) -> int:
        """One number."""
        return 1

    def parse(self, values: ArrayLike) -> NDArray[np.float64]:
        """Accept numbers in the range."""
        expected = f"numbers from {self.low:g} to {self.high:g}"
        column = self._numbers(values, expected)
        self._require((column >= self.low) & (column <= self.high), column, expected)
        return column

    def encode(self, column: Column) -> NDArray[np.float64]:
        """Scale [low, high] to [-1, 1]: shape (batch, 1)."""
        return (2 * (column - self.low) / (self.high - self.low) - 1)[:, None]

    def to_config(self) -> dict[str, Any]:
        """Describe the kind."""
        return {"kind": "continuous", "low": self.low, "high": self.high}


_KINDS = {"binary": Binary, "categorical": Categorical, "continuous": Continuous}


def attribute_from_config(name: str, config: Mapping[str, Any]) -> AbstractAttribute:
    """Build an attribute from what :meth:`AbstractAttribute.to_config` gave.

    >>> attribute_from_config("age", {"kind": "continuous", "low": 0, "high": 100})
    Continuous(name='age', low=0, high=100)
    """
    arguments = dict(config)
    kind = str(arguments.pop("kind", None))
    check_among(f"attribute '{name}', kind", kind, _KINDS)
    try:
        return _KINDS[kind](name, **arguments)
    except TypeError as error:
        raise InputError(
            f"attribute '{name}'",
            expected=f"the options of a {kind} attribute",
            got=quoted(arguments),
            do="give 'levels' to a categorical and 'low', 'high' to a continuous one",
        ) from error


@dataclass(frozen=True)
class AttributeSpace:
    """The attributes a model is conditioned on, in the order of their embedding blocks.

    The order of a mapping that comes in does not matter; unknown, missing and illegal columns
    are refused by name.

    >>> space = AttributeSpace([Binary("smiling"), Continuous("age", 20, 80)])
    >>> space.parse({"age": [20, 65], "smiling": [1, 0]})
    {'smiling': array([1, 0]), 'age': array([20., 65.])}

    Args:
        attributes: The attributes; their names differ.
    """

    attributes: Sequence[AbstractAttribute]

    def __post_init__(self) -> None:
        """Freeze the order and refuse doubles."""
        object.__setattr__(self, "attributes", tuple(self.attributes))
        for attribute in self.attributes:
            check_is(
                "attribute space",
                attribute,
                AbstractAttribute,
                "a Binary, Categorical or Continuous",
            )
        doubled = sorted({name for name in self.names if self.names.count(name) > 1})
        if doubled or not self.attributes:
            raise InputError(
                "attribute space",
                expected="at least one attribute, every name once",
                got=f"{quoted(doubled)} more than once" if doubled else "none",
                do="name every attribute once",
            )

    @property
    def names(self) -> tuple[str, ...]:
        """Names in order."""
        return tuple(attribute.name for attribute in self.attributes)

    @property
    def widths(self) -> tuple[int, ...]:
        """How many numbers each attribute has in :meth:`encode`."""
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
        for name in names:
            check_among(subject, name, self.names)

    def parse(self, table: Mapping[str, ArrayLike]) -> Table:
        """Return a whole table with columns in this order, or refuse it."""
        check_is("attributes", table, Mapping, "a mapping from names to columns")
        self.check_known(table)
        missing = [name for name in self.names if name not in table]
        if missing:
            raise InputError(
                "attributes",
                expected=f"columns for {quoted(self.names)}",
                got=f"no column for {quoted(missing)}",
                do="add what is missing: the model was conditioned on it",
            )
        parsed = {a.name: a.parse(table[a.name]) for a in self.attributes}
        lengths = {name: len(column) for name, column in parsed.items()}
        if len(set(lengths.values())) > 1 or 0 in lengths.values():
            raise InputError(
                "attributes",
                expected="columns of one length, at least 1",
                got=f"lengths {lengths}",
                do="give one value for each image in every column",
            )
        return parsed

    def encode(
        self, table: Mapping[str, Column], names: Iterable[str] | None = None
    ) -> NDArray[np.float64]:
        """Scale parsed columns for a network.

        Args:
            table: Parsed columns.
            names: Which attributes, in which order; all by default.

        Returns:
            Shape (batch, sum of widths).
        """
        names = self.names if names is None else tuple(names)
        return np.concatenate([self[name].encode(table[name]) for name in names], axis=1)

    def to_config(self) -> dict[str, dict[str, Any]]:
        """Describe the space in JSON: name to kind."""
        return {attribute.name: attribute.to_config() for attribute in self.attributes}

    @classmethod
    def from_config(cls, config: Mapping[str, Mapping[str, Any]]) -> AttributeSpace:
        """Build a space from what :meth:`to_config` gave."""
        return cls([attribute_from_config(name, kind) for name, kind in config.items()])
