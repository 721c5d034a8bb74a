from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import reference
from fcfg.diffusion.schedule import NoiseSchedule, clean_image, noise_from_output, training_target
from refusal import refused

KINDS = ["linear", "cosine"]


@pytest.mark.parametrize("steps", [100, 1000])
@pytest.mark.parametrize("kind", KINDS)
def test_levels_agree_with_the_reference(kind: str, steps: int) -> None:
    alpha = {"linear": reference.linear_alpha, "cosine": reference.cosine_alpha}[kind](steps)
    schedule = NoiseSchedule(kind, steps)
    np.testing.assert_allclose(schedule.alpha.numpy(), alpha, rtol=1e-12)
    t = torch.arange(steps + 1)
    np.testing.assert_allclose(schedule.signal(t).numpy(), np.sqrt(alpha), rtol=1e-12)
    np.testing.assert_allclose(schedule.noise(t).numpy(), np.sqrt(1 - alpha), atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_time_zero_is_the_image_and_noise_only_grows(kind: str) -> None:
    schedule = NoiseSchedule(kind)
    t = torch.arange(1001)
    signal, noise = schedule.signal(t), schedule.noise(t)
    assert signal[0] == 1
    assert noise[0] == 0
    assert (signal.diff() < 0).all()
    assert (noise.diff() > 0).all()
    assert torch.allclose(signal**2 + noise**2, torch.ones(1001, dtype=torch.float64))
    assert signal[-1] < 0.01


@given(st.sampled_from(["noise", "image", "velocity"]), st.integers(1, 1000), st.integers(0, 99))
def test_conversions_recover_noise_and_image_from_the_target(kind, t: int, seed: int) -> None:
    schedule, time = NoiseSchedule(), torch.tensor(t)
    generator = torch.Generator().manual_seed(seed)
    x_0, eps = torch.randn(2, 2, 3, 4, 4, generator=generator, dtype=torch.float64)
    signal, noise = schedule.signal(time), schedule.noise(time)
    x_t = signal * x_0 + noise * eps
    output = training_target(x_0, eps, signal, noise, kind)
    recovered = noise_from_output(output, x_t, signal, noise, kind)
    assert torch.allclose(recovered, eps, atol=1e-11)
    assert torch.allclose(clean_image(x_t, recovered, signal, noise), x_0, atol=1e-8)


def test_unknown_kinds_and_too_few_steps_are_refused() -> None:
    with refused("noise schedule", "did you mean 'cosine'?"):
        NoiseSchedule("cosin")
    for steps in (10, 100.5, 10**12, "1000", float("nan")):
        with refused("noise schedule, steps", "25 to 100000"):
            NoiseSchedule(steps=steps)


def test_levels_are_on_the_cpu_whatever_the_default_device() -> None:
    with torch.device("meta"):
        schedule = NoiseSchedule()
    assert schedule.alpha[0] == 1
