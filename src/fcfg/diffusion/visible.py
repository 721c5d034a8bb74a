"""Conditions of networks that are not ours: values of attributes, and which of them are visible.

A condition is still one flat tensor, so masks, groups, contrast, anchors and batches need to know
nothing new. A conditioner (:mod:`fcfg.diffusion.conditioners`) turns it into what a network takes.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from fcfg.causal.attributes import AttributeSpace
from fcfg.diffusion.embedder import AbstractEmbedder, Keep
from fcfg.diffusion.prediction import Condition
from fcfg.support.errors import InputError


class VisibleAttributes(AbstractEmbedder):
    """Scaled values of all attributes, then 1 for each attribute that is visible; no weights.

    A hidden attribute has the value 0, and the null condition hides all of them.

    >>> from fcfg.causal.attributes import Binary
    >>> embedder = VisibleAttributes(AttributeSpace([Binary("smiling"), Binary("male")]))
    >>> condition = embedder(torch.tensor([[1.0, 1.0]]))
    >>> embedder.masked(condition, torch.tensor([[True, False]]))
    tensor([[1., 0., 1., 0.]])

    Args:
        space: Attributes in the order of their numbers.
        separate: Freedom to hide some attributes while others are visible.
    """

    owner: Tensor  #: position of the attribute that each number of a condition belongs to

    def __init__(self, space: AttributeSpace, separate: bool = True) -> None:
        super().__init__()
        self.space, self.separate = space, separate
        self.width = 1
        count = len(space)
        values = [position for position, width in enumerate(space.widths) for _ in range(width)]
        self.register_buffer("owner", torch.tensor([*values, *range(count)]), persistent=False)

    @property
    def condition_width(self) -> int:
        return len(self.owner)

    def forward(self, values: Float[Tensor, "batch values"]) -> Condition:
        return torch.cat([values, values.new_ones(len(values), len(self.space))], dim=1)

    def shown(self, keep: Keep) -> Bool[Tensor, "#batch condition"]:
        return keep[:, self.owner]

    def check_separate(self, subject: str) -> None:
        if not self.separate:
            raise InputError(
                subject,
                expected="one group of attributes, since each class of the network is one of all",
                got="masks of single attributes",
                do="guide all attributes together, as in cfg:2 or contrast:1.5",
            )

    def values(self, condition: Condition) -> Float[Tensor, "batch values"]:
        """Return the values of a condition; those of hidden attributes are 0."""
        return condition[:, : -len(self.space)]

    def visible(self, condition: Condition) -> Keep:
        """Return which attributes a condition shows."""
        return condition[:, -len(self.space) :] > 0.5
