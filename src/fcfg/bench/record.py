"""Measurements, the CSV file that stores them, and the table that shows them."""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from fcfg.support.files import write_atomically


@dataclass(frozen=True)
class Measurement:
    """One measured implementation. Fields that do not apply are None or empty."""

    name: str
    note: str = ""  #: reason for missing numbers
    precision: str = ""
    images: int | None = None  #: per call
    rows: int | None = None  #: of the network, per call
    cold_seconds: float | None = None  #: first call, including compilation
    seconds: float | None = None  #: median of later calls
    fastest: float | None = None
    slowest: float | None = None
    repetitions: int | None = None
    images_per_second: float | None = None
    rows_per_second: float | None = None
    ratio: float | None = None  #: speed-up over the plain loop
    share_of_chip: float | None = None  #: of the rate of a large matrix product

    def timed(self, times: Sequence[float]) -> Measurement:
        """Add seconds, the first of which is that of a cold call, and rates."""
        cold, *warm = times
        seconds = statistics.median(warm)
        return replace(
            self,
            cold_seconds=self.cold_seconds or cold,
            seconds=seconds,
            fastest=min(warm),
            slowest=max(warm),
            repetitions=len(warm),
            images_per_second=self.images and self.images / seconds,
            rows_per_second=self.rows and self.rows / seconds,
        )

    def compared(self, reference: Measurement, row_seconds: float) -> Measurement:
        """Add ratios: to a reference of as many images, and to the seconds of a row at best."""
        same, rate = reference.images == self.images, self.rows_per_second
        ratio = self.seconds and reference.seconds and reference.seconds / self.seconds
        return replace(
            self, ratio=ratio if same else None, share_of_chip=rate and rate * row_seconds
        )


@dataclass(frozen=True)
class Record:
    """The result of a benchmark."""

    facts: Mapping[str, str]  #: model, machine and code
    rows: tuple[Measurement, ...] = field(repr=False)

    def write(self, path: Path) -> None:
        """Write a CSV file atomically; every line repeats the facts."""
        lines, text = [{**asdict(row), **self.facts} for row in self.rows], io.StringIO(newline="")
        table = csv.DictWriter(text, lines[0], lineterminator="\n")
        table.writeheader()
        table.writerows(lines)
        write_atomically(path, text.getvalue().encode())

    def heading(self) -> str:
        """Describe the model and the machine in one line."""
        facts = self.facts
        millions = int(facts["parameters"]) / 1e6
        return (
            f"{facts['model']}: {millions:.1f} M parameters, {facts['row_gflop']} GFLOP a network "
            f"row; {facts['device']}, torch {facts['torch']}; a large matrix product reaches "
            f"{facts['chip_tflops']} TFLOP/s"
        )

    def table(self) -> list[list[str]]:
        """Return the title of each column, then the cells of each row, as text."""
        lines = [[cell(row) for cell in _COLUMNS.values()] for row in self.rows]
        return [[*_COLUMNS], *lines]


def number(value: float | None, spec: str = "", unit: str = "") -> str:
    """Format a number; with three digits and no exponent by default.

    >>> number(14505.3), number(0.01234), number(None), number(2.5, ".2f", "×")
    ('14,505', '0.0123', '–', '2.50×')
    """
    if value is None:
        return "–"
    return f"{value:{spec or (',.0f' if abs(value) >= 1000 else '.3g')}}{unit}"


_COLUMNS: Mapping[str, Callable[[Measurement], str]] = {
    "": lambda row: f"{row.name} ({row.note})" if row.note else row.name,
    "precision": lambda row: row.precision,
    "images": lambda row: number(row.images),
    "rows": lambda row: number(row.rows),
    "first call": lambda row: number(row.cold_seconds, unit=" s"),
    "seconds": lambda row: number(row.seconds),
    "images/s": lambda row: number(row.images_per_second),
    "rows/s": lambda row: number(row.rows_per_second),
    "speed-up": lambda row: number(row.ratio, ".2f", "×"),
    "of chip": lambda row: number(row.share_of_chip, ".1%"),
}
