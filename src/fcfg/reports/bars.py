"""Bars: for one intervention, what every setting did to every attribute, with intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from fcfg.causal.attributes import Continuous
from fcfg.evaluation.result_files import BASELINE
from fcfg.evaluation.summary import Cell, Summary
from fcfg.metrics import Estimate
from fcfg.reports.axes import (
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
    write,
)
from fcfg.reports.html import Markup, tag
from fcfg.reports.numbers import named, number, with_interval
from fcfg.reports.rule_styles import Setting, setting

_WIDTH, _LEFT, _RIGHT = 360, 136, 50
_ROW, _BAR, _HEAD, _FOOT, _TOP = 18, 9, 28, 26, 30


@dataclass(frozen=True)
class Measure:
    """Something that every cell has for every attribute."""

    name: str  #: of the field of a cell
    discrete: str  #: the unit of binary and categorical attributes
    continuous: str  #: the unit of continuous ones; {name} is the attribute's
    digits: int
    baseline: bool = False  #: whether the unguided setting has one that is not 0

    def of(self, cell: Cell) -> Mapping[str, Estimate]:
        """For every attribute that was measured."""
        return getattr(cell, self.name)

    def unit(self, summary: Summary, attribute: str) -> str:
        """What an attribute's bars are measured in."""
        if isinstance(summary.space[attribute], Continuous):
            return self.continuous.format(name=attribute)
        return self.discrete


DELTA = Measure("delta", "Δ AUROC × 100", "Δ mean absolute error of {name}", 1)
SHIFT = Measure("shift", "shift of the judge's probability", "shift of {name}, sd", 2)
FACTOR = Measure("factor_error", "factor error, sd", "factor error, sd", 2, baseline=True)


def bar_panels(summary: Summary, measure: Measure) -> list[Panel]:
    """One drawing for each intervention, all on the same scales; none without numbers.

    Args:
        summary: Of a run.
        measure: What the bars show.
    """
    panels: list[Panel] = []
    for do in summary.dos:
        cells = [
            cell
            for cell in summary.cells.values()
            if cell.do == do and (measure.baseline or cell.guidance != BASELINE)
        ]
        if any(measure.of(cell) for cell in cells):
            name = f"{measure.name.replace('_', '-')}-{do}"
            panels.append(Panel(name, _panel(summary, measure, do, cells)))
    return panels


def _panel(summary: Summary, measure: Measure, do: str, cells: list[Cell]) -> Markup:
    names = [
        name for name in summary.space.names if any(name in measure.of(cell) for cell in cells)
    ]
    parts = [write(8, 18, named(do), size=13, weight="600")]
    top = float(_TOP)
    for number_, name in enumerate(names):
        scale = _scale(summary, measure, name)
        block, bottom = _block(measure, cells, name, scale, top)
        parts.append(block)
        is_last = number_ + 1 == len(names)
        unit = measure.unit(summary, name)
        if is_last or measure.unit(summary, names[number_ + 1]) != unit:
            parts.append(_axis(scale, unit, bottom))
            bottom += _FOOT + 8
        top = bottom + 6
    units = dict.fromkeys(measure.unit(summary, name) for name in names)
    title = f"{named(do)}: {'; '.join(units)}"
    words = "; ".join(
        f"{setting(cell.guidance).label}: "
        + ", ".join(
            f"{name} {number(measure.of(cell)[name].value, measure.digits, signed=True)}"
            for name in names
            if name in measure.of(cell)
        )
        for cell in cells
    )
    return drawing(_WIDTH, top, title, words, parts)


def _scale(summary: Summary, measure: Measure, attribute: str) -> Scale:
    """The same for every intervention, and for every attribute with the same unit."""
    unit = measure.unit(summary, attribute)
    ends = [
        end
        for cell in summary.cells.values()
        for name, estimate in measure.of(cell).items()
        if measure.unit(summary, name) == unit
        for end in (estimate.low, estimate.value, estimate.high)
    ]
    return around(ends, _LEFT, _WIDTH - _RIGHT)


def _block(
    measure: Measure, cells: list[Cell], name: str, scale: Scale, top: float
) -> tuple[Markup, float]:
    """The bars of one attribute, and where they end."""
    shown = [cell for cell in cells if name in measure.of(cell)]
    bottom = top + _HEAD + len(shown) * _ROW + 4
    role = (
        "target"
        if name in cells[0].targets
        else "should follow"
        if name in cells[0].affected
        else "should stay put"
    )
    is_target = role == "target"
    parts: list[Markup] = []
    if is_target:
        size = {"width": float(_WIDTH), "height": bottom - top}
        parts.append(tag("rect", x=0, y=top, rx=6, fill=FOCUS, **size))
    heading = tag(
        "text",
        tag("tspan", name, font_weight="600", fill=INK),
        tag("tspan", f"{'◎ ' if is_target else ''}{role}", dx=6, fill=PALE, font_size=11),
        x=8,
        y=top + 18,
    )
    parts.append(heading)
    for tick in scale.ticks:
        x = scale(tick)
        parts.append(stroke(x, top + _HEAD - 2, x, bottom, PALE if tick == 0 else RULE))
    for row, cell in enumerate(shown):
        y = top + _HEAD + row * _ROW + _ROW / 2
        parts.append(_bar(measure, cell, name, scale, y))
    return tag("g", *parts), bottom


def _bar(measure: Measure, cell: Cell, name: str, scale: Scale, y: float) -> Markup:
    estimate, chosen = measure.of(cell)[name], setting(cell.guidance)
    zero, end = scale(0), scale(estimate.value)
    low, high = scale(estimate.low), scale(estimate.high)
    look = {
        "fill": chosen.colour,
        "fill_opacity": 1 if chosen.factored else 0.45,
        "stroke": chosen.colour,
    }
    shape = (
        tag(
            "rect",
            x=min(zero, end),
            y=y - _BAR / 2,
            width=abs(end - zero),
            height=float(_BAR),
            class_="bar",
            **look,
        ),
        stroke(low, y, high, y, INK, stroke_width=1.3),
        stroke(low, y - 3, low, y + 3, INK, stroke_width=1.3),
        stroke(high, y - 3, high, y + 3, INK, stroke_width=1.3),
    )
    value = number(estimate.value, measure.digits, signed=True)
    words = f"{named(cell.do)}, {chosen.label}, {name}: "
    words += with_interval(estimate, measure.digits, signed=True)
    return described(
        tag(
            "g",
            _label(chosen, y),
            *shape,
            write(_WIDTH - 8, y + 4, value, anchor="end", size=11),
        ),
        words,
        data_attribute=name,
        data_guidance=cell.guidance,
        data_value=repr(estimate.value),
        data_low=repr(estimate.low),
        data_high=repr(estimate.high),
    )


def _label(chosen: Setting, y: float) -> Markup:
    """The name of a setting, in the colour of its family; shortened where it is long."""
    text = chosen.label if len(chosen.label) <= 19 else chosen.label[:18] + "…"
    return write(_LEFT - 10, y + 4, text, fill=chosen.colour, anchor="end", size=11)


def _axis(scale: Scale, unit: str, y: float) -> Markup:
    room = (_WIDTH - _LEFT - _RIGHT) / (6.5 * (scale.digits + 3))  # labels that have room
    zero = scale.ticks.index(0.0)
    every = math.ceil(len(scale.ticks) / room)
    ticks = [
        write(
            scale(tick),
            y + 13,
            number(tick, scale.digits, signed=True),
            fill=PALE,
            anchor="middle",
            size=10.5,
        )
        for place, tick in enumerate(scale.ticks)
        if (place - zero) % every == 0
    ]
    return tag(
        "g",
        *ticks,
        write((_LEFT + _WIDTH - _RIGHT) / 2, y + 28, unit, fill=PALE, anchor="middle", size=11),
    )
