"""Bar charts: what every setting did to every attribute under one intervention."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from fcfg.evaluation.metric_table import Metric
from fcfg.metrics import Estimate
from fcfg.reports import svg
from fcfg.reports.comparison import Comparison, Row
from fcfg.reports.measures import column_of, measured
from fcfg.reports.table import Column
from fcfg.reports.wording import named, number, with_interval

_WIDTH, _LEFT, _RIGHT = 360, 136, 50
_ROW, _BAR, _HEAD, _FOOT, _TOP = 18, 9, 28, 26, 30
_LONGEST = 19  # letters of a label


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
    for do, all_rows in comparison.rows.items():
        rows = all_rows if comparison.is_alone else comparison.picked(do)
        for column in every if do else ():
            found = [(row, measured(column, row)) for row in rows]
            bars = [(row, value) for row, value in found if isinstance(value, Estimate)]
            if bars:
                axis = f"{metric.title} ({column.unit.replace(' x ', ' × ')})"
                panels.setdefault(do, []).append(_Block(column, axis, bars))
                parts = ((value.low, value.value, value.high) for _, value in bars)
                ends.setdefault(axis, []).extend(end for some in parts for end in some)
    scales = {axis: svg.around(some, _LEFT, _WIDTH - _RIGHT) for axis, some in ends.items()}
    name = metric.name.replace("_", "-")
    return [svg.Panel(f"{name}-{do}", _panel(do, own, scales)) for do, own in panels.items()]


def _panel(do: str, blocks: Sequence[_Block], scales: dict[str, svg.Scale]) -> Markup:
    parts, words = [svg.write(8, 18, named(do), size=13, weight="600")], list[str]()
    top, following = float(_TOP), [*(block.axis for block in blocks[1:]), ""]
    for block, after in zip(blocks, following, strict=True):
        drawn, bottom = _block(block, scales[block.axis], top)
        parts.append(drawn)
        if after != block.axis:
            parts.append(_axis(scales[block.axis], block.axis, bottom))
            bottom += _FOOT + 8
        top = bottom + 6
        said = (f"{row.setting.title} {block.column.text(v.value)}" for row, v in block.bars)
        words.append(f"{block.column.attribute}: {', '.join(said)}")
    title = f"{named(do)}: {'; '.join(dict.fromkeys(block.axis for block in blocks))}"
    return svg.drawing(_WIDTH, top, title, "; ".join(words), *parts)


def _block(block: _Block, scale: svg.Scale, top: float) -> tuple[Markup, float]:
    """The bars of one attribute, and the position of their end."""
    shown, name, cell = block.bars, block.column.attribute, block.bars[0][0].cell
    bottom = top + _HEAD + len(shown) * _ROW + 4
    parts: list[Markup] = []
    if name in cell.targets:
        size = {"width": float(_WIDTH), "height": bottom - top}
        parts.append(svg.tag("rect", x=0, y=top, rx=6, fill=svg.FOCUS, **size))
    role = "should follow" if name in cell.affected else "should not change"
    role = "◎ target" if name in cell.targets else role
    title = svg.tag("tspan", name, font_weight="600", fill=svg.INK)
    about = svg.tag("tspan", role, dx=6, fill=svg.PALE, font_size=11)
    parts.append(svg.tag("text", title, about, x=8, y=top + 18))
    for tick in scale.ticks:
        x, colour = scale(tick), svg.PALE if tick == 0 else svg.RULE
        parts.append(svg.stroke(x, top + _HEAD - 2, x, bottom, colour))
    for place, (row, value) in enumerate(shown):
        y = top + _HEAD + place * _ROW + _ROW / 2
        parts.append(_bar(block.column, row, value, scale, y))
    return svg.tag("g", *parts), bottom


def _bar(column: Column, row: Row, value: Estimate, scale: svg.Scale, y: float) -> Markup:
    chosen, zero, end = row.setting, scale(0), scale(value.value)
    low, high = scale(value.low), scale(value.high)
    label = chosen.title
    if len(label) > _LONGEST:
        label = label[: _LONGEST - 1] + "…"
    look = {"fill_opacity": 1 if chosen.factored else 0.45, "stroke": chosen.colour}
    size = {"width": abs(end - zero), "height": float(_BAR)}
    shape = svg.tag(
        "g",
        svg.write(_LEFT - 10, y + 4, label, chosen.colour, anchor="end", size=11),
        svg.tag("rect", x=min(zero, end), y=y - _BAR / 2, **size, fill=chosen.colour, **look),
        svg.stroke(low, y, high, y, svg.INK, stroke_width=1.3),
        svg.stroke(low, y - 3, low, y + 3, svg.INK, stroke_width=1.3),
        svg.stroke(high, y - 3, high, y + 3, svg.INK, stroke_width=1.3),
        svg.write(_WIDTH - 8, y + 4, column.text(value.value), anchor="end", size=11),
    )
    name, numbers = column.attribute, with_interval(value, column.digits or 0, signed=True)
    return svg.described(
        shape,
        f"{named(row.cell.do)}, {chosen.title}, {name}: {numbers}",
        data_attribute=name,
        data_model=row.run.name,
        data_guidance=row.cell.guidance,
        data_value=repr(value.value),
        data_low=repr(value.low),
        data_high=repr(value.high),
    )


def _axis(scale: svg.Scale, label: str, y: float) -> Markup:
    labels = (_WIDTH - _LEFT - _RIGHT) / (6.5 * (scale.digits + 3))  # how many fit
    every = math.ceil(len(scale.ticks) / labels)
    look = {"fill": svg.PALE, "anchor": "middle"}
    ticks = [
        svg.write(scale(tick), y + 13, number(tick, scale.digits, signed=True), **look, size=10.5)
        for index, tick in enumerate(scale.ticks)
        if (index - scale.ticks.index(0.0)) % every == 0
    ]
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    return svg.tag("g", *ticks, svg.write(middle, y + 28, label, **look, size=11))
