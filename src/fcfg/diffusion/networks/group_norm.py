"""Group normalisation that is fast where networks are compiled for a GPU."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

#: Scale, which is added to 1, and shift; of every image and channel.
Modulation = tuple[Float[Tensor, "batch channel"], Float[Tensor, "batch channel"]]


class GroupNorm(nn.GroupNorm):
    """Torch's, and what modulates its channels, where that is given.

    It differs from torch's in how it is compiled for a GPU. The channels of a pixel lie side by
    side (channels-last), those of a group are some of them. ``torch.compile`` sums group by group,
    and so picks a few bytes from every pixel. This one sums every channel, all of them at once,
    and then adds up the channels of each group; and what is done to the pixels of a channel is
    one product and one sum, whatever modulates it.

    >>> norm, x = GroupNorm(2, 6), torch.randn(3, 6, 4, 4)
    >>> torch.allclose(norm.by_channels(x), norm(x), atol=1e-6)
    True
    """

    def forward(self, input: Tensor, modulation: Modulation | None = None) -> Tensor:
        """Torch's own, or :meth:`by_channels` where it is compiled for a GPU."""
        rather = input.is_cuda and torch.compiler.is_compiling()
        return (self.by_channels if rather else self._by_groups)(input, modulation)

    def _by_groups(self, x: Tensor, modulation: Modulation | None) -> Tensor:
        normal = super().forward(x)
        if modulation is None:
            return normal
        scale, shift = (each[..., None, None] for each in modulation)
        return normal * (1 + scale) + shift

    def by_channels(
        self,
        x: Float[Tensor, "batch channel height width"],
        modulation: Modulation | None = None,
    ) -> Float[Tensor, "batch channel height width"]:
        """The same in sums of channels; in float32 at least, whatever the image is in.

        Args:
            x: The images.
            modulation: Scale and shift of the normalised channels.
        """
        exact = x.to(torch.promote_types(x.dtype, torch.float32))
        mean = self._over_groups(exact.mean((2, 3)))
        spread = self._over_groups(exact.square().mean((2, 3))) - mean.square()
        factor = self.weight * torch.rsqrt(spread.clamp(min=0) + self.eps)
        summand = self.bias - mean * factor
        if modulation is not None:
            scale, shift = (each.to(exact.dtype) for each in modulation)
            factor, summand = factor * (1 + scale), summand * (1 + scale) + shift
        return (exact * factor[..., None, None] + summand[..., None, None]).to(x.dtype)

    def _over_groups(self, channels: Float[Tensor, "batch channel"]) -> Tensor:
        """The mean of the channels of each group, for every channel."""
        grouped = channels.unflatten(1, (self.num_groups, -1))
        return grouped.mean(2, keepdim=True).expand_as(grouped).flatten(1)
