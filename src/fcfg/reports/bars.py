"""Bar charts: what every setting did to every attribute under one intervention."""

from __future__ import annotations

from dataclasses import dataclass

from fcfg.evaluation.metric_table import Metric
from fcfg.metrics import Estimate
from fcfg.reports import svg
from fcfg.reports.comparison import Comparison, Row
from fcfg.reports.measures import column_of, measured
from fcfg.reports.table import Column
from fcfg.reports.template import rendered


@dataclass(frozen=True)
class _Block:
    """The bars of one attribute under one intervention."""

    column: Column
    axis: str  #: label of its axis: the metric and its unit
    bars: list[tuple[Row, Estimate]]


def bar_panels(comparison: Comparison, metric: Metric) -> list[svg.Panel]:
    """One drawing for each intervention that has values, all on the same scales.

    Of one run all settings are shown, of several those that represent the models.
    """
    every = [column_of(comparison, metric, name) for name in comparison.space.names]
    panels: dict[str, list[_Block]] = {}
    ends: dict[str, list[float]] = {}
    for do in comparison.dos:
        rows = comparison.rows[do] if comparison.is_alone else comparison.picked(do)
        for column in every:
            found = [(row, measured(column, row)) for row in rows]
            bars = [(row, value) for row, value in found if isinstance(value, Estimate)]
            if bars:
                axis = f"{metric.title} ({column.unit.replace(' x ', ' × ')})"
                panels.setdefault(do, []).append(_Block(column, axis, bars))
                parts = ((value.low, value.value, value.high) for _, value in bars)
                ends.setdefault(axis, []).extend(end for some in parts for end in some)
    scales = {axis: svg.around(some, 136, 310) for axis, some in ends.items()}
    name = metric.name.replace("_", "-")
    return [
        svg.Panel(f"{name}-{do}", rendered("bars.svg.jinja", do=do, blocks=own, scales=scales))
        for do, own in panels.items()
    ]
