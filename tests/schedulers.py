"""Stand-ins for the schedulers of diffusers, written from its formulas, for where it is missing.

Only what ``fcfg bench`` asks of them: given betas, 'trailing' timesteps, an alpha of 1 at the
image, no clipping. Where diffusers is installed, the same test runs on the real ones.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor


class _Scheduler:
    def __init__(
        self,
        *,
        num_train_timesteps: int,
        trained_betas: list[float],
        timestep_spacing: str,
        set_alpha_to_one: bool,
        clip_sample: bool,
    ) -> None:
        assert timestep_spacing == "trailing"
        assert set_alpha_to_one
        assert not clip_sample
        self.total = num_train_timesteps
        self.alphas_cumprod = (1 - torch.tensor(trained_betas)).cumprod(0)

    def set_timesteps(self, steps: int) -> None:
        self.stride = self.total // steps
        self.timesteps = torch.arange(self.total, 0, -self.stride) - 1

    def _alpha(self, timestep: int) -> Tensor:
        return self.alphas_cumprod[timestep] if timestep >= 0 else torch.tensor(1.0)

    def _step(self, eps: Tensor, x: Tensor, t: int, s: int) -> Any:
        alpha_t, alpha_s = self._alpha(t), self._alpha(s)
        clean = (x - (1 - alpha_t).sqrt() * eps) / alpha_t.sqrt()
        return SimpleNamespace(prev_sample=alpha_s.sqrt() * clean + (1 - alpha_s).sqrt() * eps)


class DDIMScheduler(_Scheduler):
    def step(self, eps: Tensor, timestep: int, x: Tensor) -> Any:
        return self._step(eps, x, timestep, timestep - self.stride)


class DDIMInverseScheduler(_Scheduler):
    """Its timesteps name where a step leads to."""

    def set_timesteps(self, steps: int) -> None:
        super().set_timesteps(steps)
        self.timesteps = self.timesteps.flip(0)

    def step(self, eps: Tensor, timestep: int, x: Tensor) -> Any:
        return self._step(eps, x, timestep - self.stride, timestep)
