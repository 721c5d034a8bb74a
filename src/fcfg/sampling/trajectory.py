"""Where a run stands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Float
from torch import Tensor

from fcfg.diffusion.prediction import Images, Rows


@dataclass(frozen=True, eq=False)
class Trajectory:
    """Where a run stands: what a solver starts from, what it returns, what abduction keeps."""

    x: Images = field(repr=False)  #: the images at this time, unclamped
    #: Second state of exactly invertible schemes.
    companions: tuple[Images, ...] = field(default=(), repr=False)
    residual: Float[Tensor, "batch"] | None = None  #: worst miss of a refined inversion (RMS)
    evaluations: Rows = 0  #: network rows spent so far on each image

    @property
    def spent(self) -> list[int]:
        """Network rows spent so far, image by image."""
        rows = self.evaluations
        return rows.tolist() if isinstance(rows, Tensor) else [rows] * len(self.x)

    def map(self, function: Callable[[Tensor], Tensor]) -> Trajectory:
        """Apply a function to every tensor: move it, slice it."""
        rows = self.evaluations
        return replace(
            self,
            x=function(self.x),
            companions=tuple(function(companion) for companion in self.companions),
            residual=None if self.residual is None else function(self.residual),
            evaluations=function(rows) if isinstance(rows, Tensor) else rows,
        )

    @staticmethod
    def joined(pieces: Sequence[Trajectory]) -> Trajectory:
        """Put the trajectories of several slices of a batch together."""
        residuals = [piece.residual for piece in pieces if piece.residual is not None]
        spent = [rows for piece in pieces for rows in piece.spent]
        companions = zip(*(piece.companions for piece in pieces), strict=True)
        return replace(
            pieces[0],
            x=torch.cat([piece.x for piece in pieces]),
            companions=tuple(torch.cat(tensors) for tensors in companions),
            residual=torch.cat(residuals) if residuals else None,
            evaluations=spent[0] if len(set(spent)) == 1 else torch.tensor(spent),
        )
