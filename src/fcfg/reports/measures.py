"""The columns of all tables: what each measures, which value is better, and which is best."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
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


@dataclass(frozen=True)
class Measure:
    """One kind of number of every row, and its column."""

    column: Column
    metric: Metric
    names: tuple[str, ...]  #: attributes whose mean it is; ("",) for whole images

    def get(self, row: Row) -> Value:
        """The number of a row; no guidance does not differ from itself."""
        is_none = self.metric.is_relative and row.cell.guidance == BASELINE
        return None if is_none else mean(self.metric, row, self.names)

    def gap(self, row: Row, other: Row) -> Value:
        """Paired difference of two rows; None if either has no number."""
        ours, theirs = (sized(self.column, self.get(one)) for one in (row, other))
        if isinstance(ours, Estimate):
            return ours - theirs if isinstance(theirs, Estimate) else None
        return ours - theirs if isinstance(theirs, float) and ours is not None else None


def mean(metric: Metric, row: Row, names: Iterable[str]) -> Value:
    """Mean over those attributes that were measured; a number without an interval as it is."""
    found = [metric.value(row.run.summary, row.cell, name) for name in names]
    plain = next((one for one in found if isinstance(one, float)), None)
    return average(one for one in found if isinstance(one, Estimate)) or plain


def sized(column: Column, value: Value) -> Value:
    """What is compared between rows: the number, or its distance from 0."""
    if column.better == "→ 0" and isinstance(value, Estimate):
        return distance(value)
    return value


def best(column: Column, values: Sequence[Value]) -> int | None:
    """Place of the best value, if its paired difference from the next one excludes 0."""
    sign = {"": 0, "↑": -1, "↓": 1, "→ 0": 1}[column.better]
    every = {k: sized(column, value) for k, value in enumerate(values)}
    sizes = {k: size for k, size in every.items() if isinstance(size, Estimate)}
    ranked = sorted(sizes, key=lambda k: sign * sizes[k].value)
    if not sign or len(ranked) < 2 or not (sizes[ranked[0]] - sizes[ranked[1]]).excludes_zero:
        return None
    return ranked[0]


def every_number(comparison: Comparison) -> list[Measure]:
    """All metrics of all attributes and of whole images."""
    return [
        replace(own, column=replace(own.column, better=""))
        for name in (*comparison.space.names, "")
        for metric in METRICS.values()
        if (own := measure(comparison, metric, name)).column.unit or not name
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
    cell, drift = comparison.rows[do][0].cell, comparison.drift
    measured = dict.fromkeys(effectiveness(comparison.space, name) for name in cell.targets)
    found = [own for one in measured for own in _means(comparison, one, cell.targets, TARGET)]
    if better := _REACHED.get(drift.name):  # else effectiveness says the same
        found += _means(comparison, drift, cell.targets, TARGET, better)
    found += _means(comparison, drift, cell.invariant, REST)
    found += (own for own in _of_images(comparison, do) if own.column.better)
    rows = comparison.rows[do]
    return [own for own in found if any(isinstance(own.get(row), Estimate) for row in rows)]


def _of_attributes(comparison: Comparison, cell: Cell) -> Iterator[Measure]:
    """Effectiveness, its difference from no guidance, and the drift of every attribute."""
    delta, drift = METRICS["delta"], comparison.drift
    for name in comparison.space.names:
        metric, role = effectiveness(comparison.space, name), _role(cell, name)
        better = metric.better if role else ""
        yield measure(comparison, metric, name, role=role, better=better)
        small = measure(comparison, delta, name, title=delta.title, role=role, group=metric.group)
        yield replace(small, column=replace(small.column, is_small=True))
    for name in comparison.space.names:
        role, better = _role(cell, name), drift.better
        if role and drift.is_relative:
            better = "↑"
        elif role and drift.name != "factor_error":
            better = effectiveness(comparison.space, name).better
        yield measure(comparison, drift, name, role=role, better=better)


def _role(cell: Cell, name: str) -> str:
    return TARGET if name in cell.targets else "follows" if name in cell.affected else ""


def _of_images(comparison: Comparison, do: str) -> Iterator[Measure]:
    for metric in METRICS.values():
        if metric.group:
            is_composition = not do and metric.name.startswith("change")
            yield measure(comparison, metric, "", better="↓" if is_composition else metric.better)


def measure(
    comparison: Comparison,
    metric: Metric,
    name: str,
    *,
    title: str = "",
    role: str = "",
    better: Better = "",
    group: str = "",
) -> Measure:
    """A metric of one attribute, or of whole images."""
    unit = metric.unit_of(comparison.space, name) or ""
    column = Column(
        title or name or metric.title,
        unit if name else "",
        metric.digits_in(unit),
        metric.signed,
        better,
        group or metric.group,
        metric.name,
        name,
        role,
    )
    return Measure(column, metric, (name,))


def units(comparison: Comparison, metric: Metric, names: Iterable[str]) -> dict[str, list[str]]:
    """Attributes by the unit of a metric; those that the judge cannot read are left out."""
    found: dict[str, list[str]] = {}
    for name in names:
        unit = metric.unit_of(comparison.space, name)
        if unit and name not in comparison.unread:
            found.setdefault(unit, []).append(name)
    return found


def _means(
    comparison: Comparison,
    metric: Metric,
    names: Iterable[str],
    title: str,
    better: Better | None = None,
) -> Iterator[Measure]:
    """Means over attributes, with a column for each unit."""
    for unit, own in units(comparison, metric, names).items():
        towards = metric.better if better is None else better
        column = Column(title, unit, metric.digits_in(unit), metric.signed, towards, metric.group)
        yield Measure(replace(column, metric=metric.name), metric, tuple(own))
