"""What was measured: rows with all that was counted, and a CSV file of them.

Every line of the file says where it was measured, too, so that files of several machines can be
put together.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from fcfg.bench.timing import Timing
from fcfg.support.errors import InputError
from fcfg.support.files import write_atomically


@dataclass(frozen=True)
class Measurement:
    """One contestant, or one point of a sweep. What does not apply is None, or empty."""

    part: str  #: 'sampling', 'single', 'training', 'cost' or 'exponent'
    name: str
    note: str = ""  #: why there are no numbers
    precision: str = ""
    images: int | None = None  #: in one call
    groups: int | None = None  #: M
    steps: int | None = None
    size: int | None = None  #: height and width
    seconds: float | None = None  #: of one call, the median
    seconds_low: float | None = None
    seconds_high: float | None = None
    repetitions: int | None = None
    cold_seconds: float | None = None  #: of the very first call
    evaluations: int | None = None  #: network rows in one call
    flops: int | None = None  #: of one call
    images_per_second: float | None = None
    evaluations_per_second: float | None = None
    tflops: float | None = None  #: a second
    share_of_chip: float | None = None  #: of the large matrix product
    peak_bytes: int | None = None
    ratio: float | None = None  #: how much faster than the reference of its part
    largest_difference: float | None = None  #: of a pixel, to float32 eager
    mean_difference: float | None = None
    value: float | None = None  #: where on its axis a point of a sweep lies
    exponent: float | None = None
    exponent_error: float | None = None  #: standard error

    def timed(self, timing: Timing) -> Measurement:
        """The same with its times, and the rates that follow."""
        seconds = timing.median

        def rate(count: int | None) -> float | None:
            return None if count is None else count / seconds

        flops = rate(self.flops)
        return replace(
            self,
            seconds=seconds,
            seconds_low=timing.low,
            seconds_high=timing.high,
            repetitions=len(timing.seconds),
            images_per_second=rate(self.images),
            evaluations_per_second=rate(self.evaluations),
            tflops=None if flops is None else flops / 1e12,
        )


_NUMBERS = {f.name: f.type for f in fields(Measurement) if "None" in str(f.type)}


@dataclass(frozen=True)
class Record:
    """A whole benchmark."""

    facts: Mapping[str, str]  #: the model, the machine, the code
    rows: tuple[Measurement, ...] = field(repr=False)

    def of(self, part: str) -> list[Measurement]:
        """The rows of a part."""
        return [row for row in self.rows if row.part == part]

    def write(self, path: Path) -> None:
        """As a CSV file, whole or not at all.

        Args:
            path: In a folder that exists.
        """
        text = io.StringIO(newline="")
        names = [f.name for f in fields(Measurement)]
        table = csv.writer(text, lineterminator="\n")
        table.writerow([*names, *self.facts])
        for row in self.rows:
            cells = [getattr(row, name) for name in names]
            table.writerow(
                ["" if cell is None else cell for cell in cells] + [*self.facts.values()]
            )
        write_atomically(path, text.getvalue().encode())


def read_record(path: Path) -> Record:
    """Read what :meth:`Record.write` wrote.

    Args:
        path: Of one benchmark.
    """
    with path.open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    names = {f.name for f in fields(Measurement)}
    if not lines or not names <= set(lines[0]):
        raise InputError(
            f"benchmark {path}",
            expected="a CSV file that 'fcfg bench --out' wrote",
            got="another" if lines else "an empty one",
            do="write it again",
        )
    facts = {name: text for name, text in lines[0].items() if name not in names}
    return Record(facts, tuple(_row(line, names) for line in lines))


def against(rows: Iterable[Measurement], reference: str, chip: float) -> list[Measurement]:
    """Fill in what follows from the reference and from the machine.

    Args:
        rows: Of one part.
        reference: The name of the row that others are compared with.
        chip: Operations a second of the large matrix product.
    """
    rows = list(rows)
    base = next((row.seconds for row in rows if row.name == reference), None)

    def filled(row: Measurement) -> Measurement:
        share = None if row.tflops is None else row.tflops * 1e12 / chip
        row = replace(row, share_of_chip=share)
        if base is None or row.seconds is None or row.images is None:  # other work, or none
            return row
        return replace(row, ratio=base / row.seconds)

    return [filled(row) for row in rows]


def _row(line: Mapping[str, str], names: set[str]) -> Measurement:
    values: dict[str, Any] = {}
    for name in names:
        text, kind = line[name], str(_NUMBERS.get(name, "str"))
        if kind == "str":
            values[name] = text
        elif text:
            values[name] = int(text) if "int" in kind else float(text)
    return Measurement(**values)
