"""Baselines: plain sampling loops, and the DDIM schedulers of diffusers.

They share the network and nothing else with the package: no plan, no predictor, no solver. All of
them, and ours, compute the same images.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from fcfg.bench.bench_model import Workload
from fcfg.diffusion.denoiser import Denoiser
from fcfg.diffusion.networks import UNet
from fcfg.diffusion.schedule import NoiseSchedule
from fcfg.sampling import time_grid


@dataclass(frozen=True, eq=False)
class Inputs:
    """A workload as tensors on the device."""

    denoiser: Denoiser
    x: Tensor  #: images
    factual: Tensor  #: condition
    counterfactual: list[Tensor]  #: the null condition, then the masked condition of each group
    weights: list[float]
    times: tuple[int, ...]  #: ascending

    @classmethod
    def of(cls, workload: Workload) -> Inputs:
        """Embed the attributes, and convert the weights to channels-last memory."""
        pipeline = workload.model.fresh()
        denoiser, network = pipeline.denoiser, pipeline.denoiser.network
        assert isinstance(network, UNet)
        network.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue] # torch's overloads omit it
        network.memory_format = torch.channels_last
        action = pipeline.act(workload.attributes, workload.do)
        times = time_grid(denoiser.schedule, workload.steps)
        weights = workload.guidance.table(workload.named_groups, times[::-1], denoiser.schedule)
        masks = torch.tensor(workload.groups.mask(pipeline.space.names), device=denoiser.device)
        with torch.no_grad():
            factual = denoiser.condition(workload.attributes)
            changed = denoiser.condition(action.attributes)
            masked = [denoiser.embedder.masked(changed, mask[None]) for mask in masks]
        return cls(
            denoiser,
            workload.images.to(denoiser.device, denoiser.state_dtype),
            factual,
            [torch.zeros_like(changed), *masked],
            weights.weights[0].tolist(),
            times,
        )


def batched_loop(inputs: Inputs) -> Tensor:
    """Compute counterfactuals by DDIM, with one network call for all conditions of a step."""
    conditions = torch.cat(inputs.counterfactual)

    def predict(x: Tensor, t: int) -> list[Tensor]:
        rows = x.repeat(len(inputs.counterfactual), 1, 1, 1)
        noise = inputs.denoiser(rows, _times(rows, t), conditions)
        return list(noise.chunk(len(inputs.counterfactual)))

    return _loop(inputs, predict)


def separate_loop(inputs: Inputs) -> Tensor:
    """Compute counterfactuals by DDIM, with one network call for each condition of a step."""

    def predict(x: Tensor, t: int) -> list[Tensor]:
        return [inputs.denoiser(x, _times(x, t), c) for c in inputs.counterfactual]

    return _loop(inputs, predict)


@torch.no_grad()
def _loop(inputs: Inputs, predict: Callable[[Tensor, int], list[Tensor]]) -> Tensor:
    alpha, x = inputs.denoiser.schedule.alpha.tolist(), inputs.x
    for t, s in pairwise(inputs.times):
        eps = inputs.denoiser(x, _times(x, t), inputs.factual)
        x = _ddim(x, eps, alpha[t], alpha[s])
    for t, s in pairwise(inputs.times[::-1]):
        x = _ddim(x, guided(predict(x, t), inputs.weights), alpha[t], alpha[s])
    return x.cpu()


def guided(noises: list[Tensor], weights: list[float]) -> Tensor:
    """Apply the rule of FCFG.

    >>> guided([torch.tensor(1.0), torch.tensor(2.0), torch.tensor(0.0)], [3.0, 1.5])
    tensor(2.5000)
    """
    null, *groups = noises
    eps = null
    for weight, group in zip(weights, groups, strict=True):
        eps = eps + weight * (group - null)
    return eps


def _times(x: Tensor, t: int) -> Tensor:
    return torch.full((len(x),), max(t, 1), device=x.device)


def _ddim(x: Tensor, eps: Tensor, alpha_t: float, alpha_s: float) -> Tensor:
    clean = (x - (1 - alpha_t) ** 0.5 * eps) / alpha_t**0.5
    return alpha_s**0.5 * clean + (1 - alpha_s) ** 0.5 * eps


def diffusers_obstacle(steps: int, schedule: NoiseSchedule) -> str:
    """Return why diffusers cannot run the workload, or an empty string if it can.

    Args:
        steps: Number of steps from image to noise.
        schedule: The noise levels.
    """
    if find_spec("diffusers") is None:
        return "not installed: pip install diffusers"
    return f"needs --steps that divide {schedule.steps}" if schedule.steps % steps else ""


@torch.no_grad()
def diffusers_loop(inputs: Inputs) -> Tensor:
    """Compute counterfactuals with DDIMInverseScheduler and DDIMScheduler.

    Their timestep i is our time i + 1. If the steps divide T, 'trailing' timesteps are our uniform
    grid. The inversion of diffusers evaluates the network at the time that a step leads to; this
    one evaluates it at the time that a step starts from, as in the paper.
    """
    denoiser, x, stride = inputs.denoiser, inputs.x, inputs.times[1]
    alpha = denoiser.schedule.alpha
    diffusers: Any = import_module("diffusers")
    settings: dict[str, Any] = {
        "num_train_timesteps": denoiser.schedule.steps,
        "trained_betas": (1 - alpha[1:] / alpha[:-1]).tolist(),
        "timestep_spacing": "trailing",
        "set_alpha_to_one": True,
        "clip_sample": False,  # the paper does not clip
    }
    up, down = diffusers.DDIMInverseScheduler(**settings), diffusers.DDIMScheduler(**settings)
    for scheduler in (up, down):
        scheduler.set_timesteps(len(inputs.times) - 1)
    for i in up.timesteps.tolist():
        t = x.new_full((len(x),), max(i + 1 - stride, 1), dtype=torch.int64)
        x = up.step(denoiser(x, t, inputs.factual), i, x).prev_sample
    conditions, count = torch.cat(inputs.counterfactual), len(inputs.counterfactual)
    for i in down.timesteps.tolist():
        t = x.new_full((len(conditions),), i + 1, dtype=torch.int64)
        noises = denoiser(x.repeat(count, 1, 1, 1), t, conditions).chunk(count)
        x = down.step(guided(list(noises), inputs.weights), i, x).prev_sample
    return x.cpu()
