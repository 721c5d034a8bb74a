"""Numbers and names as text, and means of estimates."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable

import numpy as np

from fcfg.evaluation.summary import Cell
from fcfg.metrics import Estimate


def number(value: float, digits: int, *, signed: bool = False, ascii_only: bool = False) -> str:
    """A number with a true minus sign, and no sign at zero.

    >>> number(-0.126, 2), number(0.5, 1, signed=True), number(-0.001, 2, signed=True)
    ('−0.13', '+0.5', '0.00')
    >>> number(-0.126, 2, ascii_only=True), number(0, 1, signed=True, ascii_only=True)
    ('-0.13', '+0.0')

    Args:
        value: The number.
        digits: Decimal places.
        signed: Whether to write the sign of positive numbers.
        ascii_only: Whether to write a hyphen for the minus sign, as Markdown and LaTeX tables do.
            Then a signed zero keeps its plus.
    """
    text = f"{value:{'+' if signed else ''}z.{digits}f}"
    if ascii_only:
        return text
    return text.lstrip("+") if float(text) == 0 else text.replace("-", "−")


def interval(low: float, high: float, digits: int, *, signed: bool = False) -> str:
    """The ends of an interval, in brackets."""
    ends = ", ".join(number(end, digits, signed=signed) for end in (low, high))
    return f"[{ends}]"


def with_interval(estimate: Estimate, digits: int, *, signed: bool = False) -> str:
    """A number and its interval."""
    value = number(estimate.value, digits, signed=signed)
    return f"{value} {interval(estimate.low, estimate.high, digits, signed=signed)}"


def precise(estimate: Estimate, digits: int, *, signed: bool = False) -> str:
    """A number and its interval, in enough digits that an end close to 0 is not shown as 0.

    Args:
        estimate: The number.
        digits: Fewest decimal places.
        signed: Whether to write the sign of positive numbers.
    """
    nearest = min(abs(estimate.low), abs(estimate.high))
    needed = math.ceil(-math.log10(2 * nearest)) if estimate.excludes_zero else digits
    return with_interval(estimate, max(digits, needed), signed=signed)


def average(estimates: Iterable[Estimate]) -> Estimate | None:
    """Mean of estimates on the same images; None if there are none."""
    given = list(estimates)
    if not given:
        return None
    value = float(np.mean([estimate.value for estimate in given]))
    replicates = np.mean([estimate.replicates for estimate in given], axis=0)
    return Estimate(value, replicates, given[0].n)


def distance(estimate: Estimate) -> Estimate:
    """Absolute value of an estimate."""
    return Estimate(abs(estimate.value), np.abs(estimate.replicates), estimate.n)


def off_target(cells: Iterable[Cell], names: Collection[str]) -> Estimate | None:
    """Mean drift over attributes that should not change: positive is amplification.

    Args:
        cells: Cells of one guidance. An intervention counts as often as it has such attributes.
        names: Attributes of one unit (see :func:`fcfg.evaluation.metric_table.drift_units`).
    """
    return _mean_drift((cell, [n for n in cell.invariant if n in names]) for cell in cells)


def on_target(cells: Iterable[Cell], names: Collection[str]) -> Estimate | None:
    """Mean drift over the targets of interventions; arguments as in :func:`off_target`."""
    return _mean_drift((cell, [n for n in cell.targets if n in names]) for cell in cells)


def _mean_drift(chosen: Iterable[tuple[Cell, list[str]]]) -> Estimate | None:
    return average(c.drift[name] for c, names in chosen for name in names if name in c.drift)


def listed(texts: Iterable[str], last: str = "and") -> str:
    """Words as a list in a sentence.

    >>> listed(["a", "b", "c"]), listed(["a"]), listed(["a", "b"], "or")
    ('a, b and c', 'a', 'a or b')
    """
    *most, final = texts
    return f"{', '.join(most)} {last} {final}" if most else final


def named(do: str) -> str:
    """An intervention as the paper writes it.

    >>> named("smiling+male"), named("")
    ('do(smiling, male)', 'the null intervention')
    """
    return f"do({do.replace('+', ', ')})" if do else "the null intervention"
