r"""The noise schedule, and conversions between the outputs of networks (Sec. 2.1).

.. math:: x_t = \sqrt{\alpha_t}\, x_0 + \sqrt{1 - \alpha_t}\, \epsilon

The paper's :math:`\alpha_t` is the cumulative product that other libraries write
:math:`\bar\alpha_t`. The code uses ``signal(t)`` :math:`= \sqrt{\alpha_t}` and ``noise(t)``
:math:`= \sqrt{1 - \alpha_t}`. Time 0 is the clean image, time T pure noise.

References:
    Denoising diffusion probabilistic models (Ho et al., 2020), linear schedule.
    Improved denoising diffusion probabilistic models (Nichol and Dhariwal, 2021), cosine.
    Progressive distillation (Salimans and Ho, 2022), velocity.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor

from fcfg.support.errors import check_among, check_integer

Kind: TypeAlias = Literal["linear", "cosine"]
Parameterisation: TypeAlias = Literal["noise", "image", "velocity"]


@dataclass(frozen=True)
class NoiseSchedule:
    """Signal and noise levels at the times 0..T.

    >>> schedule = NoiseSchedule("linear")
    >>> schedule.signal(torch.tensor([0, 1000]))
    tensor([1.0000, 0.0064], dtype=torch.float64)

    Args:
        kind: 'linear' (CelebA-HQ, MIMIC-CXR in the paper) or 'cosine' (EMBED).
        steps: Number T of times. The end points of the linear schedule do not depend on it.
    """

    kind: Kind = "linear"
    steps: int = 1000
    #: The paper's :math:`\alpha_t` for t = 0..T, with :math:`\alpha_0 = 1`; float64.
    alpha: Float[Tensor, "times"] = field(init=False, repr=False, compare=False)
    _levels: dict[torch.device, tuple[Tensor, Tensor]] = field(
        init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        """Refuse an unknown kind and too few steps, then compute the levels."""
        check_among("noise schedule", self.kind, get_args(Kind))
        check_integer("noise schedule, steps", self.steps, 25, 100_000, do="the paper has 1000")
        object.__setattr__(self, "alpha", self._alpha())
        object.__setattr__(self, "_levels", {})

    def _alpha(self) -> Float[Tensor, "times"]:
        with torch.device("cpu"):  # even if the default device is another one
            if self.kind == "linear":
                scale = 1000 / self.steps
                beta = torch.linspace(1e-4 * scale, 0.02 * scale, self.steps, dtype=torch.float64)
            else:
                u = torch.arange(self.steps + 1, dtype=torch.float64) / self.steps
                bar = torch.cos((u + 0.008) / 1.008 * torch.pi / 2).square()
                beta = (1 - bar[1:] / bar[:-1]).clamp(max=0.999)
            return torch.cat([torch.ones(1, dtype=torch.float64), (1 - beta).cumprod(0)])

    def signal(self, t: Int[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        r""":math:`\sqrt{\alpha_t}`, in float64 on the device of ``t``."""
        return self._on(t.device)[0][t]

    def noise(self, t: Int[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        r""":math:`\sqrt{1 - \alpha_t}`, in float64 on the device of ``t``."""
        return self._on(t.device)[1][t]

    def _on(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """Return signal and noise at all times, cached by device."""
        if device not in self._levels:
            levels = self.alpha.sqrt(), (1 - self.alpha).sqrt()
            self._levels[device] = (levels[0].to(device), levels[1].to(device))
        return self._levels[device]


def clean_image(x_t: Tensor, eps: Tensor, signal: Tensor, noise: Tensor) -> Tensor:
    r"""Convert a noise prediction to the clean image.

    .. math:: \hat x_0 = (x_t - \sqrt{1 - \alpha_t}\, \epsilon) / \sqrt{\alpha_t}
    """
    return (x_t - noise * eps) / signal


def noise_from_output(
    output: Tensor, x_t: Tensor, signal: Tensor, noise: Tensor, kind: Parameterisation
) -> Tensor:
    r"""Convert the output of a network to a noise prediction.

    .. math::
        \epsilon = \begin{cases}
            \text{output} & \text{noise} \\
            (x_t - \sqrt{\alpha_t}\, \text{output}) / \sqrt{1 - \alpha_t} & \text{image} \\
            \sqrt{1 - \alpha_t}\, x_t + \sqrt{\alpha_t}\, \text{output} & \text{velocity}
        \end{cases}
    """
    if kind == "noise":
        return output
    if kind == "image":
        return (x_t - signal * output) / noise
    return noise * x_t + signal * output


def training_target(
    x_0: Tensor, eps: Tensor, signal: Tensor, noise: Tensor, kind: Parameterisation
) -> Tensor:
    r"""Compute the training target of a network.

    This is the inverse of :func:`noise_from_output`; the velocity is
    :math:`v = \sqrt{\alpha_t}\, \epsilon - \sqrt{1 - \alpha_t}\, x_0`.
    """
    if kind == "noise":
        return eps
    if kind == "image":
        return x_0
    return signal * eps - noise * x_0
