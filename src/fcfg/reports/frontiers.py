"""Frontiers: the error of a method against the strength of its answers, weight by weight.

Two methods can be compared where their answers are equally clear: strength 0 is as clear as the
truth or, where that is not known, as real images that have the value.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from fcfg.evaluation.metric_table import METRICS
from fcfg.metrics import Estimate
from fcfg.metrics.intervals import average
from fcfg.reports.charts import Point
from fcfg.reports.comparison import Comparison
from fcfg.reports.measures import Row
from fcfg.reports.rule_styles import TINTS, Setting
from fcfg.reports.svg import Panel, around
from fcfg.reports.table import Cell, Column, Table
from fcfg.reports.tables import table_of
from fcfg.reports.template import rendered
from fcfg.reports.wording import named, with_interval

#: Metrics of the strength of a target, and what it is compared with; the first that is known.
_STRENGTHS = {"factor_error": "the truth", "strength": "real images"}
#: Metrics of the error, and what they are called here; the first that is known.
_ERRORS = {
    "truth_changed": "error of changed pixels",
    "change_lpips": "LPIPS of the change",
    "change_mae": "mean absolute change",
}


@dataclass(frozen=True, eq=False)
class Frontier:
    """A method of a model under one intervention."""

    name: str
    number: int  #: among all methods, which says how it is drawn
    points: tuple[Point, ...]  #: by weight
    calibrated: Point
    published: Point | None

    @property
    def setting(self) -> Setting:
        """Its appearance."""
        return replace(self.calibrated.setting, tint=TINTS[self.number % len(TINTS)])

    @property
    def title(self) -> str:
        """Its model, beside others, and its name."""
        return f"{self.setting.model} {self.name}".strip()

    @property
    def error(self) -> Estimate | None:
        """Its error where its strength is 0; None if it is nowhere."""
        x, y = [point.x for point in self.points], [point.y for point in self.points]
        (value,) = at_zero(*(np.array([[e.value] for e in own]) for own in (x, y)))
        if np.isnan(value):
            return None
        replicates = at_zero(*(np.array([e.replicates for e in own]) for own in (x, y)))
        return Estimate(float(value), replicates, x[0].n)

    @property
    def place(self) -> str:
        """The weights between which the strength is 0, or how far from it the method stays."""
        for one, other in zip(self.points, self.points[1:], strict=False):
            if min(one.x.value, other.x.value) <= 0 <= max(one.x.value, other.x.value):
                return f"{one.setting.weights_text} and {other.setting.weights_text}"
        nearest = min((point.x for point in self.points), key=lambda x: abs(x.value))
        words = "at most" if nearest.value < 0 else "at least"
        return f"never, {words} {with_interval(nearest, 2, signed=True)}"


@dataclass(frozen=True, eq=False)
class Chart:
    """The frontiers of all methods under one intervention, and what they are measured in."""

    do: str
    strength: str  #: metric
    error: str  #: metric
    reference: str  #: what has strength 0
    title: str  #: of the error
    frontiers: tuple[Frontier, ...]


def at_zero(
    x: Float[np.ndarray, "points rows"], y: Float[np.ndarray, "points rows"]
) -> Float[np.ndarray, "rows"]:
    """Interpolate y where x is 0, between the first two neighbouring points around it.

    >>> at_zero(np.array([[-1.0], [1.0], [3.0]]), np.array([[2.0], [4.0], [5.0]]))
    array([3.])

    Rows whose x never changes its sign are NaN.
    """
    one, other, rows = x[:-1], x[1:], np.arange(x.shape[1])
    crosses = (np.minimum(one, other) <= 0) & (np.maximum(one, other) >= 0)
    if not crosses.any():
        return np.full(len(rows), np.nan)
    first = crosses.argmax(axis=0)
    (near, low), (far, high) = ((x[k, rows], y[k, rows]) for k in (first, first + 1))
    share = near / np.where(near == far, 1, near - far)
    return np.where(crosses.any(axis=0), low + share * (high - low), np.nan)


def charts(comparison: Comparison) -> list[Chart]:
    """The frontiers of every intervention whose methods were asked at several weights."""
    found = (_chart(comparison, do) for do in comparison.dos)
    return [chart for chart in found if chart is not None]


def _chart(comparison: Comparison, do: str) -> Chart | None:
    rows = {(r.run, r.cell.guidance): r for r in comparison.measured[do].rows}
    methods = [(run, run.header.get("methods", {})) for run in comparison.runs]
    asked = [(run, name, own.get(do)) for run, every in methods for name, own in every.items()]
    every = [r for r in rows.values() if r.setting.method]
    strength, error = (
        next((m for m in metrics if all(_measured(r, m) for r in every)), None)
        for metrics in (_STRENGTHS, _ERRORS)
    )
    if not every or strength is None or error is None:
        return None
    points = {
        key: Point(row, x, y)
        for key, row in rows.items()
        if (x := _measured(row, strength)) and (y := _measured(row, error))
    }
    frontiers = [
        Frontier(
            name,
            number,
            tuple(points[run, text] for text in own["weights"]),
            points[run, own["calibrated"]],
            points.get((run, own["published"])),
        )
        for number, (run, name, own) in enumerate(asked)
        if own and own["weights"]
    ]
    about = (strength, error, _STRENGTHS[strength], _ERRORS[error])
    return Chart(do, *about, tuple(frontiers)) if frontiers else None


def _measured(row: Row, metric: str) -> Estimate | None:
    """A metric of whole images, or its mean over the targets, if all have it."""
    found = row.cell.of(metric)
    names = [""] if metric in _ERRORS else row.cell.targets
    return average(found[name] for name in names) if set(names) <= set(found) else None


def frontier_panels(comparison: Comparison) -> list[Panel]:
    """One drawing for each intervention."""
    panels: list[Panel] = []
    for chart in charts(comparison):
        every = [(*own.points, own.calibrated, own.published) for own in chart.frontiers]
        points = [point for own in every for point in own if point is not None]
        drawing = rendered(
            "frontiers.svg.jinja",
            chart=chart,
            across=around([p.x.value for p in points], 48, 470),
            up=around([end for p in points for end in (p.y.low, p.y.high)], 330, 34),
            digits=METRICS[chart.error].digits,
            cycle=len(TINTS),
        )
        panels.append(Panel(f"frontiers-{chart.do}", drawing))
    return panels


def equal_strength(comparison: Comparison) -> dict[str, Table]:
    """The error of every method where its answers are as clear as the truth or real images."""
    return {chart.do: _equal_strength(comparison, chart) for chart in charts(comparison)}


def _equal_strength(comparison: Comparison, chart: Chart) -> Table:
    metric, every = METRICS[chart.error], chart.frontiers
    error = Column(chart.title, metric.unit or "", metric.digits, metric=chart.error)
    strength = Column("strength", "sd", signed=True, metric=chart.strength)
    equal, own = "at equal strength", "at the calibrated weight"
    found = [frontier.error for frontier in every]
    columns: dict[Column, list[Cell]] = {
        replace(error, group=equal, metric=f"{chart.error} at equal strength", better="↓"): [
            *found
        ],
        Column("between weights", group=equal): [frontier.place for frontier in every],
        Column("resamples that reach it", "%", 0, group=equal): [
            None if e is None else 100 * float(np.isfinite(e.replicates).mean()) for e in found
        ],
        replace(strength, group=own): [frontier.calibrated.x for frontier in every],
        replace(error, group=own): [frontier.calibrated.y for frontier in every],
        Column("sampling"): [frontier.setting.sampling for frontier in every],
    }
    rows = [replace(f.calibrated.row, setting=f.setting) for f in every]
    names = [f.name for f in every]
    title = f"{named(chart.do)}: answers as clear as {chart.reference}"
    table = table_of(comparison, rows, names, columns, title)
    return replace(table, names=(*table.names[:-1], "method"))


def frontier_files(comparison: Comparison) -> dict[str, bytes]:
    """Contents of the file of these tables, if there are some."""
    texts: list[str] = []
    for do, table in equal_strength(comparison).items():
        lines = [replace(row, names=(do, *row.names)) for row in table.rows]
        text = replace(table, names=("do", *table.names), rows=tuple(lines)).csv()
        texts.append(text.partition("\n")[2] if texts else text)
    return {"frontiers.csv": "".join(texts).encode()} if texts else {}
