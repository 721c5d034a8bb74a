"""Numbers as a reader meets them: signed, with the interval, in as many digits as it bears out."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from fcfg.experiments.summary import Cell, Summary
from fcfg.metrics import Estimate


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


def off_target(cells: Iterable[Cell]) -> Estimate | None:
    """Mean drift over the attributes that should stay put: positive is amplification.

    Args:
        cells: Of one guidance; every intervention counts as often as it has such attributes.
    """
    return average(
        cell.drift[name] for cell in cells for name in cell.invariant if name in cell.drift
    )


def on_target(cells: Iterable[Cell]) -> Estimate | None:
    """Mean drift over the attributes intervened on.

    Args:
        cells: Of one guidance.
    """
    return average(
        cell.drift[name] for cell in cells for name in cell.targets if name in cell.drift
    )


def drift_unit(summary: Summary) -> tuple[str, str]:
    """What a drift is measured in: shortly, and in a sentence.

    Where the world is drawn it is the signed factor error, else the signed shift of the judge's
    score.
    """
    if knows_truth(summary):
        return "sd", (
            "how far the judge's reading of an attribute's factor lies from its reading of the "
            "true counterfactual, in standard deviations of the factor; positive is too strong"
        )
    return "in the judge's score", (
        "how far the judge's score of an attribute moved from the unguided counterfactual "
        "towards (positive) or away from (negative) the attribute's value: a probability, or for "
        "a continuous attribute standard deviations"
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
