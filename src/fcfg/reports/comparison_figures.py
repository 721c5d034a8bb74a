"""The figures of a comparison: target against other attributes, and pictures of all models."""

from __future__ import annotations

from fcfg.causal.attributes import Continuous
from fcfg.evaluation.metric_table import METRICS
from fcfg.evaluation.summary import Cell
from fcfg.metrics import Estimate
from fcfg.reports.comparison import Comparison
from fcfg.reports.numbers import average
from fcfg.reports.strips import Group, Pictures, Strip, read_pictures
from fcfg.reports.svg import Panel
from fcfg.reports.tradeoff import Point, draw_panels

_MOST = 6  # images in a strip


def comparison_panels(comparison: Comparison) -> list[Panel]:
    """One drawing for each intervention, with a point for each row, on shared scales.

    Numbers have a reference that all models share: the truth if all runs know it, else the real
    images, from which an AUROC rises or falls. Continuous attributes have another unit and are
    left out.

    Args:
        comparison: The runs.
    """
    space = comparison.systems[0].summary.space
    names = [name for name in space.names if not isinstance(space[name], Continuous)]
    knows_truth = all(system.summary.knows_truth for system in comparison.systems)
    metric = METRICS["factor_error" if knows_truth else "delta_real"]
    unit = "factor error, sd" if knows_truth else "AUROC × 100 to real"

    def mean(cell: Cell, chosen: tuple[str, ...]) -> Estimate | None:
        found = metric.get(cell)
        assert isinstance(found, dict)
        return average(found[name] for name in chosen if name in names and name in found)

    def points(do: str) -> list[Point]:
        means = [
            (row.setting, mean(row.cell, row.cell.targets), mean(row.cell, row.cell.invariant))
            for row in comparison.rows(do)
        ]
        return [Point(s, x, y) for s, x, y in means if x is not None and y is not None]

    every = {(do, (unit, unit)): points(do) for do in comparison.dos}
    return draw_panels(every, metric.digits)


def comparison_strips(comparison: Comparison) -> list[Strip]:
    """For each intervention the factual images, the truth, and an answer of every model.

    Args:
        comparison: The runs; those without pictures are left out.
    """
    pictures = {s.name: found for s in comparison.systems if (found := read_pictures(s.result))}
    names = [set(found.names) for found in pictures.values()]
    shown = sorted(set[str]().union(*names[:1]).intersection(*names[1:]))[:_MOST]
    kept = {name: _chosen(found, shown) for name, found in pictures.items() if shown}
    strips: list[Strip] = []
    for do in comparison.dos:
        rows = [
            (row.setting, kept[row.system.name].answers.get((do, row.cell.guidance)))
            for row in comparison.representative(do)
            if row.system.name in kept
        ]
        answers = [Group(s.label, {"": images}, s) for s, images in rows if images is not None]
        if answers:
            factual = [Group("factual", {"": own.factual}) for own in kept.values()]
            truth = [Group("truth", {"": o.truth[do]}) for o in kept.values() if do in o.truth]
            groups = (*factual[:1], *truth[:1], *answers)
            strips.append(Strip(f"counterfactuals-{do}", do, groups))
    return strips


def _chosen(pictures: Pictures, names: list[str]) -> Pictures:
    """The pictures of some images, in their order."""
    rows = [pictures.names.index(name) for name in names]
    return Pictures(
        tuple(names),
        pictures.factual[rows],
        {key: images[rows] for key, images in pictures.answers.items()},
        {},
        {do: images[rows] for do, images in pictures.truth.items()},
    )
