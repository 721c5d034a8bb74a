"""Bar charts: what every setting did to every attribute under one intervention."""

from __future__ import annotations

from functools import partial

from fcfg.evaluation.metric_table import Metric
from fcfg.metrics import Estimate
from fcfg.reports import svg
from fcfg.reports.comparison import Comparison, Row
from fcfg.reports.measures import column_of, measured
from fcfg.reports.table import Column
from fcfg.reports.template import rendered


def bar_panels(comparison: Comparison, metric: Metric) -> list[svg.Panel]:
    """One drawing for each intervention that has values, all on the same scales.

    Of one run all settings are shown, of several those that represent the models.
    """
    every = [column_of(comparison, metric, name) for name in comparison.space.names]
    panels: dict[str, list[tuple[Column, list[tuple[Row, Estimate]]]]] = {}
    ends: dict[str, list[float]] = {}  # by unit
    for do in comparison.dos:
        rows = comparison.rows[do] if comparison.is_alone else comparison.picked(do)
        for column in every:
            found = [(row, measured(column, row)) for row in rows]
            bars = [(row, value) for row, value in found if isinstance(value, Estimate)]
            if bars:
                panels.setdefault(do, []).append((column, bars))
                parts = ((value.low, value.value, value.high) for _, value in bars)
                ends.setdefault(column.unit, []).extend(end for some in parts for end in some)
    scales = {unit: svg.around(some, 136, 310) for unit, some in ends.items()}
    name, draw = metric.name.replace("_", "-"), partial(rendered, "bars.svg.jinja", metric=metric)
    return [
        svg.Panel(f"{name}-{do}", draw(do=do, blocks=own, scales=scales))
        for do, own in panels.items()
    ]
