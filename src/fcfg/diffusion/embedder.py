r"""The attribute-split conditioning embedder (Sec. 3.1).

Each attribute has its own network and its own block of the condition:

.. math:: c = \operatorname{concat}(\mathcal E_1(pa_1), \dots, \mathcal E_K(pa_K))

Masking an attribute sets its block to zero *after* embedding; the null token is all zeros.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TypeAlias

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from fcfg.causal.attributes import AttributeSpace
from fcfg.diffusion.prediction import Condition

Keep: TypeAlias = Bool[Tensor, "#batch attributes"]  # a row per image, or one for all


class AbstractEmbedder(nn.Module, ABC):
    """Turns attributes into a condition, or a part of it, and masks conditions."""

    space: AttributeSpace  #: the attributes, in the order of their numbers
    width: int  #: size that the config of a model stores

    @property
    @abstractmethod
    def condition_width(self) -> int:
        """Size of the condition."""

    @abstractmethod
    def forward(self, values: Float[Tensor, "batch values"]) -> Float[Tensor, "batch part"]:
        """Embed the output of :meth:`fcfg.causal.attributes.AttributeSpace.encode`."""

    def null_for(self, condition: Condition) -> Condition:
        """Return the null token in place of each condition: zeros, unless it is another."""
        return torch.zeros_like(condition)

    @abstractmethod
    def shown(self, keep: Keep) -> Bool[Tensor, "#batch #condition"]:
        """Return which numbers of a condition belong to attributes that are kept."""

    def masked(
        self, condition: Condition, keep: Keep, other: Condition | None = None
    ) -> Condition:
        r"""Keep some attributes; set the others to the null token, or to those of ``other``.

        .. math:: \mathbf c^{(m)} = \operatorname{concat}(
            \delta_1^{(m)} \mathcal E_1(pa_1), \dots, \delta_K^{(m)} \mathcal E_K(pa_K))

        A row of ``keep`` is for one image, or one row is for all.
        """
        shown = self.shown(keep)
        return torch.where(shown, condition, self.null_for(condition) if other is None else other)

    def check_separate(self, subject: str) -> None:
        """Refuse what masks single attributes, if this embedder cannot; by default it can."""


class AttributeEmbedder(AbstractEmbedder):
    """One network per attribute: two linear layers of size ``width`` with SiLU between them.

    >>> from fcfg.causal.attributes import Binary
    >>> embedder = AttributeEmbedder(AttributeSpace([Binary("smiling"), Binary("male")]))
    >>> embedder(torch.tensor([[1.0, 0.0]])).shape
    torch.Size([1, 64])
    >>> sum(p.numel() for p in embedder.parameters())  # 1,120 for each scalar, as in App. D
    2240

    Args:
        space: Attributes in the order of their blocks.
        width: Size d of a block.
    """

    def __init__(self, space: AttributeSpace, width: int = 32) -> None:
        super().__init__()
        self.space = space
        self.width = width
        self.branches = nn.ModuleList(
            nn.Sequential(nn.Linear(values, width), nn.SiLU(), nn.Linear(width, width))
            for values in space.widths
        )

    @property
    def condition_width(self) -> int:
        return len(self.space) * self.width

    def forward(self, values: Float[Tensor, "batch values"]) -> Condition:
        columns = values.split(self.space.widths, dim=1)
        blocks = [branch(column) for branch, column in zip(self.branches, columns, strict=True)]
        return torch.cat(blocks, dim=1)

    def shown(self, keep: Keep) -> Bool[Tensor, "#batch condition"]:
        return keep.repeat_interleave(self.width, dim=1)
