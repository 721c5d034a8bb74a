r"""The times of training: how often each level of noise is seen.

A share of the way from image to noise is drawn, moved towards noise by a shift, and falls into one
of the times 1..T. The shift of a flow's schedule acts on the level of noise of a time, that of the
training on how often the time is drawn.

References:
    Scaling rectified flow transformers for high-resolution image synthesis (Esser et al., 2024),
    logit-normal times and the shift.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Literal, TypeAlias, get_args

import torch
from jaxtyping import Int
from torch import Tensor

from fcfg.diffusion.table import shifted
from fcfg.support.errors import InputError, check_among, short

Spread: TypeAlias = Literal["uniform", "logit-normal"]


@dataclass(frozen=True)
class TrainingTimes:
    """How times are drawn in training.

    >>> TrainingTimes("logit-normal").draw(3, 1000, torch.Generator().manual_seed(0)).tolist()
    [824, 428, 102]

    Args:
        spread: 'uniform', as in the paper, or 'logit-normal', with most times in the middle.
        shift: Factor of the odds of a share; above 1, noisy times are seen more often.
    """

    spread: Spread = "uniform"
    shift: float = 1.0

    def __post_init__(self) -> None:
        check_among("times of training", self.spread, get_args(Spread))
        if not (isfinite(self.shift) and self.shift > 0):
            raise InputError(
                "times of training, shift",
                expected="a number above 0",
                got=short(self.shift),
                do="1 leaves the times as they are, 3 is common at high resolution",
            )

    def draw(self, batch: int, steps: int, generator: torch.Generator) -> Int[Tensor, "batch"]:
        """Draw a time from 1 to T for each image, on the device of the generator."""
        size, device = (batch,), generator.device
        if self == TrainingTimes():
            return torch.randint(1, steps + 1, size, generator=generator, device=device)
        if self.spread == "uniform":
            share = torch.rand(size, generator=generator, device=device)
        else:
            share = torch.randn(size, generator=generator, device=device).sigmoid()
        return (1 + (steps * shifted(share, self.shift)).long()).clamp(max=steps)
