"""What anchored answers with drawn noise tend to as the steps grow.

Many short steps have many noises, so that only the mean over all noise is left. Unguided, this is
the plain prediction where attributes shift the image, and not elsewhere.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fcfg import CounterfactualPipeline, Guidance
from worlds import INVERTIBLE, MixtureNetwork, ask, mixture_faces, mixture_pipeline

PLAIN = Guidance.none()
ANCHORED = Guidance.parse("none;anchor=true")
DRAWN = Guidance.parse("none;anchor=true;drawn_noise=true")


class ForgetfulNetwork(MixtureNetwork):
    """It is not told whether a face is young, so that its answers are no shifts."""

    def forward(self, x: Tensor, t: Tensor, c: Tensor) -> Tensor:
        told = c.unflatten(1, (3, -1)).clone()
        told[:, 2] = 0
        return super().forward(x, t, told.flatten(1))


def answer(
    pipeline: CounterfactualPipeline, guidance: Guidance, solver: str, steps: int, **options: Any
) -> Tensor:
    how = {"do": {"male": "flip"}, "sampling": f"{solver} uniform {steps}"} | options
    return ask(pipeline, guidance=guidance, **how)[1].trajectory.x


def distance(one: Tensor, other: Tensor) -> float:
    """Root mean square."""
    return float((one - other).square().mean().sqrt())


@pytest.fixture(scope="module")
def shifting() -> CounterfactualPipeline:
    """Given all attributes, an image is Gaussian, and they move its mean."""
    return mixture_pipeline()


@pytest.mark.parametrize("solver", INVERTIBLE)
def test_where_attributes_shift_the_image_it_tends_to_the_plain_prediction(
    shifting: CounterfactualPipeline, solver: str
) -> None:
    """Since there all paths have the same differences, at every number of steps."""
    gaps = []
    for steps in (5, 20, 80):
        drawn = answer(shifting, DRAWN, solver, steps)
        other = answer(shifting, DRAWN, solver, steps, keys=[7, 8, 9, 10])
        torch.testing.assert_close(drawn, other, atol=1e-9, rtol=1e-9)
        inferred = answer(shifting, ANCHORED, solver, steps)
        torch.testing.assert_close(drawn, inferred, atol=1e-6, rtol=0)
        gaps.append(distance(drawn, answer(shifting, PLAIN, solver, steps)))
    if solver == "bdia":  # which inverts exactly, so that its plain prediction is anchored
        assert max(gaps) < 1e-6
    else:
        assert gaps[1] < 0.5 * gaps[0]
        assert gaps[2] < 0.5 * gaps[1]


@pytest.fixture(scope="module")
def forgetful() -> CounterfactualPipeline:
    pipeline = mixture_pipeline()
    network = pipeline.denoiser.network
    assert isinstance(network, MixtureNetwork)
    pipeline.denoiser.network = ForgetfulNetwork(
        network.means, network.prior, network.spread, network.schedule
    )
    return pipeline


@pytest.fixture(scope="module")
def mean_answer(forgetful: CounterfactualPipeline) -> Tensor:
    """Euler's method for the mean over noise, with 32 noises at each of 250 times.

    dD / dlog r = D - E[x0(x + signal D, asked) - x0(x, own)], with x = signal face + noise e and
    the mean over e ~ N(0, I); r is noise / signal, x0 the clean image and D the difference made.
    """
    denoiser, count = forgetful.denoiser, 32
    faces, own = mixture_faces(forgetful, 4)
    asked = own | {"male": 1 - own["male"]}
    conditions = [denoiser.condition(table).repeat_interleave(count, 0) for table in (own, asked)]
    alpha = denoiser.schedule.alpha.numpy()
    generator = torch.Generator().manual_seed(0)
    difference = torch.zeros_like(faces)
    for t, s in pairwise(range(1000, -1, -4)):
        signal, noise = np.sqrt(alpha[t]), np.sqrt(1 - alpha[t])
        e = torch.randn(4, count, *faces.shape[1:], generator=generator, dtype=torch.float64)
        x = (signal * faces[:, None] + noise * e).flatten(0, 1)
        moved = x + signal * difference.repeat_interleave(count, 0)
        at = torch.full((len(x),), t)
        before, after = (
            (state - noise * denoiser(state, at, condition)) / signal
            for state, condition in zip((x, moved), conditions, strict=True)
        )
        mean = (after - before).unflatten(0, (4, count)).mean(dim=1)
        left = np.sqrt(1 - alpha[s]) / np.sqrt(alpha[s]) * signal / noise
        difference = left * difference + (1 - left) * mean
    return faces + difference


@pytest.mark.parametrize("solver", INVERTIBLE)  # another limit with noise in every step
def test_elsewhere_it_tends_to_the_mean_over_noise_and_not_to_the_plain_prediction(
    forgetful: CounterfactualPipeline, mean_answer: Tensor, solver: str
) -> None:
    few, many = (
        distance(answer(forgetful, DRAWN, solver, steps), mean_answer) for steps in (10, 160)
    )
    assert many < 0.4 * few
    assert distance(answer(forgetful, PLAIN, solver, 40), mean_answer) > 5 * many
