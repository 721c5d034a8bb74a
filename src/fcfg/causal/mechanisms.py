r"""Mechanisms of single attributes: :math:`a := f(pa, u)` and its inverse.

A *continuous* attribute is a conditional flow of Gaussian noise. A *binary or categorical* one
takes the largest of its logits plus Gumbel noise.

References:
    Neural spline flows (Durkan et al., 2019), by way of zuko.
    Counterfactual off-policy evaluation with Gumbel-max structural causal models (Oberst and
    Sontag, 2019), the posterior of Gumbel noise.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from fcfg.causal.attributes import Continuous


class AbstractMechanism(nn.Module, ABC):
    """How one node follows from its parents and its noise.

    Args:
        parents: The parents it is fitted on; compared with the graph at every query, since a
            graph changed in between would give wrong answers without failing.
    """

    noise_draws: int  # uniform numbers that abduction needs for a row

    def __init__(self, parents: Sequence[str]) -> None:
        super().__init__()
        self.parents = tuple(parents)

    @abstractmethod
    def log_prob(
        self, values: Float[Tensor, "batch"], context: Float[Tensor, "batch context"]
    ) -> Float[Tensor, "batch"]:
        """Log-likelihood of values given their encoded parents."""

    @abstractmethod
    def abduct(
        self,
        values: Float[Tensor, "batch"],
        context: Float[Tensor, "batch context"],
        uniform: Float[Tensor, "batch draws"],
    ) -> Float[Tensor, "batch noise"]:
        """Noise that explains the values; what they leave open is taken from ``uniform``."""

    @abstractmethod
    def predict(
        self, noise: Float[Tensor, "batch noise"], context: Float[Tensor, "batch context"]
    ) -> Float[Tensor, "batch"]:
        """Values that the noise leads to under these parents."""


class FlowMechanism(AbstractMechanism):
    r"""A continuous node: a neural spline flow of Gaussian noise.

    .. math:: a = \operatorname{clip}(g(u; pa)), \qquad u \sim \mathcal N(0, 1)

    The flow acts on standardised values and is the identity beyond five standard deviations, so
    attributes with long tails are better given on a log scale. Values beyond the declared range
    are impossible: the mechanism ends in the range, like data that were recorded with a cap.

    Args:
        attribute: The node.
        context: Width of the encoded parents.
        parents: Their names.
    """

    noise_draws = 0
    mean: Tensor
    scale: Tensor

    def __init__(self, attribute: Continuous, context: int, parents: Sequence[str]) -> None:
        from zuko.flows import NSF

        super().__init__(parents)
        self.low, self.high = attribute.low, attribute.high
        self.flow = NSF(features=1, context=context, transforms=2, hidden_features=(32, 32))
        self.register_buffer("mean", torch.zeros(()))
        self.register_buffer("scale", torch.ones(()))

    def standardise(self, values: Float[Tensor, "batch"]) -> None:
        """Set mean and scale from training values."""
        self.mean.copy_(values.mean())
        self.scale.copy_(values.std())

    def log_prob(
        self, values: Float[Tensor, "batch"], context: Float[Tensor, "batch context"]
    ) -> Float[Tensor, "batch"]:
        """Log-density."""
        z = ((values - self.mean) / self.scale)[:, None]
        return self.flow(context).log_prob(z) - self.scale.log()

    def abduct(
        self,
        values: Float[Tensor, "batch"],
        context: Float[Tensor, "batch context"],
        uniform: Float[Tensor, "batch draws"],
    ) -> Float[Tensor, "batch noise"]:
        """Invert the flow; nothing is left open."""
        z = ((values - self.mean) / self.scale)[:, None]
        return self.flow(context).transform(z)

    def predict(
        self, noise: Float[Tensor, "batch noise"], context: Float[Tensor, "batch context"]
    ) -> Float[Tensor, "batch"]:
        """Run the flow."""
        z = self.flow(context).transform.inv(noise)[:, 0]
        return (self.mean + self.scale * z).clamp(self.low, self.high)


class GumbelMechanism(AbstractMechanism):
    r"""A discrete node: :math:`a = \arg\max_j (\ell_j(pa) + u_j)`, u standard Gumbel.

    Args:
        levels: How many values the node has.
        context: Width of the encoded parents.
        parents: Their names.
    """

    def __init__(self, levels: int, context: int, parents: Sequence[str]) -> None:
        super().__init__(parents)
        self.noise_draws = levels + 1
        self.logits = nn.Sequential(
            nn.Linear(context, 32), nn.SiLU(), nn.Linear(32, 32), nn.SiLU(), nn.Linear(32, levels)
        )

    def log_prob(
        self, values: Float[Tensor, "batch"], context: Float[Tensor, "batch context"]
    ) -> Float[Tensor, "batch"]:
        """Log-probability."""
        return -functional.cross_entropy(self.logits(context), values.long(), reduction="none")

    def abduct(
        self,
        values: Float[Tensor, "batch"],
        context: Float[Tensor, "batch context"],
        uniform: Float[Tensor, "batch draws"],
    ) -> Float[Tensor, "batch noise"]:
        """Draw from the posterior of the noise: see :func:`gumbel_posterior`."""
        return gumbel_posterior(self.logits(context), values.long(), uniform)

    def predict(
        self, noise: Float[Tensor, "batch noise"], context: Float[Tensor, "batch context"]
    ) -> Float[Tensor, "batch"]:
        """Take the largest."""
        return (self.logits(context) + noise).argmax(dim=1).double()


def gumbel_posterior(
    logits: Float[Tensor, "batch levels"],
    observed: Int[Tensor, "batch"],
    uniform: Float[Tensor, "batch draws"],
) -> Float[Tensor, "batch levels"]:
    r"""Gumbel noise given that the class k was the largest.

    The maximum is :math:`T = g + \operatorname{logsumexp}(\ell)` whichever class attains it. So
    :math:`u_k = T - \ell_k`, and the others are Gumbels cut off at the maximum:

    .. math:: u_j = -\log(e^{-(g_j + \ell_j)} + e^{-T}) - \ell_j

    Without the logsumexp, as in several public codes, the observed class is not returned.

    Args:
        logits: :math:`\ell`.
        observed: The class k.
        uniform: In (0, 1): one number for the maximum, then one for each level.
    """
    gumbel = -torch.log(-torch.log(uniform.clamp(min=torch.finfo(uniform.dtype).tiny)))
    top = gumbel[:, :1] + logits.logsumexp(dim=1, keepdim=True)
    below = -torch.logaddexp(-(gumbel[:, 1:] + logits), -top)
    # A margin far above rounding and far below anything else: no tie, so k wins always.
    below = below.minimum(top - 1e-9)
    return torch.where(functional.one_hot(observed, logits.shape[1]).bool(), top, below) - logits
