"""The same network, driven by the schedulers of diffusers, where they are installed.

Its timestep i is our time i + 1. With steps that divide T, 'trailing' timesteps end at T and go
down to t = 0 with an alpha of 1 there: our uniform grid. Its own inversion asks the network at the
time that a step leads to; here it is asked at the time it comes from, as in the paper, so that the
images are the same.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from fcfg.bench.baselines import Given, guided
from fcfg.diffusion.schedule import NoiseSchedule


def obstacle(steps: int, schedule: NoiseSchedule) -> str:
    """Why diffusers cannot take part; empty where it can.

    Args:
        steps: From image to noise.
        schedule: The noise levels.
    """
    if find_spec("diffusers") is None:
        return "not installed: pip install diffusers"
    if schedule.steps % steps:
        return f"needs --steps that divide {schedule.steps}"
    return ""


def schedulers(steps: int, schedule: NoiseSchedule) -> tuple[Any, Any]:
    """Diffusers' schedulers from image to noise, and from noise to image.

    Args:
        steps: Of each.
        schedule: The noise levels, which they are given number by number.
    """
    diffusers: Any = import_module("diffusers")
    settings: dict[str, Any] = {
        "num_train_timesteps": schedule.steps,
        "trained_betas": (1 - schedule.alpha[1:] / schedule.alpha[:-1]).tolist(),
        "timestep_spacing": "trailing",
        "set_alpha_to_one": True,
        "clip_sample": False,  # which would not be the paper's step
    }
    both = diffusers.DDIMInverseScheduler(**settings), diffusers.DDIMScheduler(**settings)
    for scheduler in both:
        scheduler.set_timesteps(steps)
    return both


@torch.no_grad()
def driven(given: Given) -> Tensor:
    """Counterfactuals, all conditions of a step in one call."""
    denoiser, x, stride = given.denoiser, given.x, given.times[1]
    up, down = schedulers(len(given.times) - 1, denoiser.schedule)
    for i in up.timesteps.tolist():
        t = x.new_full((len(x),), max(i + 1 - stride, 1), dtype=torch.int64)
        x = up.step(denoiser(x, t, given.factual), i, x).prev_sample
    conditions, count = torch.cat(given.counterfactual), len(given.counterfactual)
    for i in down.timesteps.tolist():
        t = x.new_full((len(conditions),), i + 1, dtype=torch.int64)
        noises = denoiser(x.repeat(count, 1, 1, 1), t, conditions).chunk(count)
        x = down.step(guided(list(noises), given.weights), i, x).prev_sample
    return x.cpu()
