"""Wrapped networks take the steps that their own libraries take with their own guidance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from fcfg.integrations.wrapping import wrap
from fcfg.pipeline.foreign import ForeignPipeline
from tiny_foreign import SCM, SPACE, TABLE, foreign, generated

WHOLE, NONE = torch.ones(2, 2, dtype=torch.bool), torch.zeros(2, 2, dtype=torch.bool)
VALUES = torch.from_numpy(SPACE.encode(SPACE.parse(TABLE)))


def wrapped(name: str, scheduler: Any, dtype: torch.dtype) -> ForeignPipeline:
    network = foreign(name)
    pipeline = wrap(network.network, scheduler, SCM, network.conditioner, config=network.config)
    pipeline.denoiser.to(dtype)
    return pipeline


def theirs(
    pipeline: ForeignPipeline, x: Tensor, times: Sequence[Any], weight: float, step: Any
) -> Tensor:
    """The loop of a library: null and condition in one batch, then a step of its scheduler."""
    network = pipeline.denoiser.network
    made = [network.conditioner(VALUES.to(x), shown) for shown in (NONE, WHOLE)]
    both = torch.cat([network.attributes(VALUES.to(x))] * 2)
    both[:2] = 0
    assert any(not torch.equal(made[0][name], made[1][name]) for name in made[0])
    for time in times:
        t = torch.as_tensor(time).expand(4)
        null, given = network(torch.cat([x, x]), t, both).chunk(2)
        x = step(null + weight * (given - null), time, x)
    return x


def start(pipeline: ForeignPipeline, dtype: torch.dtype) -> Tensor:
    sides = [pipeline.size or 4] * pipeline.dimensions
    generator = torch.Generator().manual_seed(0)
    return torch.randn(2, pipeline.channels, *sides, generator=generator).to(dtype)


def check_equal(
    pipeline: ForeignPipeline, times: Sequence[int], called: Sequence[Any], step: Any, x: Tensor
) -> None:
    weight = 4.0
    with torch.no_grad():
        one = generated(pipeline, x, times, weight)
        other = theirs(pipeline, x, called, weight, step)
        plain = generated(pipeline, x, times, 1.0)
    bound = 1e-12 if x.dtype == torch.float64 else 1e-4
    assert ((one - other).abs().max() / other.abs().max()).item() < bound
    assert ((one - plain).square().mean() / plain.square().mean()).sqrt() > 0.01


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", ["unet", "prompted_unet", "sdxl", "dit"])
def test_noises_take_the_steps_of_ddim_with_their_spacing(name: str, dtype: torch.dtype) -> None:
    diffusers = pytest.importorskip("diffusers", reason="needs the extra diffusers")
    shape: dict[str, Any] = {"beta_schedule": "scaled_linear", "set_alpha_to_one": False}
    shape |= {"beta_start": 0.00085, "beta_end": 0.012, "clip_sample": False, "steps_offset": 1}
    scheduler = diffusers.DDIMScheduler(**shape)
    for table in ("alphas_cumprod", "final_alpha_cumprod"):
        setattr(scheduler, table, getattr(scheduler, table).to(dtype))
    pipeline = wrapped(name, scheduler, dtype)
    scheduler.set_timesteps(5)
    called = list(scheduler.timesteps)
    times = [int(t) + 1 for t in called] + [1]

    def step(output: Tensor, time: Tensor, x: Tensor) -> Tensor:
        return scheduler.step(output, time, x).prev_sample

    check_equal(pipeline, times, called, step, start(pipeline, dtype))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", ["sd3", "flux"])
def test_flows_take_the_steps_of_euler_from_pure_noise(name: str, dtype: torch.dtype) -> None:
    diffusers = pytest.importorskip("diffusers", reason="needs the extra diffusers")
    scheduler = diffusers.FlowMatchEulerDiscreteScheduler(shift=3.0)
    scheduler.set_timesteps(5)
    pipeline = wrapped(name, scheduler, dtype)
    sigmas = scheduler.sigmas.to(dtype)
    moves = iter((sigmas[1:] - sigmas[:-1]).tolist())

    def step(output: Tensor, time: Tensor, x: Tensor) -> Tensor:
        return x + next(moves) * output  # as theirs, which is in float32 always

    x = start(pipeline, dtype)
    check_equal(pipeline, range(5, -1, -1), list(scheduler.timesteps), step, x)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_volumes_take_the_steps_of_monai_and_of_its_rectified_flow(dtype: torch.dtype) -> None:
    schedulers = pytest.importorskip("monai.networks.schedulers", reason="needs the extra monai")
    scheduler = schedulers.DDIMScheduler(schedule="scaled_linear_beta", clip_sample=False)
    scheduler.alphas_cumprod = scheduler.alphas_cumprod.to(dtype)
    pipeline = wrapped("monai_unet", scheduler, dtype)
    scheduler.set_timesteps(5)
    called = [800, 600, 400, 200, 0]  # where its steps end; its own timesteps are elsewhere
    times = [t + 1 for t in called] + [0]

    def step(output: Tensor, time: int, x: Tensor) -> Tensor:
        return scheduler.step(output, time, x)[0]

    check_equal(pipeline, times, called, step, start(pipeline, dtype))
    flow = schedulers.RFlowScheduler(num_train_timesteps=1000)
    flow.set_timesteps(5, device="cpu")
    pipeline = wrapped("monai_unet", flow, dtype)
    called = [float(t) for t in flow.timesteps]
    following = dict(zip(called, [*called[1:], 0.0], strict=True))

    def move(output: Tensor, time: float, x: Tensor) -> Tensor:
        return flow.step(output, time, x, following[time])[0]

    last = pipeline.denoiser.schedule.steps
    check_equal(pipeline, range(last, -1, -1), called, move, start(pipeline, dtype))
