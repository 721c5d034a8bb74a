"""Baselines: a plain sampling loop, and the DDIM schedulers of diffusers.

They share the network and nothing else with the package: no plan, no predictor, no solver. Both,
and ours, compute the same images.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from fcfg.bench.workload import Workload
from fcfg.sampling import time_grid


@torch.no_grad()
def plain_loop(workload: Workload) -> Tensor:
    """Compute counterfactuals by DDIM, or those of a flow by Euler's method."""
    schedule = workload.pipeline.denoiser.schedule
    signal, noise = (level.tolist() for level in schedule.levels)
    times = time_grid(schedule, workload.steps)
    x, factual, guided = _networks(workload)

    def step(x: Tensor, predicted: Tensor, t: int, s: int) -> Tensor:
        if schedule.is_flow:
            return x + (noise[s] - noise[t]) * predicted
        clean = (x - noise[t] * predicted) / signal[t]
        return signal[s] * clean + noise[s] * predicted

    for t, s in pairwise(times):
        x = step(x, factual(x, t), t, s)
    for t, s in pairwise(times[::-1]):
        x = step(x, guided(x, t), t, s)
    return x.cpu()


@torch.no_grad()
def diffusers_loop(workload: Workload) -> Tensor:
    """Compute counterfactuals with DDIMInverseScheduler and DDIMScheduler.

    Their timestep i is our time i + 1. If the steps divide T, 'trailing' timesteps are our uniform
    grid. The inversion of diffusers evaluates the network at the time that a step leads to; this
    one evaluates it at the time that a step starts from, as in the paper.
    """
    schedule = workload.pipeline.denoiser.schedule
    alpha, stride = schedule.alpha, schedule.steps // workload.steps
    diffusers: Any = import_module("diffusers")
    settings: dict[str, Any] = {
        "num_train_timesteps": schedule.steps,
        "trained_betas": (1 - alpha[1:] / alpha[:-1]).tolist(),
        "timestep_spacing": "trailing",
        "set_alpha_to_one": True,
        "clip_sample": False,  # the paper does not clip
    }
    up, down = diffusers.DDIMInverseScheduler(**settings), diffusers.DDIMScheduler(**settings)
    up.set_timesteps(workload.steps)
    down.set_timesteps(workload.steps)
    x, factual, guided = _networks(workload)
    for i in up.timesteps.tolist():
        x = up.step(factual(x, i + 1 - stride), i, x).prev_sample
    for i in down.timesteps.tolist():
        x = down.step(guided(x, i + 1), i, x).prev_sample
    return x.cpu()


def diffusers_obstacle(workload: Workload) -> str:
    """Return why diffusers cannot run a workload, or an empty string if it can."""
    try:
        import_module("diffusers")
    except ImportError:
        return "not installed: pip install diffusers"
    schedule = workload.pipeline.denoiser.schedule
    if schedule.is_flow:
        return "needs a schedule of noises: DDIM has no flows"
    total = schedule.steps
    return f"needs --steps that divide {total}" if total % workload.steps else ""


_Noise = Callable[[Tensor, int], Tensor]


def _networks(workload: Workload) -> tuple[Tensor, _Noise, _Noise]:
    """Return the images, and the noise under the factual condition and under the rule of FCFG."""
    pipeline, denoiser = workload.pipeline, workload.pipeline.denoiser
    weights = [weight for weight, _ in workload.groups]
    action = pipeline.act(workload.attributes, workload.do)
    condition, changed = map(denoiser.condition, (workload.attributes, action.attributes))
    conditions = [torch.zeros_like(changed)]
    for _, members in workload.groups:
        keep = torch.tensor([[name in members for name in pipeline.space.names]])
        conditions.append(denoiser.embedder.masked(changed, keep.to(denoiser.device)))
    every = torch.cat(conditions)

    def noise(x: Tensor, t: int, condition: Tensor) -> Tensor:
        return denoiser(x, torch.full((len(x),), max(t, 1), device=x.device), condition)

    def guided(x: Tensor, t: int) -> Tensor:
        rows = x.repeat(1 + len(weights), 1, 1, 1)  # one network call for all conditions
        null, *others = noise(rows, t, every).chunk(1 + len(weights))
        return null + sum(w * (group - null) for w, group in zip(weights, others, strict=True))

    images = workload.images.to(denoiser.device, denoiser.state_dtype)
    return images, lambda x, t: noise(x, t, condition), guided
