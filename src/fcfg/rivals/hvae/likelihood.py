r"""The distribution of an image given the output of the decoder: a discretised Gaussian.

A pixel has 256 levels, 2/255 apart. Its probability is that of the Gaussian between the middles to
the neighbouring levels; black and white have all that is beyond them.

.. math:: p(x) = \Phi\Bigl(\frac{x - \mu + 1/255}{\sigma}\Bigr)
    - \Phi\Bigl(\frac{x - \mu - 1/255}{\sigma}\Bigr)

In colour images the location of green depends on red, and that of blue on both.
"""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

Images = Float[Tensor, "batch channel height width"]

_SMALLEST_LOG_SCALE = -9.0
_SMALLEST_PROBABILITY = 1e-12


def normal_cdf(a: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    r"""Approximate the distribution function :math:`\Phi` of a standard Gaussian."""
    return 0.5 * (1 + torch.tanh(math.sqrt(2 / math.pi) * (a + 0.044715 * a**3)))


def log_probability(x: Images, loc: Images, log_scale: Images) -> Images:
    """Return the log-probability of every pixel."""
    inverse = torch.exp(-log_scale)
    below = normal_cdf(inverse * (x - loc - 1 / 255))
    above = normal_cdf(inverse * (x - loc + 1 / 255))
    probability = torch.where(x < -0.999, above, torch.where(x > 0.999, 1 - below, above - below))
    return probability.clamp(min=_SMALLEST_PROBABILITY).log()


@dataclass(frozen=True, eq=False)
class PixelDistribution:
    """The distribution of images."""

    loc: Images  #: locations, without the part that depends on other channels
    log_scale: Images
    #: Weights of red in green, of red in blue and of green in blue; None unless there are colours.
    coupling: Images | None = None

    @property
    def scale(self) -> Images:
        """Scale of each pixel."""
        return self.log_scale.exp()

    @property
    def image(self) -> Images:
        """The predicted image, in [-1, 1]; channels depend on those predicted before them."""
        if self.coupling is None:
            return self.loc.clamp(-1, 1)
        red, green, blue = self.loc.unbind(dim=1)
        red_green, red_blue, green_blue = self.coupling.unbind(dim=1)
        red = red.clamp(-1, 1)
        green = (green + red_green * red).clamp(-1, 1)
        blue = (blue + red_blue * red + green_blue * green).clamp(-1, 1)
        return torch.stack([red, green, blue], dim=1)

    def log_prob(self, x: Images) -> Images:
        """Return the log-probability of every pixel, given the channels observed before it."""
        loc = self.loc
        if self.coupling is not None:
            red, green, _ = x.unbind(dim=1)
            red_green, red_blue, green_blue = self.coupling.unbind(dim=1)
            blue_shift = red_blue * red + green_blue * green
            loc = loc + torch.stack([torch.zeros_like(red), red_green * red, blue_shift], dim=1)
        return log_probability(x, loc, self.log_scale)

    def nll(self, x: Images) -> Float[Tensor, "batch"]:
        """Return the negative log-likelihood of each image, in nats per dimension."""
        return -self.log_prob(x).flatten(1).mean(dim=1)


def transfer_residual(
    x: Images, factual: PixelDistribution, counterfactual: PixelDistribution, strength: float = 1.0
) -> Images:
    r"""Predict counterfactual images, with what the model did not explain of the factual ones.

    .. math:: \tilde x = \tilde r + t\, \tilde\sigma\, u, \qquad u = (x - r) / \sigma

    Distributions are those under factual and counterfactual attributes. For the same and with a
    ``strength`` of :math:`t = 1` this is the image itself. Images are not clamped.
    """
    residual = (x - factual.image) / factual.scale
    return counterfactual.image + strength * counterfactual.scale * residual


class PixelHead(nn.Module):
    """The last layer: from features of the decoder to the distribution of images.

    It is computed in float32 or better, since a rounded location can be off by a whole level.
    """

    def __init__(self, width: int, channels: int) -> None:
        super().__init__()
        self.loc = nn.Conv2d(width, channels, 1)
        self.log_scale = nn.Conv2d(width, channels, 1)
        self.coupling = nn.Conv2d(width, 3, 1) if channels == 3 else None

    def forward(self, h: Float[Tensor, "batch _ height width"]) -> PixelDistribution:
        """Return the distribution of images."""
        kind = h.device.type
        with nullcontext() if kind == "meta" else torch.autocast(kind, enabled=False):
            h = h.to(self.loc.weight.dtype)
            return PixelDistribution(
                self.loc(h),
                self.log_scale(h).clamp(min=_SMALLEST_LOG_SCALE),
                None if self.coupling is None else self.coupling(h).tanh(),
            )
