"""The state of a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Float
from torch import Tensor

from fcfg.diffusion.prediction import Images, Rows


@dataclass(frozen=True, eq=False)
class Trajectory:
    """The state of a run: input and output of every step, and the result of abduction."""

    x: Images = field(repr=False)  #: the images at this time, unclamped
    #: Second state of exactly invertible solvers.
    companions: tuple[Images, ...] = field(default=(), repr=False)
    residual: Float[Tensor, "batch"] | None = (
        None  #: largest residual of a refined inversion (RMS)
    )
    evaluations: Rows = 0  #: network rows per image so far

    @property
    def spent(self) -> list[int]:
        """Network rows so far, for each image."""
        rows = self.evaluations
        return rows.tolist() if isinstance(rows, Tensor) else [rows] * len(self.x)

    def map(self, function: Callable[[Tensor], Tensor]) -> Trajectory:
        """Apply a function to every tensor."""
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
        """Concatenate the trajectories of several slices of a batch."""
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
