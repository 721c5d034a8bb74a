"""Sentences that state which model is best at what, derived from the numbers alone."""

from __future__ import annotations

from collections.abc import Iterator

from fcfg.metrics import Estimate
from fcfg.reports.comparison import Comparison
from fcfg.reports.comparison_columns import Column, columns
from fcfg.reports.numbers import average, listed, named, number, precise
from fcfg.reports.verdict import failures


def comparison_reading(comparison: Comparison) -> list[str]:
    """Which model is best at what, each at its default or strongest setting.

    Numbers are means over the interventions that all models have. A model is called best, or
    behind, only if the interval of its paired difference excludes 0.

    Args:
        comparison: The runs.
    """
    count = len(comparison.systems)
    dos = [do for do in comparison.dos if len(comparison.representative(do)) == count]
    failed = [f"{s.name}: {line}" for s in comparison.systems for line in failures(s.summary)]
    if not dos:
        return [*failed, "No intervention was run by all models, so none is called best."]
    aims: dict[str, list[tuple[str, Column]]] = {}
    for do in dos:
        for column in columns(comparison, do):
            if column.aim:
                aims.setdefault(column.aim, []).append((do, column))
    sentences = [_sentence(comparison, aim, found) for aim, found in aims.items()]
    return [*failed, _settings(comparison, dos), *filter(None, sentences)]


def _settings(comparison: Comparison, dos: list[str]) -> str:
    """Which settings are compared, and under which interventions."""
    labels: dict[str, dict[str, None]] = {}
    for do in dos:
        for row in comparison.representative(do):
            labels.setdefault(row.system.name, {})[row.label] = None
    models = listed(f"{name} with {listed(own, 'or')}" for name, own in labels.items())
    return (
        f"Each model at its default, or at its strongest setting ({models}), on the same "
        f"{comparison.n:,} images, under {listed(map(named, dos))}:"
    )


def _sentence(comparison: Comparison, aim: str, found: list[tuple[str, Column]]) -> str:
    """The outcome for one aim; "" unless at least two models have the number."""
    sizes: dict[str, list[Estimate]] = {}
    for do, column in found:
        for row in comparison.representative(do):
            size = column.size(row)
            if size is not None:
                sizes.setdefault(row.system.name, []).append(size)
    means = {
        name: mean
        for name, own in sizes.items()
        if len(own) == len(found) and (mean := average(own)) is not None
    }
    if len(means) < 2:
        return ""
    column = found[0][1]
    sign = -1 if column.arrow == "↑" else 1
    first, *others = sorted(means, key=lambda name: (sign * means[name].value, name))
    digits = column.metric.digits
    values = {name: f"{name} at {number(mean.value, digits)}" for name, mean in means.items()}
    gaps = {name: (means[name] - means[first]).scaled(sign) for name in others}
    level = [name for name in others if not gaps[name].excludes_zero]
    behind = [name for name in others if name not in level]
    clauses = list(_clauses(first, values, gaps, level, behind, digits))
    return f"{aim}: {'; '.join(clauses)}."


def _clauses(
    first: str,
    values: dict[str, str],
    gaps: dict[str, Estimate],
    level: list[str],
    behind: list[str],
    digits: int,
) -> Iterator[str]:
    if level:
        differences = listed(precise(gaps[name], digits) for name in level)
        verb = "differences were" if len(level) > 1 else "difference was"
        shown = listed(values[name] for name in (first, *level))
        yield f"no {verb} detected between {shown}: {differences}"
    else:
        yield f"{values[first]} is best"
    for name in behind:
        yield f"{values[name]} is behind by {precise(gaps[name], digits)}"
