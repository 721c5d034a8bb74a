"""Bar charts: what every setting did to every attribute under one intervention."""

from __future__ import annotations

import math

from markupsafe import Markup

from fcfg.evaluation.metric_table import Metric
from fcfg.evaluation.result_files import BASELINE
from fcfg.evaluation.summary import Cell, Estimates, Summary
from fcfg.reports.numbers import named, number, with_interval
from fcfg.reports.rule_styles import setting
from fcfg.reports.svg import (
    FOCUS,
    INK,
    PALE,
    RULE,
    Panel,
    Scale,
    around,
    described,
    drawing,
    stroke,
    tag,
    write,
)

_WIDTH, _LEFT, _RIGHT = 360, 136, 50
_ROW, _BAR, _HEAD, _FOOT, _TOP = 18, 9, 28, 26, 30
_LONGEST = 19  # letters of a label


def bar_panels(summary: Summary, metric: Metric) -> list[Panel]:
    """One drawing for each intervention that has values, all on the same scales.

    Args:
        summary: Summary of a run.
        metric: A metric of attributes.
    """
    panels: list[Panel] = []
    for do in summary.dos:
        cells = {  # without guidance, a difference from no guidance is 0
            cell: values
            for cell in summary.cells_of(do)
            if (values := _values(metric, cell))
            and (metric.name == "factor_error" or cell.guidance != BASELINE)
        }
        if cells:
            name = f"{metric.name.replace('_', '-')}-{do}"
            panels.append(Panel(name, _panel(summary, metric, do, cells)))
    return panels


def axis_label(summary: Summary, metric: Metric, attribute: str) -> str:
    """Label of an attribute's axis: the metric and its unit."""
    unit = metric.unit_of(summary, attribute) or ""
    return f"{metric.title} ({unit.replace(' x ', ' × ')})"


def _values(metric: Metric, cell: Cell) -> Estimates:
    values = metric.get(cell)
    assert isinstance(values, dict)
    return values


def _panel(summary: Summary, metric: Metric, do: str, cells: dict[Cell, Estimates]) -> Markup:
    names = [n for n in summary.space.names if any(n in values for values in cells.values())]
    labels = [axis_label(summary, metric, name) for name in names]
    own = {name: metric.in_unit(metric.unit_of(summary, name)) for name in names}
    parts = [write(8, 18, named(do), size=13, weight="600")]
    top = float(_TOP)
    for name, label, following in zip(names, labels, [*labels[1:], ""], strict=True):
        scale = _scale(summary, metric, label)
        block, bottom = _block(own[name], cells, name, scale, top)
        parts.append(block)
        if following != label:
            parts.append(_axis(scale, label, bottom))
            bottom += _FOOT + 8
        top = bottom + 6
    words = "; ".join(
        f"{setting(cell.guidance).label}: "
        + ", ".join(
            f"{name} {number(values[name].value, own[name].digits, signed=True)}"
            for name in names
            if name in values
        )
        for cell, values in cells.items()
    )
    title = f"{named(do)}: {'; '.join(dict.fromkeys(labels))}"
    return drawing(_WIDTH, top, title, words, *parts)


def _scale(summary: Summary, metric: Metric, label: str) -> Scale:
    """The scale of all bars with one label, under every intervention."""
    ends = [
        end
        for cell in summary.cells.values()
        for name, estimate in _values(metric, cell).items()
        if axis_label(summary, metric, name) == label
        for end in (estimate.low, estimate.value, estimate.high)
    ]
    return around(ends, _LEFT, _WIDTH - _RIGHT)


def _block(
    metric: Metric, cells: dict[Cell, Estimates], name: str, scale: Scale, top: float
) -> tuple[Markup, float]:
    """The bars of one attribute, and the position of their end."""
    shown = [cell for cell, values in cells.items() if name in values]
    bottom = top + _HEAD + len(shown) * _ROW + 4
    is_target = name in shown[0].targets
    parts: list[Markup] = []
    if is_target:
        size = {"width": float(_WIDTH), "height": bottom - top}
        parts.append(tag("rect", x=0, y=top, rx=6, fill=FOCUS, **size))
    role = "should follow" if name in shown[0].affected else "should not change"
    caption = "◎ target" if is_target else role
    heading = (
        tag("tspan", name, font_weight="600", fill=INK),
        tag("tspan", caption, dx=6, fill=PALE, font_size=11),
    )
    parts.append(tag("text", *heading, x=8, y=top + 18))
    for tick in scale.ticks:
        x = scale(tick)
        parts.append(stroke(x, top + _HEAD - 2, x, bottom, PALE if tick == 0 else RULE))
    for row, cell in enumerate(shown):
        y = top + _HEAD + row * _ROW + _ROW / 2
        parts.append(_bar(metric, cell, name, scale, y))
    return tag("g", *parts), bottom


def _bar(metric: Metric, cell: Cell, name: str, scale: Scale, y: float) -> Markup:
    estimate, chosen = _values(metric, cell)[name], setting(cell.guidance)
    zero, end = scale(0), scale(estimate.value)
    low, high = scale(estimate.low), scale(estimate.high)
    label = chosen.label
    if len(label) > _LONGEST:
        label = label[: _LONGEST - 1] + "…"
    look = {"fill_opacity": 1 if chosen.factored else 0.45, "stroke": chosen.colour}
    size = {"width": abs(end - zero), "height": float(_BAR)}
    value = number(estimate.value, metric.digits, signed=True)
    shape = tag(
        "g",
        write(_LEFT - 10, y + 4, label, chosen.colour, anchor="end", size=11),
        tag("rect", x=min(zero, end), y=y - _BAR / 2, **size, fill=chosen.colour, **look),
        stroke(low, y, high, y, INK, stroke_width=1.3),
        stroke(low, y - 3, low, y + 3, INK, stroke_width=1.3),
        stroke(high, y - 3, high, y + 3, INK, stroke_width=1.3),
        write(_WIDTH - 8, y + 4, value, anchor="end", size=11),
    )
    numbers = with_interval(estimate, metric.digits, signed=True)
    return described(
        shape,
        f"{named(cell.do)}, {chosen.label}, {name}: {numbers}",
        data_attribute=name,
        data_guidance=cell.guidance,
        data_value=repr(estimate.value),
        data_low=repr(estimate.low),
        data_high=repr(estimate.high),
    )


def _axis(scale: Scale, label: str, y: float) -> Markup:
    labels = (_WIDTH - _LEFT - _RIGHT) / (6.5 * (scale.digits + 3))  # how many fit
    every = math.ceil(len(scale.ticks) / labels)
    zero = scale.ticks.index(0.0)
    ticks = [
        write(
            *(scale(tick), y + 13, number(tick, scale.digits, signed=True), PALE),
            anchor="middle",
            size=10.5,
        )
        for index, tick in enumerate(scale.ticks)
        if (index - zero) % every == 0
    ]
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    return tag("g", *ticks, write(middle, y + 28, label, PALE, anchor="middle", size=11))
