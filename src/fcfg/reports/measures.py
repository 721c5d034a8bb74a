"""The columns of all tables: what each measures, which value is better, and which is best."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from fcfg.evaluation.metric_table import METRICS, Better, Metric, effectiveness
from fcfg.evaluation.result_files import BASELINE
from fcfg.evaluation.summary import Cell
from fcfg.metrics import Estimate
from fcfg.reports.comparison import Comparison, Row
from fcfg.reports.table import Column
from fcfg.reports.wording import average, distance

Value: TypeAlias = Estimate | float | None
TARGET, REST = "target", "off target"
_REACHED: dict[str, Better] = {"factor_error": "→ 0", "shift": "↑"}  # drift of a target


def measured(column: Column, row: Row) -> Value:
    """The number of a row; no guidance does not differ from itself."""
    metric = METRICS[column.metric]
    is_itself = metric.is_relative and row.cell.guidance == BASELINE
    return None if is_itself else mean(metric, row, column.names)


def mean(metric: Metric, row: Row, names: Iterable[str]) -> Value:
    """Mean over those attributes that were measured; a number without an interval as it is."""
    found = [metric.value(row.run.summary, row.cell, name) for name in names]
    plain = next((one for one in found if isinstance(one, float)), None)
    return average(one for one in found if isinstance(one, Estimate)) or plain


def gap(column: Column, row: Row, other: Row) -> Value:
    """Paired difference of two rows; None if either has no number."""
    ours, theirs = (sized(column, measured(column, one)) for one in (row, other))
    if isinstance(ours, Estimate):
        return ours - theirs if isinstance(theirs, Estimate) else None
    return ours - theirs if isinstance(theirs, float) and ours is not None else None


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


def every_number(comparison: Comparison) -> list[Column]:
    """All metrics of all attributes and of whole images."""
    return [
        own
        for name in (*comparison.space.names, "")
        for metric in METRICS.values()
        if (own := column_of(comparison, metric, name)).unit or not name
    ]


def measures(comparison: Comparison, do: str) -> list[Column]:
    """The columns of an intervention that have numbers."""
    rows = comparison.rows[do]
    found = [
        *_of_attributes(comparison, rows[0].cell),
        *means(comparison, comparison.drift, rows[0].cell.invariant, REST),
        *_of_images(comparison, do),
    ]
    return [own for own in found if any(measured(own, row) is not None for row in rows)]


def aims(comparison: Comparison, do: str) -> list[Column]:
    """What a good answer reaches under an intervention, with the same columns under every one."""
    rows, drift = comparison.rows[do], comparison.drift
    cell = rows[0].cell
    metrics = dict.fromkeys(effectiveness(comparison.space, name) for name in cell.targets)
    found = [own for one in metrics for own in means(comparison, one, cell.targets, TARGET)]
    if better := _REACHED.get(drift.name):  # else effectiveness says the same
        found += means(comparison, drift, cell.targets, TARGET, better=better)
    found += means(comparison, drift, cell.invariant, REST)
    found += (own for own in _of_images(comparison, do) if own.better)
    return [own for own in found if any(isinstance(measured(own, r), Estimate) for r in rows)]


def _of_attributes(comparison: Comparison, cell: Cell) -> Iterator[Column]:
    """Effectiveness, its difference from no guidance, and the drift of every attribute."""
    space, delta, drift = comparison.space, METRICS["delta"], comparison.drift
    roles = dict.fromkeys(cell.affected, "follows") | dict.fromkeys(cell.targets, TARGET)
    for name in space.names:
        metric, role = effectiveness(space, name), roles.get(name, "")
        better = metric.better if role else ""
        small = {"title": delta.title, "group": metric.group, "is_small": True}
        yield column_of(comparison, metric, name, role=role, better=better)
        yield column_of(comparison, delta, name, role=role, **small)
    for name in space.names:
        reached = _REACHED.get(drift.name, effectiveness(space, name).better)
        better = reached if name in roles else drift.better
        yield column_of(comparison, drift, name, role=roles.get(name, ""), better=better)


def _of_images(comparison: Comparison, do: str) -> Iterator[Column]:
    for metric in METRICS.values():
        if metric.group:
            is_composition = not do and metric.name.startswith("change")
            better = "↓" if is_composition else metric.better
            yield column_of(comparison, metric, "", better=better)


def column_of(comparison: Comparison, metric: Metric, name: str, **look: Any) -> Column:
    """A metric of one attribute, or of whole images; ``look`` replaces fields of the column."""
    unit = metric.unit_of(comparison.space, name) or ""
    plain = Column(
        name or metric.title,
        unit if name else "",
        metric.digits_in(unit),
        metric.signed,
        group=metric.group,
        metric=metric.name,
        names=(name,),
    )
    return replace(plain, **look)


def means(
    comparison: Comparison, metric: Metric, names: Iterable[str], title: str, **look: Any
) -> list[Column]:
    """Means over attributes, a column for each unit; what the judge cannot read is left out."""
    by_unit: dict[str, list[str]] = {}
    for name in names:
        unit = metric.unit_of(comparison.space, name)
        if unit and name not in comparison.unread:
            by_unit.setdefault(unit, []).append(name)
    fields = {"title": title, "better": metric.better} | look
    return [
        column_of(comparison, metric, own[0], **fields, names=tuple(own))
        for own in by_unit.values()
    ]
