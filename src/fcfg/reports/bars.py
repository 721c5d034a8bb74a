"""Bar charts: what every setting did to every attribute under one intervention."""

from __future__ import annotations

from functools import partial

from fcfg.evaluation.metric_table import Metric
from fcfg.metrics import Estimate
from fcfg.reports import svg
from fcfg.reports.comparison import Comparison
from fcfg.reports.measures import Row, estimated
from fcfg.reports.table import Column
from fcfg.reports.template import rendered


def bar_panels(comparison: Comparison, metric: Metric) -> list[svg.Panel]:
    """One drawing for each intervention that has values, all on the same scales.

    Of one run all settings are shown, of several those that represent the models.
    """
    panels: dict[str, list[tuple[Column, list[tuple[Row, Estimate]]]]] = {}
    ends: dict[str, list[float]] = {}  # by unit
    for do in comparison.dos:
        measured = comparison.measured[do]
        rows = measured.rows if comparison.is_alone else comparison.picked(do)
        for column, values in measured.every.items():
            if column.metric != metric.name or not column.attribute:
                continue
            bars = [(row, value) for row in rows if (value := estimated(values[row]))]
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
