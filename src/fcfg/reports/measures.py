"""What was measured under an intervention: rows, columns, and a number of each row in each column.

Every table, figure and file takes its numbers from here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from fcfg.evaluation.experiment import parts_of
from fcfg.evaluation.metric_table import METRICS, Metric, effectiveness
from fcfg.evaluation.result_files import BASELINE
from fcfg.evaluation.summary import Cell
from fcfg.metrics.intervals import Estimate, average
from fcfg.reports.comparable import Run
from fcfg.reports.rule_styles import Setting
from fcfg.reports.table import Cell as TableCell
from fcfg.reports.table import Column

Value: TypeAlias = Estimate | float | None
Values: TypeAlias = "dict[Row, Value]"
TARGET, REST = "target", "off target"
_SCORES = ("auroc", "error", "delta")
#: Returns with fresh noise, and those with the noise of the way there; one where it is inferred.
_RETURNS = {"fresh_mae": "reversal_mae", "fresh_lpips": "reversal_lpips"}


@dataclass(frozen=True, eq=False)
class Row:
    """One intervention under one setting of one model."""

    run: Run
    cell: Cell = field(repr=False)
    setting: Setting  #: with the name and the colour of the model, beside others

    @property
    def is_default(self) -> bool:
        """Whether it is the answer that its model gives by default."""
        defaults = self.run.header["model"].get("defaults", {})
        return defaults.get(self.cell.do) == parts_of(self.cell.guidance)[0]

    @property
    def names(self) -> tuple[str, str]:
        """Its model, and its setting."""
        return self.run.name, self.setting.label + " (default)" * self.is_default


@dataclass(frozen=True, eq=False)
class Measured:
    """The numbers of one intervention, by column and row."""

    rows: tuple[Row, ...]  #: by model and in the order of its run
    every: dict[Column, Values] = field(repr=False)
    """All metrics of all attributes and of whole images. No guidance has no difference from
    itself."""
    table: dict[Column, Values] = field(repr=False)  #: what its table shows
    aims: dict[Column, Values] = field(repr=False)
    """What a good answer reaches, the same under all interventions; distances where nearer to 0 is
    better."""
    reach: dict[Column, Values] = field(repr=False)  #: mean drift of targets, by unit
    rest: dict[Column, Values] = field(repr=False)  #: mean drift of what should not change

    @property
    def shown(self) -> tuple[Row, ...]:
        """Rows of tables: without the points of frontiers alone."""
        return tuple(row for row in self.rows if not row.setting.is_between)

    @property
    def drawn(self) -> tuple[Row, ...]:
        """Rows of figures: of compared methods those with calibrated weights."""
        own = ((row, row.setting) for row in self.shown)
        return tuple(row for row, s in own if not s.method or "calibrated" in s.roles)


def measure(rows: tuple[Row, ...], drift: Metric, unread: Collection[str]) -> Measured:
    """Take the numbers of an intervention from the summaries of its runs.

    Means leave out the ``unread`` attributes, which the judge cannot read.
    """
    first, cell, space = rows[0], rows[0].cell, rows[0].run.summary.space
    targets, kept = ([n for n in own if n not in unread] for own in (cell.targets, cell.invariant))
    single = [
        own
        for name in (*space.names, "")
        for metric in METRICS.values()
        if (own := _single(first, metric, name)).unit or not name
    ]
    single = _by_noise(single, rows)
    reached = dict.fromkeys(effectiveness(space, name) for name in targets)
    goals = [own for metric in reached for own in _means(first, metric, targets, TARGET)]
    reach = [
        replace(own, better=drift.reached or "") for own in _means(first, drift, targets, TARGET)
    ]
    rest = _means(first, drift, kept, REST)
    values = {
        own: {row: _number(own, row) for row in rows} for own in (*single, *goals, *reach, *rest)
    }
    shown = {own: _apart_from_itself(own, found) for own, found in values.items()}
    scores = [own for own in single if own.attribute and own.metric in _SCORES]
    moved = [own for own in single if own.attribute and own.metric == drift.name]
    images = [own for own in single if own.group and not own.attribute]
    return Measured(
        rows,
        {own: shown[own] for own in single},
        {
            own: shown[own]
            for own in (*scores, *moved, *rest, *images)
            if set(shown[own].values()) != {None}
        },
        {
            own: {row: sized(own, value) for row, value in shown[own].items()}
            for own in (*goals, *reach, *rest, *images)
            if own.better and any(map(estimated, shown[own].values()))
        },
        {own: values[own] for own in reach},
        {own: values[own] for own in rest},
    )


def _single(row: Row, metric: Metric, name: str) -> Column:
    """A metric of one attribute, or of whole images."""
    cell, space = row.cell, row.run.summary.space
    unit, is_delta = metric.unit_of(space, name) or "", bool(name) and metric.name == "delta"
    better = metric.better
    if name in cell.affected:
        own = effectiveness(space, name).reached if metric.reached is None else metric.reached
        better = own or ""
    elif not cell.do and metric.name.startswith("change"):
        better = "↓"  # where nothing should change
    return Column(
        name if name and not is_delta else metric.title,
        unit if name else "",
        metric.digits_in(unit),
        metric.signed,
        better,
        effectiveness(space, name).group if is_delta else metric.group,
        metric.name,
        TARGET if name in cell.targets else "follows" if name in cell.affected else "",
        is_delta,  # below the effectiveness
        (name,),
    )


def _by_noise(columns: list[Column], rows: Iterable[Row]) -> list[Column]:
    """Say whose noise a return has, where runs have returns with both."""
    cells = [cell for row in rows for cell in row.run.summary.cells.values()]
    if not any(cell.whole("fresh_mae") for cell in cells):
        return [own for own in columns if own.metric not in _RETURNS]
    return [
        replace(own, title=f"{own.title}, own noise") if own.metric in _RETURNS.values() else own
        for own in columns
    ]


def _means(row: Row, metric: Metric, names: Iterable[str], title: str) -> list[Column]:
    """Means over attributes, a column for each unit."""
    by_unit: dict[str, list[str]] = {}
    for name in names:
        if unit := metric.unit_of(row.run.summary.space, name):
            by_unit.setdefault(unit, []).append(name)
    return [
        replace(_single(row, metric, own[0]), names=tuple(own), role="", title=title)
        for own in by_unit.values()
    ]


def _number(column: Column, row: Row) -> Value:
    """The number of one attribute or of whole images, or the mean over those that have one."""
    is_drawn = "drawn_noise=true" in row.cell.guidance.split(";")
    metric = column.metric if is_drawn else _RETURNS.get(column.metric, column.metric)
    found = [row.cell.numbers.get((metric, name)) for name in column.names]
    return average(map(estimated, found)) if len(found) > 1 else found[0]


def _apart_from_itself(column: Column, values: Values) -> Values:
    """What tables say of every row; no guidance does not differ from itself."""
    itself = [row for row in values if row.cell.guidance == BASELINE]
    return values | dict.fromkeys(itself) if METRICS[column.metric].is_relative else values


def estimated(value: TableCell) -> Estimate | None:
    """A number with an interval; None of others."""
    return value if isinstance(value, Estimate) else None


def sized(column: Column, value: Value) -> Value:
    """What is compared between rows: the number, or its distance from 0."""
    return abs(value) if column.better == "→ 0" and isinstance(value, Estimate) else value
