"""Curves: how far the target moved, against what else moved with it."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise

from fcfg.evaluation.summary import Cell, Summary
from fcfg.metrics import Estimate
from fcfg.reports.axes import (
    INK,
    PALE,
    RULE,
    Panel,
    Scale,
    around,
    described,
    drawing,
    mark,
    stroke,
    write,
)
from fcfg.reports.html import Markup, tag
from fcfg.reports.numbers import drift_units, named, number, off_target, on_target, with_interval
from fcfg.reports.rule_styles import FAMILIES, Setting, setting

_WIDTH, _HEIGHT = 360.0, 330.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 48.0, 10.0, 34.0, 44.0
_LETTER, _LINE = 5.9, 13.0  # about the size of a letter


@dataclass(frozen=True)
class Point:
    """One setting of one intervention."""

    setting: Setting
    x: Estimate  #: drift of the target
    y: Estimate  #: mean drift of what should stay put


def tradeoff_panels(summary: Summary) -> list[Panel]:
    """One drawing for each intervention that leaves something to stay put, on the same scales.

    Args:
        summary: Of a run.
    """
    names = drift_units(summary)
    pairs = [(x, y) for x in names for y in names]
    points = {
        (do, units): points_of(summary, do, names[units[0]], names[units[1]])
        for do in summary.dos
        for units in pairs
    }
    scales = {
        units: _scales([p for (_, u), some in points.items() if u == units for p in some])
        for units in pairs
    }
    return [
        Panel(
            "-".join(["tradeoff", do, *(units if len(pairs) > 1 else ())]),
            _panel(do, some, units, *scales[units]),
        )
        for (do, units), some in points.items()
        if some
    ]


def _scales(points: Sequence[Point]) -> tuple[Scale, Scale]:
    """Of the target and of the rest, for all panels of their units."""
    x = [end for p in points for end in (p.x.low, p.x.high)]
    y = [end for p in points for end in (p.y.low, p.y.high)]
    return around(x, _LEFT, _WIDTH - _RIGHT), around(y, _HEIGHT - _BOTTOM, _TOP)


def points_of(
    summary: Summary, do: str, targets: Collection[str], rest: Collection[str]
) -> list[Point]:
    """The points of one intervention, in the order of the run.

    Args:
        summary: Of a run.
        do: The intervention.
        targets: Attributes of one unit, of which targets count.
        rest: Attributes of one unit, of which those that should stay put count.
    """
    cells: list[Cell] = [cell for cell in summary.cells.values() if cell.do == do]
    measured = [
        (setting(cell.guidance), on_target([cell], targets), off_target([cell], rest))
        for cell in cells
    ]
    return [Point(s, x, y) for s, x, y in measured if x is not None and y is not None]


def lines(points: Sequence[Point]) -> list[list[Point]]:
    """Points to join: of one family, along the weight that takes most values.

    Args:
        points: Of one intervention.
    """
    joined: list[list[Point]] = []
    for family in dict.fromkeys([*FAMILIES, *(point.setting.family for point in points)]):
        some = [point for point in points if point.setting.family == family]
        names = sorted({name for point in some for name, _ in point.setting.weights})
        values = {name: {dict(p.setting.weights).get(name, 0.0) for p in some} for name in names}
        along = max(names, key=lambda name: len(values[name]), default="")
        groups: dict[tuple[object, ...], list[Point]] = {}
        for point in some:
            others = tuple(pair for pair in point.setting.weights if pair[0] != along)
            groups.setdefault((others, point.setting.options), []).append(point)
        joined += [
            sorted(group, key=lambda p: dict(p.setting.weights).get(along, 0.0))
            for group in groups.values()
        ]
    return joined


def _panel(
    do: str, points: list[Point], units: tuple[str, str], across: Scale, up: Scale
) -> Markup:
    title = f"{named(do)}: target ({units[0]}) against what should stay put ({units[1]})"
    words = "; ".join(
        f"{p.setting.label}: target {number(p.x.value, 2, signed=True)}, "
        f"off target {number(p.y.value, 2, signed=True)}"
        for p in points
    )
    parts: list[object] = [
        _frame(units, across, up),
        write(8, 18, named(do), size=13, weight="600"),
    ]
    origin = next((p for p in points if p.setting.family == "none"), None)
    for line in lines(points):
        parts.append(_line(line, origin, across, up))
    parts += [_point(do, point, across, up) for point in points]
    parts += _labels(points, across, up)
    return drawing(_WIDTH, _HEIGHT, title, words, parts)


def _frame(units: tuple[str, str], across: Scale, up: Scale) -> Markup:
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    parts: list[Markup] = []
    for tick in across.ticks:
        x, text = across(tick), number(tick, across.digits, signed=True)
        parts.append(stroke(x, _TOP, x, bottom, RULE))
        parts.append(write(x, bottom + 15, text, fill=PALE, anchor="middle", size=10.5))
    for tick in up.ticks:
        y, text = up(tick), number(tick, up.digits, signed=True)
        parts.append(stroke(_LEFT, y, right, y, PALE if tick == 0 else RULE))
        parts.append(write(_LEFT - 7, y + 4, text, fill=PALE, anchor="end", size=10.5))
    target, rest = f"target, {units[0]} →", f"↑ off target, mean, {units[1]}"
    parts.append(write(right, bottom + 33, target, fill=PALE, anchor="end", size=11))
    parts.append(write(right, 18, rest, fill=PALE, anchor="end", size=11))
    return tag("g", *parts)


def _line(line: list[Point], origin: Point | None, across: Scale, up: Scale) -> Markup:
    """Through the points, and faintly from where no guidance is."""
    places = [(across(p.x.value), up(p.y.value)) for p in line]
    colour, parts = line[0].setting.colour, list[Markup]()
    if origin is not None and line[0].setting.family != "none":
        x, y = across(origin.x.value), up(origin.y.value)
        look = {"stroke_dasharray": "2 4", "stroke_opacity": 0.7}
        parts.append(stroke(x, y, *places[0], colour, **look))
    if len(places) > 1:
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        look = {"fill": "none", "stroke": colour, "stroke_width": 1.8}
        parts.append(tag("polyline", points=path, **look))
    return tag("g", *parts)


def _point(do: str, point: Point, across: Scale, up: Scale) -> Markup:
    x, y = across(point.x.value), up(point.y.value)
    faint = {"stroke_opacity": 0.55}
    shape = tag(
        "g",
        stroke(across(point.x.low), y, across(point.x.high), y, point.setting.colour, **faint),
        stroke(x, up(point.y.low), x, up(point.y.high), point.setting.colour, **faint),
        mark(point.setting, x, y),
    )
    target, rest = (with_interval(e, 2, signed=True) for e in (point.x, point.y))
    return described(
        shape,
        f"{named(do)}, {point.setting.label}: target {target}, off target {rest}",
        data_guidance=point.setting.text,
        data_x=repr(point.x.value),
        data_y=repr(point.y.value),
    )


@dataclass(frozen=True)
class _Box:
    left: float
    top: float
    right: float
    bottom: float

    def overlap(self, other: _Box) -> float:
        wide = min(self.right, other.right) - max(self.left, other.left)
        high = min(self.bottom, other.bottom) - max(self.top, other.top)
        return max(wide, 0.0) * max(high, 0.0)

    def distance(self, x: float, y: float) -> float:
        across = max(self.left - x, x - self.right, 0.0)
        return math.hypot(across, max(self.top - y, y - self.bottom, 0.0))


def _labels(points: list[Point], across: Scale, up: Scale) -> list[Markup]:
    """A name beside every point, where it covers least; the last of a line has its family's."""
    last = {line[-1].setting.text for line in lines(points)}
    taken = [_Box(*_square(across(p.x.value), up(p.y.value), 6)) for p in points]
    faint = [_Box(*_square(x, y, 2)) for x, y in _ink(points, across, up)]
    inside = _Box(_LEFT, _TOP - 10, _WIDTH, _HEIGHT - _BOTTOM)
    labels: list[Markup] = []
    for point in points:
        is_last = point.setting.text in last
        text = point.setting.label if is_last else point.setting.numbers
        x, y = across(point.x.value), up(point.y.value)
        wide = len(text) * _LETTER
        box, anchor = min(
            _places(x, y, wide),
            key=lambda place: (
                sum(place[0].overlap(other) for other in (*taken, *faint))
                + 3 * (wide * _LINE - place[0].overlap(inside))
                + 3 * place[0].distance(x, y)
            ),
        )
        taken.append(box)
        place = {"start": box.left, "end": box.right, "middle": (box.left + box.right) / 2}[anchor]
        labels.append(
            write(
                place,
                box.bottom - 3,
                text,
                fill=point.setting.colour if is_last else INK,
                anchor=anchor,
                size=10.5,
                weight="600" if is_last else None,
                halo=True,
            )
        )
    return labels


def _ink(points: list[Point], across: Scale, up: Scale) -> list[tuple[float, float]]:
    """Places on lines, where a label is hard to read: the axis, and those between points."""
    origin = [p for p in points if p.setting.family == "none"][:1]
    ends = [((_LEFT, up(0)), (_WIDTH - _RIGHT, up(0)))]
    for line in lines(points):
        places = [(across(p.x.value), up(p.y.value)) for p in (*origin, *line)]
        ends += list(pairwise(places))
    return [
        (x0 + share / 40 * (x1 - x0), y0 + share / 40 * (y1 - y0))
        for (x0, y0), (x1, y1) in ends
        for share in range(41)
    ]


def _square(x: float, y: float, half: float) -> tuple[float, float, float, float]:
    return x - half, y - half, x + half, y + half


def _places(x: float, y: float, wide: float) -> list[tuple[_Box, str]]:
    """Where a label may stand, the best first."""
    found: list[tuple[_Box, str]] = []
    for gap in (9.0, 18.0, 30.0):
        for dy in (0.0, -gap, gap):
            top = y + dy - _LINE / 2
            found.append((_Box(x + gap, top, x + gap + wide, top + _LINE), "start"))
            found.append((_Box(x - gap - wide, top, x - gap, top + _LINE), "end"))
        for top in (y - gap - _LINE, y + gap):
            found.append((_Box(x - wide / 2, top, x + wide / 2, top + _LINE), "middle"))
    return found
