"""What float32 leaves of the law that factual attributes give the image back, and why."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from torch import Tensor

from fcfg import CounterfactualPipeline
from fcfg.diffusion.prediction import ConditionalPredictor, Evaluate, Evaluations, Images, Times
from fcfg.sampling import as_solver, integrate, steps_along
from products import pairwise
from worlds import ANY_RULE, INVERTIBLE, mixture_faces, mixture_pipeline

# Images of the sharp world hardly spread: where an image is off at t = 1, its predicted noise is
# off by 50 times as much (100 times in a trained network). DDIM and dpm-2m use this noise for the
# short step to t = 0. BDIA also uses it for the step back to t = 594, and Heun's method for half
# of the step from there, so that rounding grows. Each tolerance is about four times the largest
# difference that we saw, over all rules, both worlds and both kinds of noise.
TOLERANCES = {"ddim": 4e-5, "fixed-point": 4e-5, "dpm-2m": 4e-5, "bdia": 1.2e-3, "heun": 2e-3}
SHARP, SMOOTH = 0.01, 0.5  # spread of the images of a world
SAMPLING = "karras 3"  # the times 1000, 594, 1 and 0


@cache
def world(spread: float) -> CounterfactualPipeline:
    pipeline = mixture_pipeline(spread=spread)
    pipeline.denoiser.float()
    return pipeline


@pytest.mark.parametrize(
    ("spread", "drawn", "guidance", "solver"),
    pairwise((SHARP, SMOOTH), (False, True), ANY_RULE, INVERTIBLE),
)
def test_all_steps_in_float32_lead_back_to_the_image(spread, drawn, guidance, solver) -> None:
    """The walk itself: the pipeline would return the image where nothing changes."""
    pipeline = world(spread)
    faces, attributes = mixture_faces(pipeline, 4)
    abduction = pipeline.abduct(
        faces.float(), attributes, sampling=f"{solver} {SAMPLING}", drawn_noise=drawn
    )
    action = pipeline.act(attributes, {"male": attributes["male"]}, keys=abduction.keys)
    states: list[Tensor] = []
    told = {"on_step": lambda record: states.append(record.trajectory.x)}
    rule = guidance.replace(anchor=True, drawn_noise=drawn)
    pipeline.predict(abduction, action, rule, **told)
    assert states[-1].dtype == torch.float32
    torch.testing.assert_close(states[-1], faces.float(), atol=TOLERANCES[solver], rtol=0)


class OffPredictor(ConditionalPredictor):
    """Noise predictions that are off at one time, as if they were rounded."""

    def __init__(self, denoiser: Evaluate, condition: Tensor, error: float) -> None:
        super().__init__(denoiser, condition)
        self.error = error

    def evaluate(
        self, x: Images, t: Times, *, guided: bool, noise: Images | None = None
    ) -> Evaluations:
        noises = super().evaluate(x, t, guided=guided, noise=noise)
        return noises + self.error * (t == 594).view(-1, 1, 1, 1)


@pytest.mark.parametrize(
    ("solver", "least", "most"),
    [("ddim", 1, 10), ("dpm-2m", 1, 10), ("bdia", 100, 1000), ("heun", 100, 1000)],
)
def test_an_error_grows_where_the_noise_near_the_image_serves_a_long_step(
    solver: str, least: float, most: float
) -> None:
    """In float64 as well, so that it is no matter of the order of operations."""
    pipeline, error, ends = mixture_pipeline(spread=SHARP), 1e-9, list[Tensor]()
    denoiser = pipeline.denoiser
    faces, attributes = mixture_faces(pipeline, 4)
    abduction = pipeline.abduct(faces, attributes, sampling=f"ddim {SAMPLING}", drawn_noise=True)
    plan = steps_along(denoiser.schedule, abduction.times[::-1], dtype=torch.float64)
    for size in (0.0, error):
        predictor = OffPredictor(denoiser, denoiser.condition(attributes), size)
        with torch.no_grad():
            ends.append(integrate(predictor, abduction.trajectory, plan, as_solver(solver)).x)
    assert least < float((ends[1] - ends[0]).abs().max()) / error < most
