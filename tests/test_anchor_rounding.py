"""What float32 leaves of the law that factual attributes give the image back, and why."""

from __future__ import annotations

from functools import cache

import pytest
import torch

from fcfg import CounterfactualPipeline, Guidance
from fcfg.sampling import SOLVERS
from products import pairwise
from worlds import ANY_RULE, mixture_faces, mixture_pipeline, walk

# Images of the sharp world hardly spread: where an image is off at t = 1, its predicted noise is
# off by 50 times as much (100 times in a trained network). DDIM and dpm-2m use this noise for the
# short step to t = 0. BDIA also uses it for the step back to t = 594, and Heun's method for half
# of the step from there, so that rounding grows. Each tolerance is about four times the largest
# difference that we saw, over all rules, both worlds and both kinds of noise.
TOLERANCES = {"ddim": 4e-5, "fixed-point": 4e-5, "dpm-2m": 4e-5, "bdia": 1.2e-3, "heun": 2e-3}
SHARP, SMOOTH = 0.01, 0.5  # spread of the images of a world


@cache
def world(spread: float) -> CounterfactualPipeline:
    pipeline = mixture_pipeline(spread=spread)
    pipeline.denoiser.float()
    return pipeline


@pytest.mark.parametrize(
    ("spread", "drawn", "guidance", "solver"),
    pairwise((SHARP, SMOOTH), (False, True), ANY_RULE, SOLVERS),
)
def test_all_steps_in_float32_lead_back_to_the_image(
    spread: float, drawn: bool, guidance: Guidance, solver: str
) -> None:
    faces, attributes = mixture_faces(world(spread), 4)
    how = {"sampling": f"{solver} karras 3", "drawn_noise": drawn}  # times 1000, 594, 1 and 0
    _, states = walk(world(spread), faces.float(), attributes, guidance, **how)
    assert states[-1].dtype == torch.float32
    torch.testing.assert_close(states[-1], faces.float(), atol=TOLERANCES[solver], rtol=0)
