"""The judge: a network that reads the attributes of an image, in their own units.

Its outputs follow the encoded attributes: a logit for a binary one, a logit for each level of a
categorical one, the scaled value of a continuous one; then, for drawn images, the continuous
factors behind the attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from fcfg.causal.attributes import (
    AbstractAttribute,
    AttributeSpace,
    Binary,
    Categorical,
    Column,
    Continuous,
    Table,
)
from fcfg.diffusion.networks import Judge, evaluation_mode
from fcfg.metrics import level_scores
from fcfg.support.errors import InputError, check_integer
from fcfg.support.images import ImagesLike, read_images
from fcfg.support.tensors import check_finite

Outputs: TypeAlias = Float[Tensor, "batch outputs"]  # raw
Values: TypeAlias = Float[Tensor, "batch values"]  # encoded attributes

#: By the kind of an attribute: the loss of its outputs, and the value expected from them.
_HEADS: Mapping[str, tuple[Callable[[Tensor, Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
    "binary": (functional.binary_cross_entropy_with_logits, torch.sigmoid),
    "categorical": (functional.cross_entropy, lambda head: head.softmax(dim=1)),
    "continuous": (functional.mse_loss, lambda head: head),
}


@dataclass(frozen=True, eq=False)
class Reading:
    """Attributes that a judge reads from images."""

    attributes: Table = field(repr=False)  #: the likeliest values
    scores: dict[str, NDArray[np.float64]] = field(repr=False)
    """For a binary attribute the probability of 1, (batch,); for a categorical one that of every
    level, (batch, levels); for a continuous one the value, (batch,)."""
    factors: dict[str, NDArray[np.float64]] = field(repr=False)  #: if the judge reads any
    features: Float[np.ndarray, "batch feature"] = field(repr=False)  #: inputs of the last layer


class AttributeJudge(nn.Module):
    """A network with a head for each attribute, by its kind, and for each known factor.

    >>> from fcfg.diffusion.networks import JudgeConfig
    >>> space = AttributeSpace([Binary("smiling"), Categorical("hair", ["dark", "fair"])])
    >>> judge = AttributeJudge(Judge(JudgeConfig(outputs=3, width=4)), space)
    >>> judge.read(torch.zeros(2, 3, 16, 16)).scores["hair"].shape
    (2, 2)

    Args:
        network: Network with one output for each encoded number and each factor.
        space: The attributes.
        factors: Mean and standard deviation of each factor, which scale its output.
    """

    def __init__(
        self,
        network: Judge,
        space: AttributeSpace,
        factors: Mapping[str, tuple[float, float]] | None = None,
    ) -> None:
        super().__init__()
        self.network = network
        self.space = space
        self.factors = dict(factors or {})
        wanted = sum(space.widths) + len(self.factors)
        if network.config.outputs != wanted:
            raise InputError(
                "judge",
                expected=f"{wanted} outputs, for {list(space.names)} and its factors",
                got=network.config.outputs,
                do="build its network with that many",
            )

    def forward(self, images: Float[Tensor, "batch channel *size"]) -> Outputs:
        """Return the raw outputs, one row per image."""
        return self.network(images)

    def loss(
        self,
        outputs: Outputs,
        values: Values,
        factors: Float[Tensor, "batch factors"],
    ) -> Float[Tensor, ""]:
        """Return the loss: cross-entropy for classes, squared error for numbers, summed.

        Attributes are encoded, factors standardised.
        """
        total = self.attribute_loss(outputs, values)
        if self.factors:
            shown = outputs[:, values.shape[1] :]
            total = total + functional.mse_loss(shown, factors) * len(self.factors)
        return total

    def attribute_loss(self, outputs: Outputs, values: Values) -> Float[Tensor, ""]:
        """Return the loss of the attributes alone, or of probabilities in place of classes."""
        total = outputs.new_zeros(())
        heads = zip(self._heads(outputs), values.split(self.space.widths, dim=1), strict=True)
        for (attribute, head), value in heads:
            loss, _ = _HEADS[attribute.kind]
            total = total + loss(head, value)
        return total

    def expected_values(self, outputs: Outputs) -> Values:
        """Return the encoded attributes that the judge expects: probabilities of classes."""
        values = [_HEADS[attribute.kind][1](head) for attribute, head in self._heads(outputs)]
        return torch.cat(values, dim=1)

    def _heads(self, outputs: Tensor) -> Iterator[tuple[AbstractAttribute, Tensor]]:
        """Return the outputs of each attribute."""
        heads = outputs[:, : sum(self.space.widths)].split(self.space.widths, dim=1)
        return zip(self.space, heads, strict=True)

    @torch.no_grad()
    def read(self, images: ImagesLike, *, batch_size: int = 256) -> Reading:
        """Read the attributes of images, in evaluation mode, on the device of the judge."""
        check_integer("batch_size", batch_size, 1, 10**9, do="256 is the default")
        config = self.network.config
        x = read_images(images, channels=config.channels, dimensions=config.dimensions)
        weight = next(self.network.parameters())
        with evaluation_mode(self.network):
            pieces = [
                self.network.features(piece.to(weight.device, weight.dtype))
                for piece in x.split(batch_size)
            ]
            outputs = [self.network.head(piece).double().cpu() for piece in pieces]
        features = torch.cat([piece.float().cpu() for piece in pieces])
        return self._reading(torch.cat(outputs), features)

    def _reading(self, outputs: Outputs, features: Float[Tensor, "batch feature"]) -> Reading:
        check_finite("judge", {"outputs": outputs})
        expected = self.expected_values(outputs)
        attributes = self.space.decode(expected.numpy())
        scores = dict(attributes)
        for attribute, head in self._heads(expected):
            if isinstance(attribute, Binary | Categorical):
                score = head.numpy()
                scores[attribute.name] = score if score.shape[1] > 1 else score[:, 0]
        shown = outputs[:, sum(self.space.widths) :]
        scales = zip(self.factors.items(), shown.unbind(dim=1), strict=True)
        factors = {name: mean + sd * column.numpy() for (name, (mean, sd)), column in scales}
        return Reading(attributes, scores, factors, features.numpy())


def judged(
    attribute: AbstractAttribute, scores: Column, values: Column, closest: float = 1e-9
) -> NDArray[np.float64]:
    """Return how clearly a judge reads given values: log-odds, or the value read minus the given.

    Probabilities that are as close to 0 or 1 as ``closest`` are not told apart.

    >>> judged(Binary("male"), np.array([0.5, 0.9]), np.array([1, 0])).round(1)
    array([ 0. , -2.2])
    """
    if isinstance(attribute, Continuous):
        return scores - values
    if isinstance(attribute, Categorical):
        share = level_scores(scores, values)
    else:
        share = np.where(values == 1, scores, 1 - scores)
    share = share.clip(closest, 1 - closest)
    return np.log(share) - np.log1p(-share)
