"""Adaptive projected guidance and, over several groups, FAPG (Algorithms 8 and 9).

References:
    Eliminating oversaturation and artifacts of high guidance scales in diffusion models
    (Sadat et al., 2024).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from fcfg.diffusion.prediction import Images, Prediction, State, Step
from fcfg.diffusion.schedule import clean_image
from fcfg.guidance.rule import AbstractRule, along_groups, check_option, is_number


@dataclass(frozen=True)
class APG(AbstractRule):
    r"""Guide in image space, without what would only saturate the picture.

    For every group, with :math:`\Delta_m = \hat x_0^{(m)} - \hat x_0^\varnothing`: momentum
    :math:`M_m \leftarrow \Delta_m + \beta M_m`, shortened to a norm of at most r, and split
    into the parts parallel and orthogonal to :math:`\hat x_0^{(m)}`:

    .. math:: \hat x_0 = \hat x_0^\varnothing
        + \sum_m \omega_m (\Delta_m^\perp + \eta\, \Delta_m^\parallel)

    Momentum belongs to one step: with few steps a difference changes so much from one to the next
    that a negative β turns it round, and the guidance away from what was asked for. β is therefore
    stated for unit steps, as in the paper's 1,000, and a step over k of them is what they come to
    together: :math:`M_m \leftarrow \frac{1 - \beta^k}{1 - \beta} \Delta_m + \beta^k M_m`.

    The paper leaves the formulas of momentum and radius to Sadat et al.; one momentum for each
    group is our reading. With η = 1, no momentum and an infinite radius this is CFG. It starts
    from the unconditional image, as in the paper; with η = 0 the weight 1 is therefore *not* the
    conditional model.

    Args:
        eta: Share η of the parallel part that is kept.
        momentum: β; 0 is none.
        radius: r, over all pixels of an image; infinity is none.
        raw: Use β as it is, whatever the grid.
    """

    name = "apg"
    eta: float = 0.0
    momentum: float = -0.75
    radius: float = 2.5
    raw: bool = False

    def __post_init__(self) -> None:
        """Refuse options that mean nothing."""
        eta, momentum, radius = (
            value if is_number(value) else math.nan
            for value in (self.eta, self.momentum, self.radius)
        )
        legal = 0 <= eta <= 1
        check_option("eta", self.eta, "a number from 0 to 1", is_legal=legal)
        legal = -1 < momentum < 1
        check_option("momentum", self.momentum, "a number between -1 and 1", is_legal=legal)
        expected = "a number above 0 (inf is none)"
        check_option("radius", self.radius, expected, is_legal=radius > 0)

    def init(self, x: Images, groups: int) -> State:
        """One momentum buffer for each group, zero."""
        return (torch.zeros(groups, *x.shape, dtype=x.dtype, device=x.device),)

    def combine(
        self,
        x_t: Images,
        step: Step,
        null: Images,
        groups: Float[Tensor, "groups batch channel height width"],
        weights: Float[Tensor, "groups"],
        state: State,
    ) -> tuple[Prediction, State]:
        """Guide one step: one noise for both uses, and the new momentum."""
        (buffer,) = state
        ratio = step.noise_t / step.signal_t
        image = clean_image(x_t, groups, step.signal_t, step.noise_t)
        # Δ in image space, straight from the noises: x0_m - x0_∅ = ratio · (ε_∅ - ε_m).
        delta = ratio * (null - groups)
        if self.raw:
            buffer = delta + self.momentum * buffer
        else:
            kept = self.momentum ** (step.t - step.s).abs().to(buffer.dtype)
            buffer = (1 - kept) / (1 - self.momentum) * delta + kept * buffer
        delta = project(_shorten(buffer.double(), self.radius), image.double(), self.eta)
        shift = (along_groups(weights) * delta.to(null.dtype)).sum(dim=0)
        eps = null - shift / ratio
        return Prediction(clean=eps, renoise=eps), (buffer,)


_PIXELS = (-3, -2, -1)


def project(delta: Tensor, image: Tensor, eta: float) -> Tensor:
    r"""Keep the part of ``delta`` orthogonal to ``image``, and η of the parallel part.

    .. math:: \Delta^\parallel = \frac{\langle \Delta, x \rangle}{\lVert x \rVert^2}\, x

    Computed per image, over its channels and pixels; a black image (x = 0) has no parallel part.
    """
    square = image.square().sum(dim=_PIXELS, keepdim=True)
    overlap = (delta * image).sum(dim=_PIXELS, keepdim=True)
    parallel = torch.where(square > 0, overlap / square, torch.zeros_like(square)) * image
    return delta - (1 - eta) * parallel


def _shorten(delta: Tensor, radius: float) -> Tensor:
    """Scale down to a norm of at most ``radius``."""
    if math.isinf(radius):
        return delta
    norm = delta.square().sum(dim=_PIXELS, keepdim=True).sqrt()
    return delta * (radius / norm.clamp(min=radius))
