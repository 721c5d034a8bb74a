"""Numbers and names as text, and means of estimates."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from fcfg.metrics import Estimate


def number(value: float, digits: int, *, signed: bool = False) -> str:
    """A number with a true minus sign, and no sign at zero.

    >>> number(-0.126, 2), number(0.5, 1, signed=True), number(-0.001, 2, signed=True)
    ('−0.13', '+0.5', '0.00')
    """
    text = f"{value:{'+' if signed else ''}z.{digits}f}"
    return text.lstrip("+") if float(text) == 0 else text.replace("-", "−")


def interval(low: float, high: float, digits: int, *, signed: bool = False) -> str:
    """The ends of an interval, in brackets."""
    ends = ", ".join(number(end, digits, signed=signed) for end in (low, high))
    return f"[{ends}]"


def with_interval(estimate: Estimate, digits: int, *, signed: bool = False) -> str:
    """A number and its interval."""
    value = number(estimate.value, digits, signed=signed)
    return f"{value} {interval(estimate.low, estimate.high, digits, signed=signed)}"


def average(estimates: Iterable[Estimate | None]) -> Estimate | None:
    """Mean of those estimates there are, on the same images; None if there are none."""
    given = [estimate for estimate in estimates if estimate is not None]
    if not given:
        return None
    value = float(np.mean([estimate.value for estimate in given]))
    replicates = np.mean([estimate.replicates for estimate in given], axis=0)
    return Estimate(value, replicates, given[0].n)


def distance(estimate: Estimate) -> Estimate:
    """Absolute value of an estimate."""
    return Estimate(abs(estimate.value), np.abs(estimate.replicates), estimate.n)


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
