"""Bar charts: what every setting did to every attribute under one intervention."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from markupsafe import Markup

from fcfg.evaluation.metric_table import Metric
from fcfg.metrics import Estimate
from fcfg.reports.comparison import Comparison, Row
from fcfg.reports.measures import Measure, measure
from fcfg.reports.numbers import named, number, with_interval
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


def bar_panels(comparison: Comparison, metric: Metric) -> list[Panel]:
    """One drawing for each intervention that has values, all on the same scales.

    Of one run all settings are shown, of several those that represent the models.
    """
    every = [measure(comparison, metric, name) for name in comparison.space.names]
    rows = {
        do: comparison.rows[do] if comparison.is_alone else comparison.picked(do)
        for do in comparison.dos
    }
    ends: dict[str, list[float]] = {}
    for own in every:
        for some in rows.values():
            found = [value for _, value in _values(own, some)]
            ends.setdefault(axis_label(metric, own), []).extend(
                end for value in found for end in (value.low, value.value, value.high)
            )
    scales = {label: around(some, _LEFT, _WIDTH - _RIGHT) for label, some in ends.items()}
    panels: list[Panel] = []
    for do, some in rows.items():
        shown = [own for own in every if _values(own, some)]
        if shown:
            name = f"{metric.name.replace('_', '-')}-{do}"
            panels.append(Panel(name, _panel(metric, do, shown, some, scales)))
    return panels


def axis_label(metric: Metric, own: Measure) -> str:
    """Label of an attribute's axis: the metric and its unit."""
    return f"{metric.title} ({own.column.unit.replace(' x ', ' × ')})"


def _values(own: Measure, rows: Sequence[Row]) -> list[tuple[Row, Estimate]]:
    return [(row, value) for row in rows if isinstance(value := own.get(row), Estimate)]


def _panel(
    metric: Metric,
    do: str,
    shown: Sequence[Measure],
    rows: Sequence[Row],
    scales: Mapping[str, Scale],
) -> Markup:
    labels = [axis_label(metric, own) for own in shown]
    parts, words = [write(8, 18, named(do), size=13, weight="600")], list[str]()
    top = float(_TOP)
    for own, label, following in zip(shown, labels, [*labels[1:], ""], strict=True):
        values, scale = _values(own, rows), scales[label]
        block, bottom = _block(own, values, scale, top)
        parts.append(block)
        if following != label:
            parts.append(_axis(scale, label, bottom))
            bottom += _FOOT + 8
        top = bottom + 6
        said = (f"{row.setting.title} {own.column.text(value.value)}" for row, value in values)
        words.append(f"{own.column.attribute}: {', '.join(said)}")
    title = f"{named(do)}: {'; '.join(dict.fromkeys(labels))}"
    return drawing(_WIDTH, top, title, "; ".join(words), *parts)


def _block(
    own: Measure, shown: Sequence[tuple[Row, Estimate]], scale: Scale, top: float
) -> tuple[Markup, float]:
    """The bars of one attribute, and the position of their end."""
    name, cell = own.column.attribute, shown[0][0].cell
    bottom = top + _HEAD + len(shown) * _ROW + 4
    parts: list[Markup] = []
    if name in cell.targets:
        size = {"width": float(_WIDTH), "height": bottom - top}
        parts.append(tag("rect", x=0, y=top, rx=6, fill=FOCUS, **size))
    role = "should follow" if name in cell.affected else "should not change"
    heading = (
        tag("tspan", name, font_weight="600", fill=INK),
        tag("tspan", "◎ target" if name in cell.targets else role, dx=6, fill=PALE, font_size=11),
    )
    parts.append(tag("text", *heading, x=8, y=top + 18))
    for tick in scale.ticks:
        x = scale(tick)
        parts.append(stroke(x, top + _HEAD - 2, x, bottom, PALE if tick == 0 else RULE))
    for place, (row, value) in enumerate(shown):
        y = top + _HEAD + place * _ROW + _ROW / 2
        parts.append(_bar(own, row, value, scale, y))
    return tag("g", *parts), bottom


def _bar(own: Measure, row: Row, value: Estimate, scale: Scale, y: float) -> Markup:
    name, chosen, digits = own.column.attribute, row.setting, own.column.digits or 0
    zero, end = scale(0), scale(value.value)
    low, high = scale(value.low), scale(value.high)
    label = chosen.title
    if len(label) > _LONGEST:
        label = label[: _LONGEST - 1] + "…"
    look = {"fill_opacity": 1 if chosen.factored else 0.45, "stroke": chosen.colour}
    size = {"width": abs(end - zero), "height": float(_BAR)}
    shape = tag(
        "g",
        write(_LEFT - 10, y + 4, label, chosen.colour, anchor="end", size=11),
        tag("rect", x=min(zero, end), y=y - _BAR / 2, **size, fill=chosen.colour, **look),
        stroke(low, y, high, y, INK, stroke_width=1.3),
        stroke(low, y - 3, low, y + 3, INK, stroke_width=1.3),
        stroke(high, y - 3, high, y + 3, INK, stroke_width=1.3),
        write(_WIDTH - 8, y + 4, own.column.text(value.value), anchor="end", size=11),
    )
    numbers = with_interval(value, digits, signed=True)
    return described(
        shape,
        f"{named(row.cell.do)}, {chosen.title}, {name}: {numbers}",
        data_attribute=name,
        data_model=row.run.name,
        data_guidance=row.cell.guidance,
        data_value=repr(value.value),
        data_low=repr(value.low),
        data_high=repr(value.high),
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
