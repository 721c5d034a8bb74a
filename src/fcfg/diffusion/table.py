r"""Tables of noise levels: what a schedule is made of, whoever trained with it.

At time t an image is :math:`x_t = a_t x_0 + b_t \epsilon`. There are two kinds of tables:

* of noises, with :math:`a_t^2 + b_t^2 = 1`, for networks that predict a noise, an image, or the
  velocity :math:`v = a_t \epsilon - b_t x_0`;
* of flows, with :math:`a_t = 1 - \sigma_t`, :math:`b_t = \sigma_t`, for networks that predict the
  flow :math:`u = \epsilon - x_0`, its opposite (MONAI), or an image.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeAlias, TypeVar

from torch import Tensor

from fcfg.support.errors import InputError, check_among

Parameterisation: TypeAlias = Literal["noise", "image", "velocity", "flow", "reversed-flow"]

#: What networks predict on tables of noises, and on tables of flows; what guidance and solvers
#: exchange is the first.
OF_NOISES: tuple[Parameterisation, ...] = ("noise", "image", "velocity")
OF_FLOWS: tuple[Parameterisation, ...] = ("flow", "reversed-flow", "image")

_NEAR = 1e-5  # levels may come from float32


@dataclass(frozen=True)
class Table:
    """Levels of signal and noise at the times 0..T, and how a network is asked there.

    >>> Table((1.0, 0.5, 0.0), (0.0, 0.5, 1.0), (500.0, 500.0, 1000.0), "flow").is_flow
    True

    Args:
        signal: Level of the signal at each time; 1 at time 0.
        noise: Level of the noise at each time; 0 at time 0, and rising.
        called: Time that the network is called with at each; integers or floats. That of time 0
            is not used.
        parameterisation: Quantity the network predicts.
    """

    signal: tuple[float, ...]
    noise: tuple[float, ...]
    called: tuple[float, ...]
    parameterisation: Parameterisation

    def __post_init__(self) -> None:
        counts = {len(self.signal), len(self.noise), len(self.called)}
        rising = all(before < after for before, after in pairwise(self.noise))
        begins, ends = self.noise[:1] == (0,), max(self.noise, default=0) <= 1
        if len(counts) > 1 or len(self.noise) < 2 or not (begins and rising and ends):
            raise InputError(
                "noise schedule",
                expected="a level of signal and noise and a time for the network at each of the "
                "times 0 to T, with noise that rises from 0, at most to 1",
                got=f"{sorted(counts)} numbers, the noise {_ends(self.noise)}",
                do="leave out times that are the same",
            )
        squares = (s**2 + n**2 for s, n in zip(self.signal, self.noise, strict=True))
        if not self.is_flow and (min(self.signal) <= 0 or not _all_one(squares)):
            raise InputError(
                "noise schedule",
                expected="signal and noise whose sum is 1 (a flow), or that of their squares, "
                "where the signal is above 0",
                got=f"the signal {_ends(self.signal)} and the noise {_ends(self.noise)}",
                do="a variance that grows and a zero terminal SNR are not supported",
            )
        check_parameterisation(self.parameterisation, is_flow=self.is_flow)

    @property
    def steps(self) -> int:
        """The number T of times."""
        return len(self.noise) - 1

    @property
    def is_flow(self) -> bool:
        """Whether signal and noise add up to 1."""
        return _all_one(s + n for s, n in zip(self.signal, self.noise, strict=True))


def check_parameterisation(name: object, *, is_flow: bool) -> None:
    """Refuse what a network cannot predict on such a table, as a velocity of a flow."""
    what = "parameterisation of a flow" if is_flow else "parameterisation"
    check_among(what, name, OF_FLOWS if is_flow else OF_NOISES)


Share = TypeVar("Share", float, Tensor)


def shifted(share: Share, shift: float) -> Share:
    r"""Move a share of the way towards noise: :math:`s\sigma / (1 + (s - 1) \sigma)`."""
    return shift * share / (1 + (shift - 1) * share)


def flow_levels(steps: int, shift: float) -> tuple[float, ...]:
    """Return the noise of a flow at the times 0..T: even, then shifted; 1 at the last."""
    return tuple(shifted(t / steps, shift) for t in range(steps + 1))


def _all_one(numbers: Iterable[float]) -> bool:
    return all(abs(number - 1) < _NEAR for number in numbers)


def _ends(levels: Sequence[float]) -> str:
    return f"{levels[0]:.4g} … {levels[-1]:.4g}" if levels else "nowhere"
