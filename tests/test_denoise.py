from __future__ import annotations

import inspect
import subprocess
import sys

import pytest
import torch
from torch import Tensor, nn

from fcfg.causal.graph import Partition
from fcfg.diffusion.denoiser import Denoiser
from fcfg.diffusion.embedder import AttributeEmbedder
from fcfg.diffusion.networks import UNet, UNetConfig
from fcfg.diffusion.prediction import Prediction
from fcfg.diffusion.schedule import NoiseSchedule, training_target
from fcfg.sampling import steps_along
from refusal import refused
from worlds import binary_space, readable_embedder

SCHEDULE = NoiseSchedule()


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


@pytest.mark.parametrize("kind", ["noise", "image", "velocity"])
def test_every_parameterisation_gives_the_same_noise(kind: str) -> None:
    x = torch.randn(4, 1, 2, 2, dtype=torch.float64)
    t = torch.tensor([0, 1, 500, 1000])
    pivot = denoiser()(x, t, torch.zeros(4, 12, dtype=torch.float64))
    assert torch.allclose(
        denoiser(kind)(x, t, torch.zeros(4, 12, dtype=torch.float64)), pivot, atol=1e-10
    )


@pytest.mark.parametrize("kind", ["noise", "image", "velocity"])
def test_the_loss_of_a_perfect_network_is_zero(kind: str) -> None:
    model = denoiser(kind)
    drawn = model.draw((64, 1, 2, 2), torch.Generator().manual_seed(0))
    images = torch.full((64, 1, 2, 2), 0.3, dtype=torch.float64)
    values = torch.zeros(64, 3, dtype=torch.float64)
    assert model.loss(images, values, drawn) < 1e-12
    assert model.loss(images + 0.1, values, drawn) > 1e-4


def test_time_zero_is_asked_at_one() -> None:
    model = denoiser()
    model(torch.zeros(2, 1, 2, 2), torch.tensor([0, 7]), torch.zeros(2, 12))
    assert model.network.asked[0].tolist() == [1, 7]


def test_the_state_is_float32_whatever_the_precision_of_the_network() -> None:
    class Linear(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Conv2d(1, 1, 1)

        def forward(self, x: Tensor, t: Tensor, c: Tensor) -> Tensor:
            assert x.dtype == c.dtype == torch.bfloat16
            return self.layer(x)

    embedder = AttributeEmbedder(binary_space())
    model = Denoiser(Linear(), embedder, SCHEDULE, channels=1).to(torch.bfloat16)
    assert model.state_dtype == torch.float32
    condition = model.condition(binary_space().parse({"smiling": 1, "male": 0, "young": 1}))
    assert condition.dtype == torch.float32
    out = model(torch.zeros(1, 1, 2, 2), torch.tensor([5]), condition)
    assert out.dtype == torch.float32


def test_joint_dropout_drops_all_or_nothing_at_its_rate() -> None:
    drawn = denoiser().draw((20_000, 1, 1, 1), torch.Generator().manual_seed(0), p_null=0.3)
    kept = drawn.keep.float().mean(dim=1)
    assert set(kept.tolist()) == {0.0, 1.0}
    assert abs(kept.mean() - 0.7) < 0.015
    assert drawn.t.min() == 1
    assert drawn.t.max() == 1000
    assert abs(drawn.noise.std() - 1) < 0.02


def test_group_dropout_drops_groups_together_and_otherwise_independently() -> None:
    groups = Partition({"face": ["smiling", "young"], "sex": ["male"]})
    drawn = denoiser().draw(
        (20_000, 1, 1, 1),
        torch.Generator().manual_seed(0),
        p_null=0.5,
        p_group=0.2,
        groups=groups,
    )
    smiling, male, young = drawn.keep.T
    assert torch.equal(smiling, young)
    assert abs((~smiling & ~male).float().mean() - (0.5 + 0.5 * 0.04)) < 0.015
    assert abs((smiling & ~male).float().mean() - 0.5 * 0.8 * 0.2) < 0.015


def test_draws_depend_on_the_generator_alone() -> None:
    one, same, other = (
        denoiser().draw((3, 1, 2, 2), torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)
    )
    assert torch.equal(one.noise, same.noise)
    assert torch.equal(one.t, same.t)
    assert torch.equal(one.keep, same.keep)
    assert not torch.equal(one.noise, other.noise)


@pytest.mark.parametrize(("p_null", "p_group", "kinds"), [(0.5, 0.0, 2), (0.1, 0.5, 8)])
def test_training_hides_exactly_the_attributes_that_were_drawn(p_null, p_group, kinds) -> None:
    class Records(nn.Module):
        def forward(self, x: Tensor, t: Tensor, c: Tensor) -> Tensor:
            self.conditions = c
            return x

    model = Denoiser(Records(), AttributeEmbedder(binary_space()), SCHEDULE, channels=1)
    generator = torch.Generator().manual_seed(0)
    drawn = model.draw((200, 1, 2, 2), generator, p_null=p_null, p_group=p_group)
    model.loss(torch.zeros(200, 1, 2, 2), torch.ones(200, 3), drawn)
    visible = model.network.conditions.unflatten(1, (3, -1)).abs().sum(dim=2) > 0
    assert torch.equal(visible, drawn.keep)
    assert len(drawn.keep.unique(dim=0)) == kinds


def test_a_few_steps_of_training_lower_the_loss() -> None:
    """The recipe of the documentation: encode, draw, loss; float64 columns and all."""
    torch.manual_seed(0)
    space = binary_space()
    embedder = AttributeEmbedder(space, width=8)
    config = UNetConfig(channels=1, size=8, base=8, multipliers=(1, 2), attention=(), condition=24)
    model = Denoiser(UNet(config), embedder, SCHEDULE)
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    generator = torch.Generator().manual_seed(0)
    smiling = torch.arange(64) % 2
    images = (smiling.float() - 0.5).view(-1, 1, 1, 1).expand(64, 1, 8, 8)
    table = space.parse({"smiling": smiling, "male": [0] * 64, "young": [1] * 64})
    values = torch.from_numpy(space.encode(table))
    losses = []
    for _ in range(60):
        loss = model.loss(images, values, model.draw(images.shape, generator))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert sum(losses[-10:]) < 0.5 * sum(losses[:10])
    assert all(p.grad is not None for p in model.parameters())


def test_a_unet_tells_the_denoiser_its_channels_and_stride() -> None:
    config = UNetConfig(channels=1, size=8, base=8, multipliers=(1, 2), attention=(), condition=96)
    embedder = AttributeEmbedder(binary_space())
    model = Denoiser(UNet(config), embedder, SCHEDULE)
    assert (model.channels, model.stride) == (1, 2)
    for wrong in ({"channels": 3}, {"stride": 4}):
        with refused("denoiser", "the values of its UNet, (1, 2, 96)"):
            Denoiser(UNet(config), embedder, SCHEDULE, **wrong)
    with refused("denoiser", "got (1, 2, 24)"):
        Denoiser(UNet(config), AttributeEmbedder(binary_space(), width=8), SCHEDULE)
    with refused("denoiser, channels", "an integer", "got None"):
        Denoiser(nn.Identity(), embedder, SCHEDULE)


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


@pytest.mark.parametrize(("t", "s"), [(1000, 990), (500, 400), (10, 0), (0, 10), (400, 500)])
def test_the_merged_noise_gives_the_same_ddim_step(t: int, s: int) -> None:
    x, clean, renoise = torch.randn(3, 2, 1, 4, 4, dtype=torch.float64)
    (here,) = steps_along(SCHEDULE, (t, s), dtype=torch.float64)

    def ddim(for_clean: Tensor, for_noise: Tensor) -> Tensor:
        image = (x - here.noise_t * for_clean) / here.signal_t
        return here.signal_s * image + here.noise_s * for_noise

    merged = Prediction(clean, renoise).merged(here)
    assert torch.allclose(ddim(merged, merged), ddim(clean, renoise), atol=1e-12)
    assert Prediction(clean, clean).merged(here) is clean


def test_a_reversed_step_goes_back() -> None:
    (there,) = steps_along(SCHEDULE, (400, 500))
    back = there.reversed()
    assert (back.t, back.s) == (there.s, there.t)
    assert (back.signal_t, back.noise_s) == (there.signal_s, there.noise_t)
    assert there.ascending
    assert not back.ascending


def test_what_makes_no_denoiser_or_no_training_step_is_refused() -> None:
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
    for groups in ({}, {"a": ["smiling", "male"]}):
        with refused("partition", "no group for"):
            draw(groups=Partition(groups))
    for option in ("p_null", "p_group"):
        with refused(option, "0 to 1", "1.5"):
            draw(**{option: 1.5})
    with refused("parameterisation", "did you mean 'noise'?"):
        Denoiser(nn.Identity(), embedder, SCHEDULE, parameterisation="nois")
