"""Numbers as a reader meets them: signed, with the interval, in as many digits as it bears out."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np

from fcfg.causal.attributes import Continuous
from fcfg.evaluation.summary import Cell, Summary
from fcfg.metrics import Estimate

#: Units of a drift: the judge's score of a discrete attribute, and whatever is on a scale.
PROBABILITY, SD = "probability", "sd"


def number(value: float, digits: int, *, signed: bool = False) -> str:
    """A number with a true minus, and no sign at nothing.

    >>> number(-0.126, 2), number(0.5, 1, signed=True), number(-0.001, 2, signed=True)
    ('−0.13', '+0.5', '0.00')
    """
    text = f"{value:{'+' if signed else ''}.{digits}f}"
    return text.lstrip("+-") if float(text) == 0 else text.replace("-", "−")


def interval(low: float, high: float, digits: int, *, signed: bool = False) -> str:
    """The ends of an interval, in brackets."""
    ends = ", ".join(number(end, digits, signed=signed) for end in (low, high))
    return f"[{ends}]"


def with_interval(estimate: Estimate, digits: int, *, signed: bool = False) -> str:
    """A number and its interval."""
    value = number(estimate.value, digits, signed=signed)
    return f"{value} {interval(estimate.low, estimate.high, digits, signed=signed)}"


def average(estimates: Iterable[Estimate]) -> Estimate | None:
    """The mean of estimates on the same images; None of none."""
    given = list(estimates)
    if not given:
        return None
    value = float(np.mean([estimate.value for estimate in given]))
    replicates = np.mean([estimate.replicates for estimate in given], axis=0)
    return Estimate(value, replicates, given[0].n)


def distance(estimate: Estimate) -> Estimate:
    """How far from 0, whatever the side."""
    return Estimate(abs(estimate.value), np.abs(estimate.replicates), estimate.n)


def off_target(cells: Iterable[Cell], names: Collection[str]) -> Estimate | None:
    """Mean drift over attributes that should stay put: positive is amplification.

    Args:
        cells: Of one guidance; every intervention counts as often as it has such attributes.
        names: Attributes of one unit (see :func:`drift_units`): there is no mean over several.
    """
    return average(
        cell.drift[name]
        for cell in cells
        for name in cell.invariant
        if name in cell.drift and name in names
    )


def on_target(cells: Iterable[Cell], names: Collection[str]) -> Estimate | None:
    """Mean drift over attributes intervened on.

    Args:
        cells: Of one guidance.
        names: Attributes of one unit.
    """
    return average(
        cell.drift[name]
        for cell in cells
        for name in cell.targets
        if name in cell.drift and name in names
    )


def shift_unit(summary: Summary, attribute: str) -> str:
    """What the shift of an attribute is measured in.

    Args:
        summary: Of a run.
        attribute: Its name.
    """
    return SD if isinstance(summary.space[attribute], Continuous) else PROBABILITY


def drift_unit(summary: Summary, attribute: str) -> str:
    """What the drift of an attribute is measured in.

    Where the world is drawn the drift is the signed factor error, in standard deviations; else
    the signed shift.

    Args:
        summary: Of a run.
        attribute: Its name.
    """
    return SD if knows_truth(summary) else shift_unit(summary, attribute)


def drift_units(summary: Summary) -> dict[str, tuple[str, ...]]:
    """Units of drift, each with its attributes.

    Args:
        summary: Of a run.
    """
    units: dict[str, tuple[str, ...]] = {}
    for name in summary.space.names:
        unit = drift_unit(summary, name)
        units[unit] = (*units.get(unit, ()), name)
    return units


def drift_words(summary: Summary) -> str:
    """What a drift is, in a sentence.

    Args:
        summary: Of a run.
    """
    if knows_truth(summary):
        return (
            "how far the judge's reading of an attribute's factor lies from its reading of the "
            "true counterfactual, in standard deviations of the factor; positive is too strong"
        )
    return (
        "how far the judge's score of an attribute moved from the unguided counterfactual "
        "towards (positive) or away from (negative) the attribute's value: a probability, or for "
        "a continuous attribute standard deviations of the factual values (sd)"
    )


def knows_truth(summary: Summary) -> bool:
    """Whether the world is drawn, so that true counterfactuals are known."""
    return any(cell.factor_error for cell in summary.cells.values())


def listed(texts: Iterable[str]) -> str:
    """Words in a sentence.

    >>> listed(["a", "b", "c"]), listed(["a"])
    ('a, b and c', 'a')
    """
    *most, last = texts
    return f"{', '.join(most)} and {last}" if most else last


def named(do: str) -> str:
    """An intervention as the paper writes it.

    >>> named("smiling+male"), named("")
    ('do(smiling, male)', 'the null intervention')
    """
    return f"do({do.replace('+', ', ')})" if do else "the null intervention"
