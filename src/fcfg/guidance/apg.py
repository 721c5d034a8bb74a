"""Adaptive projected guidance and, over several groups, FAPG (Algorithms 8 and 9).

References:
    Eliminating oversaturation and artifacts of high guidance scales in diffusion models
    (Sadat et al., 2024).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from fcfg.diffusion.prediction import Images, Prediction, State, Step
from fcfg.guidance.rule import AbstractRule, Groups, Weights, register_rule, weighted_sum
from fcfg.support.images import pixel_axes
from fcfg.support.options import option


@register_rule
@dataclass(frozen=True)
class APG(AbstractRule):
    r"""Guide in image space, without the component that would only saturate the image.

    For every group, :math:`\Delta_m = \hat x_0^{(m)} - \hat x_0^\varnothing` enters the momentum
    :math:`M_m \leftarrow \Delta_m + \beta M_m`, which is shortened to a norm of at most r and
    split into the parts parallel and orthogonal to :math:`\hat x_0^{(m)}`:

    .. math:: \hat x_0 = \hat x_0^\varnothing
        + \sum_m \omega_m (\Delta_m^\perp + \eta\, \Delta_m^\parallel)

    With few steps, differences change so much between steps that a negative β would reverse the
    guidance. β is therefore defined for unit steps, as in the paper's 1,000. A step of length k
    does what k unit steps would do together:
    :math:`M_m \leftarrow \frac{1 - \beta^k}{1 - \beta} \Delta_m + \beta^k M_m`.

    The paper refers to Sadat et al. for momentum and radius; one momentum per group is our
    reading. With η = 1, no momentum and an infinite radius this is CFG. As in the paper, it
    starts from the unconditional image; with η = 0, weight 1 is therefore *not* the plain
    conditional model.

    Args:
        eta: Share η of the parallel part that is kept.
        momentum: Momentum β; 0 for none.
        radius: Largest norm r over all pixels of an image; infinity for no limit.
        raw: Whether to use the same β for every step length.
    """

    name = "apg"
    eta: float = option(0.0, "a number from 0 to 1", lambda eta: 0 <= eta <= 1)
    momentum: float = option(-0.75, "a number between -1 and 1", lambda beta: -1 < beta < 1)
    radius: float = option(2.5, "a number above 0 (inf for no limit)", lambda r: r > 0)
    raw: bool = False

    def init(self, x: Images, groups: int) -> State:
        """Return one momentum of zeros per group."""
        return (torch.zeros(groups, *x.shape, dtype=x.dtype, device=x.device),)

    def combine(
        self, x_t: Images, step: Step, null: Images, groups: Groups, weights: Weights, state: State
    ) -> tuple[Prediction, State]:
        """Guide one step, with one noise for both uses; the state is the new momentum."""
        (momentum,) = state
        image = step.image(x_t, groups)
        # Δ in image space, directly from the predictions: x0_m - x0_∅ = reach · (ε_∅ - ε_m).
        delta = step.reach * (null - groups)
        if self.raw:
            momentum = delta + self.momentum * momentum
        else:
            kept = self.momentum ** (step.t - step.s).abs().to(momentum.dtype)
            momentum = (1 - kept) / (1 - self.momentum) * delta + kept * momentum
        delta = project(_shorten(momentum.double(), self.radius), image.double(), self.eta)
        eps = null - weighted_sum(weights, delta.to(null.dtype)) / step.reach
        return Prediction(clean=eps, renoise=eps), (momentum,)


def project(delta: Groups, image: Groups, eta: float) -> Groups:
    r"""Keep the part of ``delta`` orthogonal to ``image``, and a share η of the parallel part.

    .. math:: \Delta^\parallel = \frac{\langle \Delta, x \rangle}{\lVert x \rVert^2}\, x

    Computed per image, over its channels and pixels. An image of zeros has no parallel part.
    """
    pixels = pixel_axes(image, first=2)
    square = image.square().sum(dim=pixels, keepdim=True)
    overlap = (delta * image).sum(dim=pixels, keepdim=True)
    parallel = torch.where(square > 0, overlap / square, torch.zeros_like(square)) * image
    return delta - (1 - eta) * parallel


def _shorten(delta: Groups, radius: float) -> Groups:
    """Scale down to a norm of at most ``radius``."""
    if math.isinf(radius):
        return delta
    norm = delta.square().sum(dim=pixel_axes(delta, first=2), keepdim=True).sqrt()
    return delta * (radius / norm.clamp(min=radius))
