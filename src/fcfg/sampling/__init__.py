r"""Sampling: a grid of times, a solver, and one loop for both directions (Sec. 2.1).

The direction of time is a property of the grid: ascending times abduct (image to noise),
descending times predict (noise to image). The clean estimate is never clamped inside the loop,
since that would break the inverse.
"""

from fcfg.sampling.anchor import Anchor, Correction, Path, PathRecorder, anchor_path
from fcfg.sampling.bdia import BDIA
from fcfg.sampling.config import (
    ANCHORED,
    DRAWN_NOISE,
    PRESETS,
    SamplingConfig,
    SamplingLike,
    as_sampling,
)
from fcfg.sampling.ddim import DDIM
from fcfg.sampling.ddpm import DDPM
from fcfg.sampling.fixed_point import FixedPointDDIM
from fcfg.sampling.grids import GRIDS, time_grid
from fcfg.sampling.heun import Heun
from fcfg.sampling.loop import OnStep, StepRecord, Steps, integrate, steps_along
from fcfg.sampling.multistep import DPMSolver2M
from fcfg.sampling.solver import (
    SOLVERS,
    AbstractSolver,
    Trajectory,
    as_solver,
    register_solver,
)

__all__ = [
    "ANCHORED",
    "BDIA",
    "DDIM",
    "DDPM",
    "DRAWN_NOISE",
    "GRIDS",
    "PRESETS",
    "SOLVERS",
    "AbstractSolver",
    "Anchor",
    "Correction",
    "DPMSolver2M",
    "FixedPointDDIM",
    "Heun",
    "OnStep",
    "Path",
    "PathRecorder",
    "SamplingConfig",
    "SamplingLike",
    "StepRecord",
    "Steps",
    "Trajectory",
    "anchor_path",
    "as_sampling",
    "as_solver",
    "integrate",
    "register_solver",
    "steps_along",
    "time_grid",
]
