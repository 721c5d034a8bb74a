r"""Mechanisms of single attributes: :math:`a := f(pa, u)` and its inverse (Sec. 2).

A *continuous* attribute is a conditional flow of Gaussian noise. A *binary or categorical*
attribute is the largest of its logits plus Gumbel noise.

References:
    Neural spline flows (Durkan et al., 2019), implemented in zuko.
    Counterfactual off-policy evaluation with Gumbel-max structural causal models (Oberst and
    Sontag, 2019), for the posterior of Gumbel noise.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from fcfg.causal.attributes import Continuous

Values: TypeAlias = Float[Tensor, "batch"]
Context: TypeAlias = Float[Tensor, "batch context"]  # encoded parents
Noise: TypeAlias = Float[Tensor, "batch noise"]
Uniform: TypeAlias = Float[Tensor, "batch draws"]  # numbers in (0, 1)


class AbstractMechanism(nn.Module, ABC):
    """How one node follows from its parents and its noise.

    Its parents are compared with the graph at every query, since a graph changed after fitting
    would silently give wrong answers.
    """

    noise_draws = 0  # uniform numbers that abduction needs per row

    def __init__(self, parents: Sequence[str]) -> None:
        super().__init__()
        self.parents = tuple(parents)

    def standardise(self, values: Values) -> None:
        """Set what follows from training values without being fitted; by default nothing."""

    @abstractmethod
    def log_prob(self, values: Values, context: Context) -> Values:
        """Compute the log-likelihood of values given their parents."""

    @abstractmethod
    def abduct(self, values: Values, context: Context, uniform: Uniform) -> Noise:
        """Infer the noise behind values; ``uniform`` decides what they do not determine."""

    @abstractmethod
    def predict(self, noise: Noise, context: Context) -> Values:
        """Compute the values for noise and parents."""


class FlowMechanism(AbstractMechanism):
    r"""A continuous node: a neural spline flow of Gaussian noise.

    .. math:: a = \operatorname{clip}(g(u; pa)), \qquad u \sim \mathcal N(0, 1)

    The flow acts on standardised values and is the identity beyond five standard deviations, so
    attributes with long tails should be on a log scale. Predictions are clipped to the range of
    the attribute.
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, attribute: Continuous, context: int, parents: Sequence[str]) -> None:
        from zuko.flows import NSF

        super().__init__(parents)
        self.low, self.high = attribute.low, attribute.high
        self.flow = NSF(features=1, context=context, transforms=2, hidden_features=(32, 32))
        self.register_buffer("mean", torch.zeros(()))
        self.register_buffer("scale", torch.ones(()))

    def standardise(self, values: Values) -> None:
        self.mean.copy_(values.mean())
        self.scale.copy_(values.std())

    def log_prob(self, values: Values, context: Context) -> Values:
        z = ((values - self.mean) / self.scale)[:, None]
        return self.flow(context).log_prob(z) - self.scale.log()

    def abduct(self, values: Values, context: Context, uniform: Uniform) -> Noise:
        z = ((values - self.mean) / self.scale)[:, None]
        return self.flow(context).transform(z)

    def predict(self, noise: Noise, context: Context) -> Values:
        z = self.flow(context).transform.inv(noise)[:, 0]
        return (self.mean + self.scale * z).clamp(self.low, self.high)


class GumbelMechanism(AbstractMechanism):
    r"""A discrete node: :math:`a = \arg\max_j (\ell_j(pa) + u_j)`, u standard Gumbel."""

    def __init__(self, levels: int, context: int, parents: Sequence[str]) -> None:
        super().__init__(parents)
        self.noise_draws = levels + 1
        self.logits = nn.Sequential(
            nn.Linear(context, 32), nn.SiLU(), nn.Linear(32, 32), nn.SiLU(), nn.Linear(32, levels)
        )

    def log_prob(self, values: Values, context: Context) -> Values:
        return -functional.cross_entropy(self.logits(context), values.long(), reduction="none")

    def abduct(self, values: Values, context: Context, uniform: Uniform) -> Noise:
        return gumbel_posterior(self.logits(context), values.long(), uniform)

    def predict(self, noise: Noise, context: Context) -> Values:
        return (self.logits(context) + noise).argmax(dim=1).double()


def gumbel_posterior(
    logits: Float[Tensor, "batch levels"], observed: Int[Tensor, "batch"], uniform: Uniform
) -> Float[Tensor, "batch levels"]:
    r"""Sample Gumbel noise given that class k was the largest.

    The maximum is :math:`T = g + \operatorname{logsumexp}(\ell)`, whichever class attains it. So
    :math:`u_k = T - \ell_k`, and the others are Gumbels truncated at the maximum:

    .. math:: u_j = -\log(e^{-(g_j + \ell_j)} + e^{-T}) - \ell_j

    Without the logsumexp, as in several public codes, prediction does not return the observed
    class. The first uniform number is for the maximum, the others are for the levels.
    """
    gumbel = -torch.log(-torch.log(uniform.clamp(min=torch.finfo(uniform.dtype).tiny)))
    top = gumbel[:, :1] + logits.logsumexp(dim=1, keepdim=True)
    below = -torch.logaddexp(-(gumbel[:, 1:] + logits), -top)
    # A margin far above rounding and far below anything else: without ties, k always wins.
    below = below.minimum(top - 1e-9)
    return torch.where(functional.one_hot(observed, logits.shape[1]).bool(), top, below) - logits
