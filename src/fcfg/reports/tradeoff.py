"""Trade-off curves: how far the target moved, against what else moved with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

from markupsafe import Markup

from fcfg.evaluation.result_files import BASELINE
from fcfg.metrics import Estimate
from fcfg.reports import svg
from fcfg.reports.comparison import Comparison, Row
from fcfg.reports.measures import mean, units
from fcfg.reports.rule_styles import STYLES, Setting
from fcfg.reports.wording import named, number, with_interval

_WIDTH, _HEIGHT = 360.0, 330.0  # without the legend
_LEFT, _RIGHT, _TOP, _BOTTOM = 48.0, 10.0, 34.0, 44.0
_LINE, _LONGEST = 17.0, 46  # height and letters of a line of the legend


@dataclass(frozen=True)
class Point:
    """One setting under one intervention."""

    row: Row
    x: Estimate  #: drift of the target
    y: Estimate  #: mean drift of attributes that should not change

    @property
    def setting(self) -> Setting:
        """Its setting, with the colour and the mark of its point."""
        return self.row.setting


def tradeoff_panels(comparison: Comparison) -> list[svg.Panel]:
    """One drawing for each intervention and pair of units, on shared scales."""
    drift, panels = comparison.drift, list[svg.Panel]()
    kinds = units(comparison, drift, comparison.space.names)
    if drift.name == "delta_real":  # a difference of errors has no place on an axis
        kinds = {unit: own for unit, own in kinds.items() if unit == drift.unit}
    points = {
        (do, pair): points_of(comparison, do, *(kinds[unit] for unit in pair))
        for do in comparison.dos
        for pair in product(kinds, repeat=2)
    }
    shared: dict[tuple[str, ...], list[Point]] = {}
    for (_, pair), own in points.items():
        shared.setdefault(pair, []).extend(own)
    several = len([pair for pair, own in shared.items() if own]) > 1
    for (do, pair), own in points.items():
        if own:
            xs = [end for p in shared[pair] for end in (p.x.low, p.x.high)]
            ys = [end for p in shared[pair] for end in (p.y.low, p.y.high)]
            scales = (
                svg.around(xs, _LEFT, _WIDTH - _RIGHT),
                svg.around(ys, _HEIGHT - _BOTTOM, _TOP),
            )
            name = "-".join(["tradeoff", do, *(pair if several else ())])
            x, y = (f"{drift.title}, {unit}".replace(" x ", " × ") for unit in pair)
            panels.append(svg.Panel(name, _Chart(do, own, x, y, drift.digits, *scales).svg()))
    return panels


def points_of(
    comparison: Comparison, do: str, targets: Sequence[str], rest: Sequence[str]
) -> list[Point]:
    """The points of one intervention: targets give x, what should not change y."""
    points: list[Point] = []
    for row in comparison.rows[do]:
        x = mean(comparison.drift, row, [n for n in row.cell.targets if n in targets])
        y = mean(comparison.drift, row, [n for n in row.cell.invariant if n in rest])
        if isinstance(x, Estimate) and isinstance(y, Estimate):
            points.append(Point(row, x, y))
    return points


def lines(points: Sequence[Point]) -> list[list[Point]]:
    """Points to join: those of one model and family that differ in one weight, in its order."""
    families: dict[tuple[str, str], list[Point]] = {}
    for point in points:
        families.setdefault((point.setting.model, point.setting.family), []).append(point)
    models, known = list(dict.fromkeys(model for model, _ in families)), list(STYLES)
    known += [family for _, family in families if family not in STYLES]
    joined: list[list[Point]] = []
    for own in sorted(families, key=lambda own: (models.index(own[0]), known.index(own[1]))):
        weights = {point: dict(point.setting.weights) for point in families[own]}
        names = sorted({name for some in weights.values() for name in some})
        values = {name: {some.get(name, 0.0) for some in weights.values()} for name in names}
        along = max(names, key=lambda name: len(values[name]), default="")
        groups: dict[tuple[object, ...], list[Point]] = {}
        for point in weights:
            others = tuple(pair for pair in point.setting.weights if pair[0] != along)
            groups.setdefault((others, point.setting.options), []).append(point)
        sizes = {point: some.get(along, 0.0) for point, some in weights.items()}
        joined += [sorted(group, key=sizes.__getitem__) for group in groups.values()]
    return joined


@dataclass(frozen=True)
class _Chart:
    do: str
    points: list[Point]
    target: str  #: metric and unit of the target
    rest: str
    digits: int
    across: svg.Scale
    up: svg.Scale

    def svg(self) -> Markup:
        joined = lines(self.points)
        words = "; ".join(
            f"{p.setting.title}: target {number(p.x.value, self.digits, signed=True)}, "
            f"off target {number(p.y.value, self.digits, signed=True)}"
            for p in self.points
        )
        rest = f"attributes that should not change ({self.rest})"
        title = f"{named(self.do)}: target ({self.target}) against {rest}"
        parts = [self._frame(), *map(self._line, joined), *map(self._point, self.points)]
        parts += [self._legend(line, row) for row, line in enumerate(joined)]
        return svg.drawing(_WIDTH, _HEIGHT + _LINE * len(joined), title, words, *parts)

    def _frame(self) -> Markup:
        bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
        parts = [svg.write(8, 18, named(self.do), size=13, weight="600")]
        for tick in self.across.ticks:
            x, text = self.across(tick), number(tick, self.across.digits, signed=True)
            parts.append(svg.stroke(x, _TOP, x, bottom, svg.RULE))
            parts.append(svg.write(x, bottom + 15, text, svg.PALE, anchor="middle", size=10.5))
        parts += svg.levels(
            self.up, _LEFT, right, partial(number, digits=self.up.digits, signed=True)
        )
        target, rest = f"target, {self.target} →", f"↑ off target, mean, {self.rest}"
        parts.append(svg.write(right, bottom + 33, target, svg.PALE, anchor="end", size=11))
        parts.append(svg.write(right, 18, rest, svg.PALE, anchor="end", size=11))
        return svg.tag("g", *parts)

    def _position(self, point: Point) -> tuple[float, float]:
        return self.across(point.x.value), self.up(point.y.value)

    def _line(self, line: list[Point]) -> Markup:
        """A line through the points, dotted from the point without guidance to the first."""
        path = " ".join("{:.1f},{:.1f}".format(*self._position(point)) for point in line)
        colour, parts = line[0].setting.colour, list[Markup]()
        plain = (line[0].setting.model, BASELINE)
        for origin in (p for p in self.points if (p.setting.model, p.setting.family) == plain):
            ends = (*self._position(origin), *self._position(line[0]))
            parts.append(svg.stroke(*ends, colour, stroke_dasharray="2 4", stroke_opacity=0.7))
        if len(line) > 1:
            look = {"fill": "none", "stroke": colour, "stroke_width": 1.8}
            parts.append(svg.tag("polyline", points=path, **look))
        return svg.tag("g", *parts)

    def _point(self, point: Point) -> Markup:
        x, y = self._position(point)
        across = [self.across(end) for end in (point.x.low, point.x.high)]
        up = [self.up(end) for end in (point.y.low, point.y.high)]
        colour, faint = point.setting.colour, {"stroke_opacity": 0.55}
        shape = svg.tag(
            "g",
            svg.stroke(across[0], y, across[1], y, colour, **faint),
            svg.stroke(x, up[0], x, up[1], colour, **faint),
            svg.mark(point.setting, x, y),
        )
        target, rest = (with_interval(e, self.digits, signed=True) for e in (point.x, point.y))
        return svg.described(
            shape,
            f"{named(self.do)}, {point.setting.title}: target {target}, off target {rest}",
            data_guidance=point.row.cell.guidance,
            data_model=point.row.run.name,
            data_x=repr(point.x.value),
            data_y=repr(point.y.value),
        )

    def _legend(self, line: list[Point], row: int) -> Markup:
        """The settings of a line, in order; the first and the last if they are many."""
        first, y = line[0].setting, _HEIGHT + _LINE * row + 6
        others = [point.setting.numbers for point in line[1:]]
        text = " → ".join([first.title, *others])
        if len(text) > _LONGEST:
            text = " → … → ".join([first.title, *others[-1:]])
        if len(text) > _LONGEST and first.model:
            text = "…" + text[1 - _LONGEST :]  # the colour tells the model as well
        words = svg.write(_LEFT + 12, y + 4, text, first.colour)
        return svg.tag("g", svg.mark(first, _LEFT, y), words)
