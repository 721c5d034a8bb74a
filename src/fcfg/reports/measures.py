"""The columns of all tables: what each measures, which value is better, and which is best."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from fcfg.evaluation.metric_table import METRICS, Better, Metric, effectiveness
from fcfg.evaluation.result_files import BASELINE
from fcfg.evaluation.summary import Cell
from fcfg.metrics import Estimate
from fcfg.reports.comparison import Comparison, Row
from fcfg.reports.numbers import average, distance
from fcfg.reports.table import Column

Value: TypeAlias = Estimate | float | None
TARGET, REST = "target", "off target"
_REACHED: dict[str, Better] = {"factor_error": "→ 0", "shift": "↑"}  # drift of a target


@dataclass(frozen=True, eq=False)
class Measure:
    """One kind of number of every row, and its column."""

    column: Column
    get: Callable[[Row], Value] = field(repr=False)

    def estimate(self, row: Row) -> Estimate | None:
        """The number of a row, if it has an interval."""
        value = self.get(row)
        return value if isinstance(value, Estimate) else None

    def size(self, row: Row) -> Estimate | None:
        """What is compared between rows: the number, or its distance from 0."""
        value = self.estimate(row)
        return value if value is None or self.column.better != "→ 0" else distance(value)

    def gap(self, row: Row, other: Row) -> Value:
        """Paired difference of two rows; None if either has no number."""
        sizes = self.size(row), self.size(other)
        if sizes[0] is not None and sizes[1] is not None:
            return sizes[0] - sizes[1]
        ours, theirs = self.get(row), self.get(other)
        if isinstance(ours, float) and isinstance(theirs, float):
            return ours - theirs
        return None

    def best(self, rows: Sequence[Row]) -> Row | None:
        """The best row, if its difference from the next one excludes 0."""
        sign = {"": 0, "↑": -1, "↓": 1, "→ 0": 1}[self.column.better]
        sizes = {row: size for row in rows if sign and (size := self.size(row)) is not None}
        ranked = sorted(sizes, key=lambda row: sign * sizes[row].value)
        if len(ranked) < 2 or not (sizes[ranked[0]] - sizes[ranked[1]]).excludes_zero:
            return None
        return ranked[0]


def every_number(comparison: Comparison) -> list[Measure]:
    """All metrics of all attributes and of whole images."""
    return [
        measure(comparison, metric, name, better="")
        for name in (*comparison.space.names, "")
        for metric in METRICS.values()
        if metric.unit_of(comparison.space, name)
    ]


def measures(comparison: Comparison, do: str) -> list[Measure]:
    """The columns of an intervention that have numbers."""
    rows = comparison.rows[do]
    found = [
        *_of_attributes(comparison, rows[0].cell),
        *_means(comparison, comparison.drift, rows[0].cell.invariant, REST),
        *_of_images(comparison, do),
    ]
    return [own for own in found if any(own.get(row) is not None for row in rows)]


def aims(comparison: Comparison, do: str) -> list[Measure]:
    """What a good answer reaches under an intervention, with the same columns under every one."""
    rows = comparison.rows[do]
    targets, rest = rows[0].cell.targets, rows[0].cell.invariant
    measured, drift = [effectiveness(comparison.space, n) for n in targets], comparison.drift
    # Effectiveness is a difference from real images already.
    better = _REACHED.get(drift.name)
    found = [
        *(
            own
            for metric in dict.fromkeys(measured)
            for own in _means(comparison, metric, targets, TARGET, metric.better)
        ),
        *(_means(comparison, drift, targets, TARGET, better) if better else ()),
        *_means(comparison, drift, rest, REST),
        *(own for own in _of_images(comparison, do) if own.column.better),
    ]
    return [own for own in found if any(own.size(row) is not None for row in rows)]


def _of_attributes(comparison: Comparison, cell: Cell) -> Iterator[Measure]:
    """Effectiveness, its difference from no guidance, and the drift of every attribute."""
    space = comparison.space
    for name in space.names:
        metric, role = effectiveness(space, name), _role(cell, name)
        yield measure(comparison, metric, name, role, metric.better if role else "")
        yield measure(comparison, METRICS["delta"], name, role, group=metric.group, is_small=True)
    for name in space.names:
        role = _role(cell, name)
        yield measure(comparison, comparison.drift, name, role, _towards(comparison, name, role))


def _role(cell: Cell, name: str) -> str:
    return TARGET if name in cell.targets else "follows" if name in cell.affected else ""


def _towards(comparison: Comparison, name: str, role: str) -> Better:
    """Which drift is better: none, unless what should change is not compared with the truth."""
    drift = comparison.drift.name
    if not role or drift == "factor_error":
        return "→ 0"
    return "↑" if drift == "shift" else effectiveness(comparison.space, name).better


def _of_images(comparison: Comparison, do: str) -> Iterator[Measure]:
    for metric in METRICS.values():
        if metric.group:
            is_composition = not do and metric.name.startswith("change")
            yield measure(comparison, metric, "", better="↓" if is_composition else metric.better)


def measure(
    comparison: Comparison,
    metric: Metric,
    name: str,
    role: str = "",
    better: Better = "",
    *,
    group: str = "",
    is_small: bool = False,
) -> Measure:
    """A metric of one attribute, or of whole images."""
    unit = metric.unit_of(comparison.space, name) or ""
    column = Column(
        name if name and not is_small else metric.title,
        unit if name else "",
        metric.digits_in(unit),
        metric.signed,
        better,
        group or metric.group,
        metric.name,
        name,
        role,
        is_small,
    )

    def get(row: Row) -> Value:
        return metric.value(row.run.summary, row.cell, name)

    return Measure(column, _guided(metric, get))


def _guided(metric: Metric, get: Callable[[Row], Value]) -> Callable[[Row], Value]:
    """Leave out what an answer without guidance differs from no guidance."""
    if metric.name not in ("delta", "shift"):
        return get
    return lambda row: None if row.cell.guidance == BASELINE else get(row)


def _means(
    comparison: Comparison,
    metric: Metric,
    names: Collection[str],
    title: str,
    better: Better = "→ 0",
) -> Iterator[Measure]:
    """Means over the attributes that can be read, with a column for each unit."""
    units: dict[str, list[str]] = {}
    for name in names:
        unit = metric.unit_of(comparison.space, name)
        if unit and name not in comparison.unread:
            units.setdefault(unit, []).append(name)
    for unit, own in units.items():
        digits = metric.digits_in(unit)
        column = Column(title, unit, digits, metric.signed, better, metric.group, metric.name)
        yield Measure(column, _guided(metric, mean_of(metric, own)))


def mean_of(metric: Metric, names: Collection[str]) -> Callable[[Row], Estimate | None]:
    """Mean over those attributes that were measured."""

    def get(row: Row) -> Estimate | None:
        found = [metric.value(row.run.summary, row.cell, name) for name in names]
        return average(one for one in found if isinstance(one, Estimate))

    return get
