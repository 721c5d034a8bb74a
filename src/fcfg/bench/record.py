"""Measurements, and the table that shows them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Measurement:
    """One measured implementation. Fields that do not apply are None or empty."""

    name: str
    note: str = ""  #: reason for missing numbers
    precision: str = ""
    images: int | None = None  #: per call
    rows: int | None = None  #: of the network, per call
    cold: float | None = None  #: seconds of the first call, including compilation
    times: tuple[float, ...] = ()  #: seconds of later calls

    @property
    def seconds(self) -> float | None:
        """Median of later calls."""
        return statistics.median(self.times) if self.times else None

    def timed(self, times: Sequence[float]) -> Measurement:
        """Add seconds, the first of which is that of a cold call."""
        cold, *warm = times
        return replace(self, cold=self.cold or cold, times=tuple(warm))


@dataclass(frozen=True)
class Record:
    """The result of a benchmark."""

    heading: str  #: model and machine in one line
    rows: tuple[Measurement, ...] = field(repr=False)  #: the first one is the reference
    row_seconds: float  #: of a network row at the rate of a large matrix product

    def table(self) -> list[list[str]]:
        """Return the title of each column, then the cells of each row, as text."""
        texts = ["", "precision", "images", "rows", "first call", "seconds"]
        return [
            [*texts, "images/s", "rows/s", "speed-up", "of chip"],
            *([*_texts(row), *self._rates(row)] for row in self.rows),
        ]

    def _rates(self, row: Measurement) -> list[str]:
        reference, seconds = self.rows[0], row.seconds
        images, rows = (count and seconds and count / seconds for count in (row.images, row.rows))
        is_alike = seconds and reference.seconds and row.images == reference.images
        ratio = reference.seconds / seconds if is_alike else None
        share = number(rows and rows * self.row_seconds, ".1%")
        return [number(images), number(rows), number(ratio, ".2f", "×"), share]


def _texts(row: Measurement) -> list[str]:
    name = f"{row.name} ({row.note})" if row.note else row.name
    first, seconds = number(row.cold, unit=" s"), number(row.seconds)
    return [name, row.precision, number(row.images), number(row.rows), first, seconds]


def number(value: float | None, spec: str = "", unit: str = "") -> str:
    """Format a number; with three digits and no exponent by default.

    >>> number(14505.3), number(0.01234), number(None), number(2.5, ".2f", "×")
    ('14,505', '0.0123', '–', '2.50×')
    """
    if value is None:
        return "–"
    return f"{value:{spec or (',.0f' if abs(value) >= 1000 else '.3g')}}{unit}"
