"""Measurements: rows with rates, the CSV file that stores them, and tables that show them.

Every line of the file names the model, the machine and the code, so that files of several
machines can be concatenated.
"""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeAlias

from fcfg.support.csv_files import read_columns
from fcfg.support.errors import InputError
from fcfg.support.files import write_atomically


@dataclass(frozen=True)
class Measurement:
    """One measured implementation. Fields that do not apply are None or empty."""

    part: str  #: 'sampling' or 'single'; 'training', 'cost' or 'exponent' in studies
    name: str
    note: str = ""  #: reason for missing numbers
    precision: str = ""
    images: int | None = None  #: per call
    groups: int | None = None  #: M
    steps: int | None = None
    size: int | None = None  #: height and width
    seconds: float | None = None  #: median of one call
    seconds_low: float | None = None
    seconds_high: float | None = None
    repetitions: int | None = None
    cold_seconds: float | None = None  #: first call, including compilation
    evaluations: int | None = None  #: network rows per call
    flops: int | None = None  #: per call
    images_per_second: float | None = None
    evaluations_per_second: float | None = None
    tflops: float | None = None  #: per second
    share_of_chip: float | None = None  #: of the rate of a large matrix product
    peak_bytes: int | None = None
    ratio: float | None = None  #: speed-up over the reference of its part
    largest_difference: float | None = None  #: of a pixel, to float32 eager
    mean_difference: float | None = None
    value: float | None = None  #: position on its axis, in a study of costs
    exponent: float | None = None
    exponent_error: float | None = None  #: standard error

    def timed(self, times: Sequence[float]) -> Measurement:
        """Add times and rates.

        Args:
            times: Seconds of one call, once for each repetition.
        """
        seconds = statistics.median(times)

        def rate(count: int | None) -> float | None:
            return None if count is None else count / seconds

        return replace(
            self,
            seconds=seconds,
            seconds_low=min(times),
            seconds_high=max(times),
            repetitions=len(times),
            images_per_second=rate(self.images),
            evaluations_per_second=rate(self.evaluations),
            tflops=None if self.flops is None else self.flops / seconds / 1e12,
        )


_TYPES = {f.name: str(f.type) for f in fields(Measurement)}


@dataclass(frozen=True)
class Record:
    """The result of a benchmark."""

    facts: Mapping[str, str]  #: model, machine and code
    rows: tuple[Measurement, ...] = field(repr=False)

    def of(self, part: str) -> list[Measurement]:
        """Return the rows of a part."""
        return [row for row in self.rows if row.part == part]

    def write(self, path: Path) -> None:
        """Write a CSV file atomically.

        Args:
            path: Path in an existing folder.
        """
        text = io.StringIO(newline="")
        table = csv.writer(text, lineterminator="\n")
        table.writerow([*_TYPES, *self.facts])
        for row in self.rows:
            table.writerow([*(getattr(row, name) for name in _TYPES), *self.facts.values()])
        write_atomically(path, text.getvalue().encode())


def read_record(path: Path) -> Record:
    """Read a file that :meth:`Record.write` wrote.

    Args:
        path: CSV file of one benchmark.
    """
    columns = read_columns(path)
    lines = [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]
    if not lines or not _TYPES.keys() <= columns.keys():
        raise InputError(
            f"benchmark {path}",
            expected="a CSV file that 'fcfg bench --out' wrote",
            got="another" if lines else "one without rows",
            do="write it again",
        )
    facts = {name: text for name, text in lines[0].items() if name not in _TYPES}
    return Record(facts, tuple(map(_row, lines)))


def _row(line: Mapping[str, str]) -> Measurement:
    values: dict[str, Any] = {}
    for name, kind in _TYPES.items():
        if kind == "str":
            values[name] = line[name]
        elif line[name]:
            values[name] = int(line[name]) if "int" in kind else float(line[name])
    return Measurement(**values)


def middle(rows: Iterable[Measurement]) -> list[Measurement]:
    """Keep of the rows of one name that of median time, with the range of all of them."""
    named: dict[str, list[Measurement]] = {}
    for row in rows:
        named.setdefault(row.name, []).append(row)
    return [_middle(same) for same in named.values()]


def _middle(rows: list[Measurement]) -> Measurement:
    rows = sorted(rows, key=lambda row: row.seconds or 0.0)
    return replace(
        rows[len(rows) // 2],
        seconds_low=min((row.seconds_low for row in rows if row.seconds_low), default=None),
        seconds_high=max((row.seconds_high for row in rows if row.seconds_high), default=None),
        repetitions=sum(row.repetitions or 0 for row in rows) or None,
    )


def compared(rows: Iterable[Measurement], reference: str, rate: float) -> list[Measurement]:
    """Add speed-ups over a reference, and shares of the rate of the hardware.

    Args:
        rows: Rows of one part.
        reference: Name of the reference row.
        rate: Operations per second of a large matrix product.
    """
    rows = list(rows)
    base = next((row.seconds for row in rows if row.name == reference), None)

    def add(row: Measurement) -> Measurement:
        share = None if row.tflops is None else row.tflops * 1e12 / rate
        row = replace(row, share_of_chip=share)
        if base is None or row.seconds is None or row.images is None:  # not a whole workload
            return row
        return replace(row, ratio=base / row.seconds)

    return [add(row) for row in rows]


@dataclass(frozen=True)
class Table:
    """A table of formatted cells."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


def heading(record: Record) -> str:
    """Describe the model and the machine in one line."""
    facts = record.facts
    threads = f" with {facts['threads']} threads" if facts["threads"] else ""
    return (
        f"{facts['model']}: {int(facts['parameters']) / 1e6:.1f} M parameters, "
        f"{facts['row_gflop']} GFLOP a network row; {facts['device']}{threads}, "
        f"torch {facts['torch']}; a large {facts['chip_precision']} matrix product reaches "
        f"{facts['chip_tflops']} TFLOP/s"
    )


def number(value: float | None, spec: str = "", unit: str = "") -> str:
    """Format a number; with three digits and no exponent by default.

    >>> number(14505.3), number(3.14159), number(0.01234), number(None)
    ('14,505', '3.14', '0.0123', '–')
    >>> number(2.5, ".2f", "×")
    '2.50×'

    Args:
        value: The number, or None for a dash.
        spec: Format specification.
        unit: Text after the number.
    """
    if value is None:
        return "–"
    spec = spec or (",.0f" if abs(value) >= 1000 else ".3g")
    return f"{value:{spec}}{unit}"


def memory(row: Measurement) -> str:
    """Format the peak memory of a row."""
    return number(None if row.peak_bytes is None else row.peak_bytes / 2**30, ".2f", " GiB")


#: Columns of a table: the text of each cell by the title of the column.
Columns: TypeAlias = Mapping[str, Callable[[Measurement], str]]

RATES: Columns = {
    "TFLOP/s": lambda row: number(row.tflops),
    "of chip": lambda row: number(row.share_of_chip, ".1%"),
    "memory": memory,
    "speed-up": lambda row: number(row.ratio, ".2f", "×"),
}
_SAMPLING: Columns = {
    "precision": lambda row: row.precision,
    "images/s": lambda row: number(row.images_per_second),
    "rows/s": lambda row: number(row.evaluations_per_second),
    **RATES,
    "largest diff.": lambda row: number(row.largest_difference, ".1e"),
    "mean diff.": lambda row: number(row.mean_difference, ".1e"),
}
_SINGLE: Columns = {
    "precision": lambda row: row.precision,
    "seconds, warm": lambda row: number(row.seconds),
    "fastest": lambda row: number(row.seconds_low),
    "slowest": lambda row: number(row.seconds_high),
    "measured": lambda row: number(row.repetitions, "d", "×"),
    "seconds, cold": lambda row: number(row.cold_seconds),
    "rows": lambda row: str(row.evaluations),
}


def tables(record: Record) -> list[Table]:
    """Return a table for each measured part of a benchmark."""
    found: list[Table] = []
    if rows := record.of("sampling"):
        images, steps, groups = rows[0].images, rows[0].steps, rows[0].groups
        title = (
            f"Sampling: {images} counterfactuals, {steps} steps to noise and back, M = {groups}"
        )
        found.append(make_table(f"{title} groups", rows, _SAMPLING))
    if rows := record.of("single"):
        found.append(make_table("One counterfactual by default, end to end", rows, _SINGLE))
    return found


def make_table(title: str, rows: Sequence[Measurement], columns: Columns) -> Table:
    """Format rows; rows without numbers become notes.

    Args:
        title: Title of the table.
        rows: Rows of one part.
        columns: Columns after the name.
    """
    blank = ("",) * len(columns)
    cells = [
        (row.name, *(blank if row.note else (cell(row) for cell in columns.values())))
        for row in rows
    ]
    notes = tuple(f"{row.name}: {row.note}" for row in rows if row.note)
    return Table(title, ("", *columns), tuple(cells), notes)
