"""Where a run stands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Float
from torch import Tensor

from fcfg.denoise import Images


@dataclass(frozen=True, eq=False)
class Trajectory:
    """Where a run stands: what a solver starts from, what it returns, what abduction keeps."""

    x: Images = field(repr=False)  #: the images at this time, unclamped
    #: Second state of exactly invertible schemes.
    companions: tuple[Images, ...] = field(default=(), repr=False)
    residual: Float[Tensor, "batch"] | None = None  #: worst miss of a refined inversion (RMS)
    evaluations: int = 0  #: network rows spent so far on each image

    def map(self, function: Callable[[Tensor], Tensor]) -> Trajectory:
        """Apply a function to every tensor: move it, slice it."""
        return replace(
            self,
            x=function(self.x),
            companions=tuple(function(companion) for companion in self.companions),
            residual=None if self.residual is None else function(self.residual),
        )

    @staticmethod
    def joined(pieces: Sequence[Trajectory]) -> Trajectory:
        """Put the trajectories of several slices of a batch together."""
        residuals = [piece.residual for piece in pieces if piece.residual is not None]
        companions = zip(*(piece.companions for piece in pieces), strict=True)
        return replace(
            pieces[0],
            x=torch.cat([piece.x for piece in pieces]),
            companions=tuple(torch.cat(tensors) for tensors in companions),
            residual=torch.cat(residuals) if residuals else None,
        )
