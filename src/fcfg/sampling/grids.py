r"""Grids of times between image and noise, at which the network is evaluated.

All contain 0, T and distinct integer times between. With
:math:`r_t = \sqrt{1 - \alpha_t} / \sqrt{\alpha_t}`, the noise for a unit of signal:

``uniform``
    even in t, the paper's.
``quadratic``
    even in :math:`\sqrt t`, with shorter steps near the image (Song et al., 2021).
``log-snr``
    even in :math:`\lambda_t = -\log r_t` from t = 1 on, which suits multistep solvers.
``karras``
    even in :math:`r_t^{1/7}` from t = 1 on, between the other two (Karras et al., 2022). On the
    cosine schedule, whose r grows steeply at its end, most steps are there.

A number behind the name ends the grid earlier, at that share of all times: ``quadratic:0.8`` goes
to 0.8 T and back. The noise that is left out decides the outlines of an image: an anchored answer
keeps those of the factual image (SDEdit, Meng et al., 2022; FlowEdit, Kulikov et al., 2025).

Of a flow, whose signal vanishes at T, r is :math:`\sigma_t / (1 - \sigma_t + \sigma_t / 100)`,
which ends at 100, about as that of the linear schedule does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias, get_args

import numpy as np

from fcfg.diffusion.schedule import NoiseSchedule
from fcfg.support.errors import InputError, check_among, check_integer

Grid: TypeAlias = Literal["uniform", "quadratic", "log-snr", "karras"]
GRIDS: tuple[str, ...] = get_args(Grid)

_END_OF_FLOWS = 100.0

# Functions of r that are evenly spaced along a grid.
_EVEN: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "log-snr": np.log,
    "karras": lambda r: r ** (1 / 7),
}


def check_grid(text: str) -> str:
    """Return the text of a grid in its shortest form, or refuse it.

    >>> check_grid("quadratic:0.80"), check_grid("karras:1")
    ('quadratic:0.8', 'karras')
    """
    kind, colon, end = str(text).partition(":")
    check_among("grid", kind, GRIDS)
    try:
        share = float(end) if colon else 1.0
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        expected = f"an end above 0 and at most 1, such as '{kind}:0.8'"
        raise InputError("grid", expected=expected, got=repr(text), do="or leave the end out")
    return kind if share == 1 else f"{kind}:{share:g}"


def time_grid(schedule: NoiseSchedule, steps: int, grid: str = "uniform") -> tuple[int, ...]:
    """Return ascending times from 0 to the end of a grid, as even as integers allow.

    Where two times round to the same integer, the later one moves to the next free one.

    >>> time_grid(NoiseSchedule(), 3)
    (0, 333, 667, 1000)
    >>> time_grid(NoiseSchedule(), 6, "log-snr")
    (0, 1, 18, 139, 493, 786, 1000)
    >>> time_grid(NoiseSchedule(), 4, "uniform:0.8")
    (0, 200, 400, 600, 800)
    """
    kind, _, end = check_grid(grid).partition(":")
    last = max(1, round(float(end or 1) * schedule.steps))
    do = "the sampling 'paper' takes 1000" if last == 1000 else "choose within"
    steps = check_integer("steps", steps, 1, last, do=do)
    if kind == "uniform":
        return tuple((2 * i * last + steps) // (2 * steps) for i in range(steps + 1))
    index = np.arange(1, steps + 1)
    if kind == "quadratic":
        times = np.rint(last * (index / steps) ** 2).astype(int).clip(1)
    else:
        signal, noise = (each[1 : last + 1].numpy() for each in schedule.levels)
        unit = signal + noise / _END_OF_FLOWS if schedule.is_flow else signal
        level = _EVEN[kind](noise / unit)  # at the times 1 to the last, ascending
        wanted = np.linspace(level[-1], level[0], steps)[::-1]  # one step alone ends at the last
        times = np.rint(np.interp(wanted, level, np.arange(1, last + 1))).astype(int)
    distinct = np.maximum.accumulate(times - index) + index
    return (0, *np.minimum(distinct, last - steps + index).tolist())
