"""Charts: how far every attribute moved, and the target against what else moved with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

from fcfg.evaluation.metric_table import Metric
from fcfg.metrics import Estimate
from fcfg.reports.comparison import Comparison
from fcfg.reports.measures import Row, estimated
from fcfg.reports.rule_styles import STYLES, Setting
from fcfg.reports.svg import Panel, around
from fcfg.reports.table import Column
from fcfg.reports.template import rendered


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


def tradeoff_panels(comparison: Comparison) -> list[Panel]:
    """One drawing for each intervention and pair of units, on shared scales."""
    drift, panels, known = comparison.drift, list[Panel](), charts(comparison)
    several = len({units for _, units in known}) > 1
    for (do, units), points in known.items():
        same = [p for (_, own), some in known.items() if own == units for p in some]
        target, rest = (f"{drift.title}, {unit}".replace(" x ", " × ") for unit in units)
        drawing = rendered(
            "tradeoff.svg.jinja",
            do=do,
            points=points,
            joined=lines(points),
            target=target,
            rest=rest,
            digits=drift.digits,
            across=around([end for p in same for end in (p.x.low, p.x.high)], 48, 350),
            up=around([end for p in same for end in (p.y.low, p.y.high)], 286, 34),
        )
        panels.append(Panel("-".join(["tradeoff", do, *(units if several else ())]), drawing))
    return panels


def charts(comparison: Comparison) -> dict[tuple[str, tuple[str, str]], list[Point]]:
    """The points of each intervention and pair of units: of targets, and of what should stay."""
    drift, found = comparison.drift, dict[tuple[str, tuple[str, str]], list[Point]]()
    for do in comparison.dos:
        measured = comparison.measured[do]
        for (x, targets), (y, rest) in product(measured.reach.items(), measured.rest.items()):
            if drift.name == "delta_real" and not x.unit == y.unit == drift.unit:
                continue  # a difference of errors has no place on an axis
            for row in measured.drawn:
                target, other = estimated(targets[row]), estimated(rest[row])
                if target and other:
                    found.setdefault((do, (x.unit, y.unit)), []).append(Point(row, target, other))
    return found


def lines(points: Sequence[Point]) -> list[list[Point]]:
    """Points to join: those of one model and family that differ in one weight, in its order."""
    families: dict[tuple[str, str], list[Point]] = {}
    for point in points:
        families.setdefault((point.setting.model, point.setting.family), []).append(point)
    models, known = ([*own] for own in zip(*families, strict=True))
    known, joined = [*STYLES, *known], list[list[Point]]()
    for own in sorted(families, key=lambda own: (models.index(own[0]), known.index(own[1]))):
        weights = {point: dict(point.setting.weights) for point in families[own]}
        names = sorted({name for some in weights.values() for name in some})
        values = {name: {some.get(name, 0.0) for some in weights.values()} for name in names}
        along = max(names, key=lambda name: len(values[name]), default="")
        groups: dict[tuple[object, ...], list[Point]] = {}
        for point in weights:
            others = tuple(pair for pair in point.setting.weights if pair[0] != along)
            own = (others, point.setting.options, point.setting.sampling)
            groups.setdefault(own, []).append(point)
        sizes = {point: some.get(along, 0.0) for point, some in weights.items()}
        joined += [sorted(group, key=sizes.__getitem__) for group in groups.values()]
    return joined


def bar_panels(comparison: Comparison, metric: Metric) -> list[Panel]:
    """One drawing for each intervention that has values, all on the same scales.

    Of one run all settings are shown, of several those that represent the models.
    """
    panels: dict[str, list[tuple[Column, list[tuple[Row, Estimate]]]]] = {}
    ends: dict[str, list[float]] = {}  # by unit
    for do in comparison.dos:
        measured = comparison.measured[do]
        rows = measured.drawn if comparison.is_alone else comparison.picked(do)
        for column, values in measured.every.items():
            if column.metric != metric.name or not column.attribute:
                continue
            bars = [(row, value) for row in rows if (value := estimated(values[row]))]
            if bars:
                panels.setdefault(do, []).append((column, bars))
                parts = ((value.low, value.value, value.high) for _, value in bars)
                ends.setdefault(column.unit, []).extend(end for some in parts for end in some)
    scales = {unit: around(some, 136, 310) for unit, some in ends.items()}
    name, draw = metric.name.replace("_", "-"), partial(rendered, "bars.svg.jinja", metric=metric)
    return [
        Panel(f"{name}-{do}", draw(do=do, blocks=own, scales=scales)) for do, own in panels.items()
    ]
