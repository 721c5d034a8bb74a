r"""The noise schedule, and conversions between the outputs of networks (Sec. 2.1).

.. math:: x_t = \sqrt{\alpha_t}\, x_0 + \sqrt{1 - \alpha_t}\, \epsilon

The paper's :math:`\alpha_t` is the cumulative product that other libraries write
:math:`\bar\alpha_t`. The code uses ``signal(t)`` :math:`= \sqrt{\alpha_t}` and ``noise(t)``
:math:`= \sqrt{1 - \alpha_t}`. Time 0 is the clean image, time T pure noise. Of a flow,
``noise(t)`` is :math:`\sigma_t` and ``signal(t)`` is :math:`1 - \sigma_t`, which vanishes at T.

References:
    Denoising diffusion probabilistic models (Ho et al., 2020), linear schedule.
    Improved denoising diffusion probabilistic models (Nichol and Dhariwal, 2021), cosine.
    Progressive distillation (Salimans and Ho, 2022), velocity.
    High-resolution image synthesis with latent diffusion models (Rombach et al., 2022),
    scaled-linear.
    Flow matching for generative modeling (Lipman et al., 2023); scaling rectified flow
    transformers (Esser et al., 2024), the shift.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Literal, TypeAlias, get_args

import torch
from jaxtyping import Float, Int, Num
from torch import Tensor

from fcfg.diffusion.scheduler import read_scheduler
from fcfg.diffusion.table import Parameterisation, Table, flow_levels
from fcfg.support.errors import InputError, check_among, check_integer, short

Kind: TypeAlias = Literal["linear", "cosine", "scaled-linear", "flow"]


@dataclass(frozen=True)
class NoiseSchedule:
    """Signal and noise levels at the times 0..T.

    >>> schedule = NoiseSchedule("linear")
    >>> schedule.signal(torch.tensor([0, 1000]))
    tensor([1.0000, 0.0064], dtype=torch.float64)
    >>> NoiseSchedule("flow", shift=3.0).noise(torch.tensor([0, 500, 1000]))
    tensor([0.0000, 0.7500, 1.0000], dtype=torch.float64)

    Args:
        kind: 'linear' (CelebA-HQ, MIMIC-CXR in the paper), 'cosine' (EMBED), 'scaled-linear'
            (Stable Diffusion), 'flow', or a table, see also :meth:`of`.
        steps: Number T of times; of a table, its own. The end points of the linear schedules do
            not depend on it.
        shift: Factor of noise/signal at the times of a flow; 1 leaves the times even.
    """

    kind: Kind | Table = "linear"
    steps: int = 1000
    shift: float = 1.0
    #: Whether signal and noise add up to 1; predictions are then flows, and noises otherwise.
    is_flow: bool = field(init=False, repr=False, compare=False)
    _table: Table = field(init=False, repr=False, compare=False)
    _cached: dict[torch.device, tuple[Tensor, ...]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        moves = self.kind == "flow" and isfinite(self.shift) and self.shift > 0
        if not moves and self.shift != 1:
            raise InputError(
                "noise schedule, shift",
                expected="a number above 0 for 'flow', or 1",
                got=short(self.shift),
                do="1 leaves the times of a flow even, 3 is that of SD 3",
            )
        if isinstance(self.kind, Table):
            table = self.kind
        else:
            check_among("noise schedule", self.kind, get_args(Kind))
            do = "the paper has 1000"
            check_integer("noise schedule, steps", self.steps, 25, 100_000, do=do)
            table = _table_of(self.kind, self.steps, self.shift)
        derived = {"steps": table.steps, "is_flow": table.is_flow, "_table": table, "_cached": {}}
        for name, value in derived.items():
            object.__setattr__(self, name, value)

    @classmethod
    def of(cls, scheduler: Any) -> NoiseSchedule:
        """Return the schedule of a scheduler of diffusers or MONAI.

        See :mod:`fcfg.diffusion.scheduler` for what is read and what is refused.
        """
        return cls(read_scheduler(scheduler))

    @property
    def parameterisation(self) -> Parameterisation:
        """What networks of this schedule predict, unless they say otherwise."""
        return self._table.parameterisation

    @property
    def levels(self) -> tuple[Float[Tensor, "times"], Float[Tensor, "times"]]:
        """Signal and noise at t = 0..T; float64, on the CPU."""
        signal, noise, _ = self._on(torch.device("cpu"))
        return signal, noise

    @property
    def alpha(self) -> Float[Tensor, "times"]:
        r"""The paper's :math:`\alpha_t`, t = 0..T: the square of the signal; on the CPU."""
        return self.levels[0].square()

    @property
    def is_silent(self) -> bool:
        """Whether there is no signal at time T, as in most flows."""
        return not self._table.signal[-1]

    def signal(self, t: Int[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        r""":math:`\sqrt{\alpha_t}` or :math:`1 - \sigma_t`, in float64 on the device of ``t``."""
        return self._on(t.device)[0][t]

    def noise(self, t: Int[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        r""":math:`\sqrt{1 - \alpha_t}` or :math:`\sigma_t`, in float64 on the device of ``t``."""
        return self._on(t.device)[1][t]

    def called(self, t: Int[Tensor, "*shape"]) -> Num[Tensor, "*shape"]:
        r"""Return the time a network is called with: t, :math:`T \sigma_t`, or that of a table."""
        return self._on(t.device)[2][t]

    def _on(self, device: torch.device) -> tuple[Tensor, ...]:
        """Return signal, noise and the times of networks at all times, cached by device."""
        if device not in self._cached:
            table, exact = self._table, torch.float64
            with torch.device("cpu"):  # even if the default device is another one
                levels = [torch.tensor(each, dtype=exact) for each in (table.signal, table.noise)]
                known = (*levels, torch.tensor(table.called))
            self._cached[device] = tuple(each.to(device) for each in known)
        return self._cached[device]


def _table_of(kind: Kind, steps: int, shift: float) -> Table:
    r"""Return the table of a named schedule, with :math:`\alpha_0 = 1`."""
    if kind == "flow":
        noises = flow_levels(steps, shift)
        called = tuple(float(noise * steps) for noise in noises)
        return Table(tuple(1 - noise for noise in noises), noises, called, "flow")
    scale = 1000 / steps
    with torch.device("cpu"):  # even if the default device is another one
        if kind == "linear":
            beta = torch.linspace(1e-4 * scale, 0.02 * scale, steps, dtype=torch.float64)
        elif kind == "scaled-linear":
            ends = (8.5e-4 * scale) ** 0.5, (0.012 * scale) ** 0.5
            beta = torch.linspace(*ends, steps, dtype=torch.float64).square()
        else:
            u = torch.arange(steps + 1, dtype=torch.float64) / steps
            bar = torch.cos((u + 0.008) / 1.008 * torch.pi / 2).square()
            beta = (1 - bar[1:] / bar[:-1]).clamp(max=0.999)
        alpha = torch.cat([beta.new_ones(1), (1 - beta).cumprod(0)])
    signal, noise = (tuple(each.sqrt().tolist()) for each in (alpha, 1 - alpha))
    return Table(signal, noise, tuple(range(steps + 1)), "noise")


def prediction_from_output(
    output: Tensor,
    x_t: Tensor,
    signal: Tensor,
    noise: Tensor,
    kind: Parameterisation,
    *,
    flow: bool = False,
) -> Tensor:
    r"""Convert the output of a network to a noise prediction, or to that of a flow.

    .. math::
        \epsilon = \begin{cases}
            \text{output} & \text{noise} \\
            (x_t - \sqrt{\alpha_t}\, \text{output}) / \sqrt{1 - \alpha_t} & \text{image} \\
            \sqrt{1 - \alpha_t}\, x_t + \sqrt{\alpha_t}\, \text{output} & \text{velocity}
        \end{cases}
        \qquad
        u = \begin{cases}
            \text{output} & \text{flow} \\
            -\text{output} & \text{reversed flow} \\
            (x_t - \text{output}) / \sigma_t & \text{image}
        \end{cases}
    """
    if kind in ("noise", "flow"):
        return output
    if kind == "reversed-flow":
        return -output
    if kind == "image":
        return (x_t - (output if flow else signal * output)) / noise
    return noise * x_t + signal * output


def training_target(
    x_0: Tensor, eps: Tensor, signal: Tensor, noise: Tensor, kind: Parameterisation
) -> Tensor:
    r"""Compute the training target of a network.

    This is the inverse of :func:`prediction_from_output`; the velocity is
    :math:`v = \sqrt{\alpha_t}\, \epsilon - \sqrt{1 - \alpha_t}\, x_0`, the flow
    :math:`u = \epsilon - x_0`.
    """
    if kind == "noise":
        return eps
    if kind == "image":
        return x_0
    if kind == "flow":
        return eps - x_0
    if kind == "reversed-flow":
        return x_0 - eps
    return signal * eps - noise * x_0
