"""The judge: a network that reads the attributes of an image, in their own units.

Its outputs follow the encoded attributes: a logit for a binary one, a logit for each level of a
categorical one, the scaled value of a continuous one; then, for drawn images, the continuous
factors behind the attributes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from fcfg.causal.attributes import AttributeSpace, Binary, Categorical, Continuous, Table
from fcfg.diffusion.networks import Judge, evaluation_mode
from fcfg.support.errors import InputError, check_integer
from fcfg.support.images import ImagesLike, read_images


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

    def forward(
        self, images: Float[Tensor, "batch channel height width"]
    ) -> Float[Tensor, "batch outputs"]:
        """Return the raw outputs, one row per image."""
        return self.network(images)

    def loss(
        self,
        outputs: Float[Tensor, "batch outputs"],
        values: Float[Tensor, "batch values"],
        factors: Float[Tensor, "batch factors"],
    ) -> Float[Tensor, ""]:
        """Return the loss: cross-entropy for classes, squared error for numbers, summed.

        Args:
            outputs: Outputs of :meth:`forward`.
            values: Attributes, encoded by :meth:`fcfg.causal.attributes.AttributeSpace.encode`.
            factors: Standardised factors, in the order of ``factors``.
        """
        read, shown = outputs.split([values.shape[1], factors.shape[1]], dim=1)
        total = outputs.new_zeros(())
        heads = zip(
            self.space,
            read.split(self.space.widths, dim=1),
            values.split(self.space.widths, dim=1),
            strict=True,
        )
        for attribute, head, value in heads:
            if isinstance(attribute, Binary):
                total = total + functional.binary_cross_entropy_with_logits(head, value)
            elif isinstance(attribute, Categorical):
                total = total + functional.cross_entropy(head, value)
            else:
                total = total + functional.mse_loss(head, value)
        if self.factors:
            total = total + functional.mse_loss(shown, factors) * len(self.factors)
        return total

    @torch.no_grad()
    def read(self, images: ImagesLike, *, batch_size: int = 256) -> Reading:
        """Read the attributes of images, in evaluation mode, on the device of the judge.

        Args:
            images: Float tensor or array in [-1, 1], (batch, channel, height, width), or PIL
                pictures.
            batch_size: Number of images per call.
        """
        check_integer("batch_size", batch_size, 1, 10**9, do="256 is the default")
        x = read_images(images, channels=self.network.config.channels)
        weight = next(self.network.parameters())
        with evaluation_mode(self.network):
            pieces = [
                self.network.features(piece.to(weight.device, weight.dtype))
                for piece in x.split(batch_size)
            ]
            outputs = [self.network.head(piece).double().cpu() for piece in pieces]
        features = torch.cat([piece.float().cpu() for piece in pieces])
        return self._reading(torch.cat(outputs), features)

    def _reading(
        self, outputs: Float[Tensor, "batch outputs"], features: Float[Tensor, "batch feature"]
    ) -> Reading:
        attributes: Table = {}
        scores: dict[str, NDArray[np.float64]] = {}
        read, shown = outputs.split([sum(self.space.widths), len(self.factors)], dim=1)
        heads = read.split(self.space.widths, dim=1)
        for attribute, head in zip(self.space, heads, strict=True):
            name = attribute.name
            if isinstance(attribute, Continuous):
                low, high = attribute.low, attribute.high
                value = low + (head[:, 0].numpy() + 1) / 2 * (high - low)
                scores[name] = value.clip(low, high)  # last, since rounding may leave the range
                attributes[name] = scores[name]
            elif isinstance(attribute, Categorical):
                scores[name] = head.softmax(dim=1).numpy()
                attributes[name] = attribute.column(scores[name].argmax(axis=1))
            else:
                scores[name] = head[:, 0].sigmoid().numpy()
                attributes[name] = (scores[name] > 0.5).astype(np.int64)
        scales = zip(self.factors.items(), shown.unbind(dim=1), strict=True)
        factors = {name: mean + sd * column.numpy() for (name, (mean, sd)), column in scales}
        return Reading(attributes, scores, factors, features.numpy())
