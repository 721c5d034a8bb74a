"""The formulas of guidance alone: no network, no sampler."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from fcfg.diffusion import NoiseSchedule, Step
from fcfg.guidance import APG, CFG, CFGPlusPlus
from fcfg.guidance.apg import project
from fcfg.sampling import steps_along

SCHEDULE = NoiseSchedule()


def at(t: int, s: int, weights: Tensor, dtype: torch.dtype = torch.float64) -> Step:
    (step,) = steps_along(SCHEDULE, (t, s), weights=weights[None], guided=[True], dtype=dtype)
    return step


def draw(groups: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(groups + 2, 2, 1, 4, 4, generator=generator).double()
    return drawn[0], drawn[1], drawn[2:]


@pytest.mark.parametrize("rule", [CFG(), CFGPlusPlus(), APG()], ids=str)
def test_weight_zero_is_the_unconditional_model(rule) -> None:
    (x, null, groups), weights = draw(2), torch.zeros(2, dtype=torch.float64)
    step, state = at(500, 450, weights), rule.init(x, 2)
    prediction, _ = rule.combine(x, step, null, groups, weights, state)
    assert torch.equal(prediction.clean, null)
    assert torch.equal(prediction.renoise, null)


@given(st.integers(1, 1000), st.integers(1, 12), st.floats(0.001, 1))
def test_the_strength_of_cfgpp_does_not_depend_on_the_grid(t: int, length: int, value) -> None:
    """The equivalent CFG weight of a long step is that of the unit step."""
    t, s = torch.tensor([[t, t], [t - 1, max(0, t - length)]])
    stated = torch.full((2, 1), value, dtype=torch.float64)
    on_grid = CFGPlusPlus().weights_on_grid(stated, t, s, SCHEDULE)[:, 0]
    ratio = [SCHEDULE.noise(u) / SCHEDULE.signal(u) for u in (t, s)]
    omega = on_grid * ratio[0] / (ratio[0] - ratio[1])
    assert torch.allclose(omega[0], omega[1], rtol=1e-9)
    assert on_grid[0] == value  # the paper's λ at unit steps
    assert torch.equal(CFGPlusPlus(raw=True).weights_on_grid(stated, t, s, SCHEDULE), stated)


def test_the_papers_lambdas_stand_for_the_weights_it_calls_comparable() -> None:
    t = torch.arange(1, 1001)
    r_t, r_s = (SCHEDULE.noise(u) / SCHEDULE.signal(u) for u in (t, t - 1))
    ratio = (r_t / (r_t - r_s)).median().item()
    assert abs(0.02 * ratio - 3.0) < 0.1
    assert abs(0.008 * ratio - 1.2) < 0.05


@given(st.floats(0, 1), st.integers(0, 99))
def test_projection_keeps_the_orthogonal_part_and_eta_of_the_rest(eta: float, seed: int) -> None:
    _, delta, (image,) = draw(1, seed)
    (kept,) = project(delta[None], image[None], eta)
    overlap = (kept * image).sum(dim=(1, 2, 3))
    assert torch.allclose(overlap, eta * (delta * image).sum(dim=(1, 2, 3)), atol=1e-11)
    removed = delta - kept
    assert torch.allclose((removed * kept - eta * removed * delta).sum(), torch.zeros(()).double())


def test_apg_projects_in_float64_and_a_black_image_has_no_parallel_part() -> None:
    """Where Δ is nearly parallel to the image, float32 would leave part of what it removes."""
    generator = torch.Generator().manual_seed(0)
    eps, small = torch.randn(2, 1, 3, 64, 64, generator=generator)
    x, null = 1e-3 * small, torch.zeros_like(small)
    step = at(500, 400, torch.ones(1), torch.float32)
    rule = APG(momentum=0.0, radius=math.inf)
    start = rule.init(x, 1)
    prediction, (momentum,) = rule.combine(x, step, null, eps[None], torch.ones(1), start)
    assert prediction.clean.dtype == momentum.dtype == torch.float32
    image = step.image(x, eps).double()
    left = (prediction.clean.double() * image).sum() / (eps.double().norm() * image.norm())
    assert left.abs() < 1e-9
    _, delta, _ = draw(0)
    assert torch.equal(project(delta[None], torch.zeros_like(delta)[None], 0.0)[0], delta)


def test_apg_moves_no_further_than_its_radius_allows() -> None:
    x, null, groups = draw(2)
    step = at(700, 600, torch.ones(2).double())
    rule = APG(eta=1.0, momentum=0.0, radius=0.5)
    one, start = torch.ones(1).double(), rule.init(x, 1)
    prediction, _ = rule.combine(x, step, null, groups[:1], one, start)
    moved = (null - prediction.clean) * step.noise_t / step.signal_t  # in image space
    norm = moved.square().sum(dim=(1, 2, 3)).sqrt()
    assert torch.allclose(norm, torch.full((2,), 0.5).double())


@pytest.mark.parametrize(("s", "raw"), [(699, False), (699, True), (600, True)])
def test_apg_keeps_one_unshortened_momentum_a_group(s: int, raw: bool) -> None:
    x, null, groups = draw(2)
    step, weight = at(700, s, torch.ones(2).double()), torch.ones(2).double()
    rule = APG(momentum=-0.5, radius=0.1, raw=raw)
    delta = (null - groups) * step.noise_t / step.signal_t
    state = rule.init(x, 2)
    assert torch.equal(state[0], torch.zeros(2, *x.shape).double())
    for expected in (delta, 0.5 * delta, 0.75 * delta):
        _, state = rule.combine(x, step, null, groups, weight, state)
        assert torch.allclose(state[0], expected)


@given(st.floats(-0.9, 0.9), st.integers(1, 20), st.floats(-2, 2))
def test_the_momentum_of_apg_does_not_depend_on_the_grid(momentum, length, before) -> None:
    """One long step leaves what its unit steps leave, where the difference stays as it is."""
    x, null, groups = draw(1)
    rule, weight = APG(momentum=momentum), torch.ones(1).double()
    start = (before * groups,)

    def after(step: Step, times: int) -> Tensor:
        state = start
        for _ in range(times):
            _, state = rule.combine(x, step, null, groups, weight, state)
        return state[0]

    for there, back in ((700, 700 - length), (700 - length, 700)):
        long, unit = at(there, back, weight), at(there, there - 1, weight)
        assert torch.allclose(after(long, 1), after(unit, length), rtol=1e-10, atol=1e-10)
