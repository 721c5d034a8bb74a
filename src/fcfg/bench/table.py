"""A record for people: a table for each part, as texts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fcfg.bench.record import Measurement, Record

_GIB, _NONE = 2**30, "–"


@dataclass(frozen=True)
class Table:
    """A title, the names of the columns, and the cells."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


def tables(record: Record) -> list[Table]:
    """Those of the parts that were measured.

    Args:
        record: What was measured.
    """
    makers = {"sampling": _sampling, "single": _single, "training": _training, "exponent": _cost}
    return [make(record) for part, make in makers.items() if record.of(part)]


def heading(record: Record) -> str:
    """The model and the machine, in one line.

    Args:
        record: What was measured.
    """
    facts = record.facts
    threads = f" with {facts['threads']} threads" if facts["threads"] else ""
    return (
        f"{facts['model']}: {int(facts['parameters']) / 1e6:.1f} M parameters, "
        f"{facts['row_gflop']} GFLOP a network row; {facts['device']}{threads}, "
        f"torch {facts['torch']}; a large {facts['chip_precision']} matrix product reaches "
        f"{facts['chip_tflops']} TFLOP/s"
    )


def _sampling(record: Record) -> Table:
    rows = record.of("sampling")
    first = rows[0]
    return _table(
        f"Sampling: {first.images} counterfactuals, {first.steps} steps to noise and back, "
        f"M = {first.groups} groups",
        rows,
        {
            "precision": lambda row: row.precision,
            "images/s": lambda row: _number(row.images_per_second),
            "rows/s": lambda row: _number(row.evaluations_per_second),
            "TFLOP/s": lambda row: _number(row.tflops),
            "of chip": lambda row: _percent(row.share_of_chip),
            "memory": lambda row: _memory(row.peak_bytes),
            "speed-up": lambda row: _times(row.ratio),
            "largest diff.": lambda row: _small(row.largest_difference),
            "mean diff.": lambda row: _small(row.mean_difference),
        },
    )


def _single(record: Record) -> Table:
    rows = record.of("single")
    return _table(
        f"One counterfactual, end to end, {rows[0].steps} steps to noise and back",
        rows,
        {
            "precision": lambda row: row.precision,
            "seconds, warm": lambda row: _number(row.seconds),
            "fastest": lambda row: _number(row.seconds_low),
            "slowest": lambda row: _number(row.seconds_high),
            "measured": lambda row: f"{row.repetitions}×",
            "seconds, cold": lambda row: _number(row.cold_seconds),
            "rows": lambda row: str(row.evaluations),
        },
    )


def _training(record: Record) -> Table:
    rows = record.of("training")
    return _table(
        f"Training: batches of {rows[0].images}, {(rows[0].flops or 0) / 1e12:.3g} TFLOP a step",
        rows,
        {
            "precision": lambda row: row.precision,
            "steps/s": lambda row: _number(1 / (row.seconds or 1)),
            "images/s": lambda row: _number(row.images_per_second),
            "TFLOP/s": lambda row: _number(row.tflops),
            "of chip": lambda row: _percent(row.share_of_chip),
            "memory": lambda row: _memory(row.peak_bytes),
            "speed-up": lambda row: _times(row.ratio),
        },
    )


def _cost(record: Record) -> Table:
    measured = record.of("cost")

    def along(axis: str) -> list[Measurement]:
        return [row for row in measured if row.name == axis]

    return _table(
        "Cost: time grows as a power of",
        record.of("exponent"),
        {
            "exponent": lambda row: _number(row.exponent),
            "± standard error": lambda row: _number(row.exponent_error),
            "from": lambda row: _number(min(p.value or 0 for p in along(row.name))),
            "to": lambda row: _number(max(p.value or 0 for p in along(row.name))),
            "seconds": lambda row: " ".join(_number(p.seconds) for p in along(row.name)),
            "memory": lambda row: " ".join(_memory(p.peak_bytes) for p in along(row.name)),
        },
    )


def _table(
    title: str,
    rows: list[Measurement],
    columns: dict[str, Callable[[Measurement], str]],
) -> Table:
    """Rows without numbers become notes, after their name."""
    blank = ("",) * len(columns)
    cells = [
        (row.name, *(blank if row.note else (find(row) or _NONE for find in columns.values())))
        for row in rows
    ]
    notes = tuple(f"{row.name}: {row.note}" for row in rows if row.note)
    return Table(title, ("", *columns), tuple(cells), notes)


def _number(value: float | None) -> str:
    """Three digits, without exponents.

    >>> _number(14505.3), _number(3.14159), _number(0.01234), _number(None)
    ('14,505', '3.14', '0.0123', '–')
    """
    if value is None:
        return _NONE
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _small(value: float | None) -> str:
    return _NONE if value is None else f"{value:.1e}"


def _percent(value: float | None) -> str:
    return _NONE if value is None else f"{value:.1%}"


def _times(value: float | None) -> str:
    return _NONE if value is None else f"{value:.2f}×"


def _memory(value: int | None) -> str:
    return _NONE if value is None else f"{value / _GIB:.2f} GiB"
