"""The denoiser: its schedule, its embedder, and the steps of its training."""

from __future__ import annotations

import inspect
import subprocess
import sys
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

import reference
from fcfg import AttributeEmbedder, AttributeSpace, Binary, Categorical, Continuous, Denoiser
from fcfg.diffusion.networks import UNet, UNetConfig
from fcfg.diffusion.schedule import NoiseSchedule, prediction_from_output, training_target
from refusal import refused
from tiny import tiny_pipeline
from worlds import binary_space, readable_embedder

SCHEDULE = NoiseSchedule()
KINDS = ["noise", "image", "velocity"]


def test_levels_agree_with_the_reference() -> None:
    """And are on the CPU, whatever the default device."""
    references = {"linear": reference.linear_alpha, "cosine": reference.cosine_alpha}
    for (kind, of), steps in product(references.items(), (100, 1000)):
        alpha, t = of(steps), torch.arange(steps + 1)
        with torch.device("meta"):
            schedule = NoiseSchedule(kind, steps)
        np.testing.assert_allclose(schedule.alpha.numpy(), alpha, rtol=1e-12)
        np.testing.assert_allclose(schedule.signal(t).numpy(), np.sqrt(alpha), rtol=1e-12)
        np.testing.assert_allclose(schedule.noise(t).numpy(), np.sqrt(1 - alpha), atol=1e-12)


@given(st.sampled_from(KINDS), st.integers(1, 1000), st.integers(0, 99))
def test_conversions_recover_noise_and_image_from_the_target(kind, t: int, seed: int) -> None:
    signal, noise = SCHEDULE.signal(torch.tensor(t)), SCHEDULE.noise(torch.tensor(t))
    generator = torch.Generator().manual_seed(seed)
    x_0, eps = torch.randn(2, 2, 3, 4, 4, generator=generator, dtype=torch.float64)
    x_t = signal * x_0 + noise * eps
    output = training_target(x_0, eps, signal, noise, kind)
    recovered = prediction_from_output(output, x_t, signal, noise, kind)
    assert torch.allclose(recovered, eps, atol=1e-11)
    assert torch.allclose((x_t - noise * recovered) / signal, x_0, atol=1e-8)


def test_a_block_is_a_two_layer_network_of_one_attribute() -> None:
    embedder = AttributeEmbedder(binary_space(1), width=8)
    first, second = embedder.branches[0][0], embedder.branches[0][2]
    value = torch.tensor([[0.3], [-2.0]])
    hidden = value * first.weight[:, 0] + first.bias
    expected = (hidden * hidden.sigmoid()) @ second.weight.T + second.bias
    assert torch.allclose(embedder(value), expected, atol=1e-6)
    hair = Categorical("hair", ["dark", "grey", "red"])
    space = AttributeSpace([Binary("smiling"), hair, Continuous("age", 0, 100)])
    embedder = AttributeEmbedder(space, width=8)
    table = space.parse({"smiling": [0, 0], "hair": ["dark", "red"], "age": [30, 30]})
    one, other = embedder(torch.from_numpy(space.encode(table)).float()).unflatten(1, (3, 8))
    assert (one == other).all(dim=1).tolist() == [True, False, True]
    assert embedder.condition_width == 24


@given(st.lists(st.booleans(), min_size=3, max_size=3))
def test_masking_sets_blocks_to_zero_and_leaves_the_others(keep: list[bool]) -> None:
    """Even those that are not finite."""
    condition = torch.randn(5, 24)
    condition[:, [not keep[number // 8] for number in range(24)]] = torch.nan
    embedder = AttributeEmbedder(binary_space(), width=8)
    masked = embedder.masked(condition, torch.tensor([keep]))
    assert torch.equal(masked, condition.nan_to_num(0.0))


class KnowsTheImage(nn.Module):
    """Predicts without error, since the only image there is, is a constant."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.asked = kind, []

    def forward(self, x: Tensor, t: Tensor, c: Tensor) -> Tensor:
        self.asked.append(t)
        signal, noise = (level(t).view(-1, 1, 1, 1) for level in (SCHEDULE.signal, SCHEDULE.noise))
        x_0 = torch.full_like(x, 0.3)
        return training_target(x_0, (x - signal * x_0) / noise, signal, noise, self.kind)


def denoiser(kind: str = "noise") -> Denoiser:
    embedder = readable_embedder(binary_space())
    return Denoiser(KnowsTheImage(kind), embedder, SCHEDULE, channels=1, parameterisation=kind)


@pytest.mark.parametrize("kind", KINDS)
def test_every_parameterisation_gives_the_same_noise_and_no_loss(kind: str) -> None:
    x, condition = torch.randn(4, 1, 2, 2, dtype=torch.float64), torch.zeros(4, 12).double()
    model, t = denoiser(kind), torch.tensor([0, 1, 500, 1000])
    assert torch.allclose(model(x, t, condition), denoiser()(x, t, condition), atol=1e-10)
    assert model.network.asked[0].tolist() == [1, 1, 500, 1000]  # time 0 is asked at 1
    drawn = model.draw((64, 1, 2, 2), torch.Generator().manual_seed(0))
    images = torch.full((64, 1, 2, 2), 0.3, dtype=torch.float64)
    values = torch.zeros(64, 3, dtype=torch.float64)
    assert model.loss(images, values, drawn) < 1e-12
    assert model.loss(images + 0.1, values, drawn) > 1e-4


def test_the_state_is_float32_whatever_the_precision_of_the_network() -> None:
    model, table = tiny_pipeline(channels=1).denoiser, {"smiling": [1], "age": [40], "hair": [0]}
    condition = model.to(torch.bfloat16).condition(model.embedder.space.parse(table))
    noise = model(torch.zeros(1, 1, 8, 8), torch.tensor([5]), condition)
    assert model.state_dtype == condition.dtype == noise.dtype == torch.float32


def test_dropout_is_of_all_attributes_or_of_each_at_its_rate() -> None:
    drawn = denoiser().draw((20_000, 1, 1, 1), torch.Generator().manual_seed(0), p_null=0.3)
    kept = drawn.keep.float().mean(dim=1)
    assert set(kept.tolist()) == {0.0, 1.0}
    assert abs(kept.mean() - 0.7) < 0.015
    assert drawn.t.min() == 1
    assert drawn.t.max() == 1000
    assert abs(drawn.noise.std() - 1) < 0.02
    shape, generator = (20_000, 1, 1, 1), torch.Generator().manual_seed(0)
    smiling, male, _ = denoiser().draw(shape, generator, p_null=0.5, p_group=0.2).keep.T
    assert abs((~smiling & ~male).float().mean() - (0.5 + 0.5 * 0.04)) < 0.015
    assert abs((smiling & ~male).float().mean() - 0.5 * 0.8 * 0.2) < 0.015


@pytest.mark.parametrize(("p_null", "p_group", "kinds"), [(0.5, 0.0, 2), (0.1, 0.5, 8)])
def test_training_hides_exactly_the_attributes_that_were_drawn(p_null, p_group, kinds) -> None:
    seen = []
    network = KnowsTheImage("noise")
    network.register_forward_pre_hook(lambda _, arguments: seen.append(arguments[2]))
    model = Denoiser(network, AttributeEmbedder(binary_space()), SCHEDULE, channels=1)
    generator = torch.Generator().manual_seed(0)
    drawn = model.draw((200, 1, 2, 2), generator, p_null=p_null, p_group=p_group)
    model.loss(torch.zeros(200, 1, 2, 2), torch.ones(200, 3), drawn)
    visible = seen[0].unflatten(1, (3, -1)).abs().sum(dim=2) > 0
    assert torch.equal(visible, drawn.keep)
    assert len(drawn.keep.unique(dim=0)) == kinds


def test_the_loss_reaches_every_parameter() -> None:
    """The recipe of the documentation: encode, draw, loss; float64 columns and all."""
    model = tiny_pipeline(channels=1).denoiser
    space, images = model.embedder.space, torch.zeros(64, 1, 8, 8)
    table = space.parse({"smiling": [0, 1] * 32, "age": [40.0] * 64, "hair": ["dark"] * 64})
    drawn = model.draw(images.shape, torch.Generator().manual_seed(0))
    model.loss(images, torch.from_numpy(space.encode(table)), drawn).backward()
    assert all(parameter.grad.abs().max() > 0 for parameter in model.parameters())


def test_a_unet_tells_the_denoiser_its_channels_and_stride() -> None:
    config = UNetConfig(channels=1, size=8, base=8, multipliers=(1, 2), attention=(), condition=96)
    embedder = AttributeEmbedder(binary_space())
    model = Denoiser(UNet(config), embedder, SCHEDULE)
    assert (model.channels, model.stride) == (1, 2)
    narrow = AttributeEmbedder(binary_space(), width=8)
    for other, wrong in ((embedder, {"channels": 3}), (embedder, {"stride": 4}), (narrow, {})):
        with refused("denoiser", "the values of its UNet, (1, 2, 96, 2)"):
            Denoiser(UNet(config), other, SCHEDULE, **wrong)
    refused("denoiser, channels", "an integer").by(Denoiser, nn.Identity(), embedder, SCHEDULE)


COMPILE = """
import torch, fcfg
space = fcfg.AttributeSpace([fcfg.Binary("male")])
config = fcfg.UNetConfig(size=8, base=8, multipliers=(1, 2), attention=(4,), condition=32)
schedule = fcfg.NoiseSchedule()
schedule.signal(torch.tensor([1]))  # levels are put on a device once, before
inputs = torch.randn(2, 3, 8, 8), torch.tensor([0, 9]), torch.randn(2, 32)
for kind in ("noise", "velocity"):
    embedder = fcfg.AttributeEmbedder(space)
    model = fcfg.Denoiser(fcfg.UNet(config), embedder, schedule, parameterisation=kind)
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    assert torch.allclose(compiled(*inputs), model(*inputs))
"""


@pytest.mark.long
def test_a_denoiser_compiles_whole() -> None:
    """Room for compiled steps: no graph break. In a process without run-time checks."""
    subprocess.run([sys.executable, "-c", COMPILE], check=True)


def test_what_makes_no_denoiser_schedule_or_training_step_is_refused() -> None:
    def draw(**options: object) -> object:
        return denoiser().draw((1, 1, 1, 1), torch.Generator(), **options)

    embedder = readable_embedder(binary_space())
    model = Denoiser(nn.Identity(), embedder, SCHEDULE, channels=3)
    model.network.forward = lambda x, t, c: x[:, :1]
    with refused("network", "(2, 3, 4, 4)", "(2, 1, 4, 4)"):
        model(torch.zeros(2, 3, 4, 4), torch.tensor([1, 1]), torch.zeros(2, 12))
    with refused("images", "floating-point", "uint8"):
        unchecked = inspect.unwrap(Denoiser.loss)  # as callers without run-time checks
        unchecked(denoiser(), torch.zeros(1, 1, 2, 2, dtype=torch.uint8), torch.zeros(1, 3), None)
    for option in ("p_null", "p_group"):
        refused(option, "0 to 1", "1.5").by(draw, **{option: 1.5})
    refused("noise schedule", "did you mean 'cosine'?").by(NoiseSchedule, "cosin")
    for steps in (10, 100.5, 10**12, "1000", float("nan")):
        refused("noise schedule, steps", "25 to 100000").by(NoiseSchedule, steps=steps)
    with refused("parameterisation", "did you mean 'noise'?"):
        Denoiser(nn.Identity(), embedder, SCHEDULE, parameterisation="nois")
