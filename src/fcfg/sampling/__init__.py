r"""Sampling: a grid of times, a solver, and one loop for both directions (Sec. 2.1).

The direction of time is a property of the grid: ascending times abduct (image to noise),
descending times predict (noise to image). The clean estimate is never clamped inside the loop,
since that would break the inverse.
"""

import warnings

from fcfg.sampling.bdia import BDIA
from fcfg.sampling.config import (
    PRESETS,
    SamplingConfig,
    SamplingLike,
    SamplingParts,
    as_sampling,
    combine_sampling,
    sampling_of,
)
from fcfg.sampling.ddim import DDIM
from fcfg.sampling.fixed_point import FixedPointDDIM
from fcfg.sampling.grids import GRIDS, time_grid
from fcfg.sampling.heun import Heun
from fcfg.sampling.loop import OnStep, Plan, StepRecord, integrate
from fcfg.sampling.multistep import DPMSolver2M
from fcfg.sampling.solver import (
    SOLVERS,
    AbstractSolver,
    Trajectory,
    as_solver,
    register_solver,
)

__all__ = [
    "BDIA",
    "DDIM",
    "GRIDS",
    "PRESETS",
    "SOLVERS",
    "AbstractSolver",
    "DPMSolver2M",
    "FixedPointDDIM",
    "Heun",
    "OnStep",
    "Plan",
    "SamplingConfig",
    "SamplingLike",
    "SamplingParts",
    "StepRecord",
    "Trajectory",
    "as_sampling",
    "as_solver",
    "combine_sampling",
    "integrate",
    "register_solver",
    "sampling_of",
    "time_grid",
]

_OLD = {
    "Way": "SamplingConfig",
    "find_way": "combine_sampling",
    "QUALITIES": "PRESETS",
    "parse_solver": "as_solver",
}


def __getattr__(name: str) -> object:
    """Return what took the place of a name of 0.1, with a warning."""
    if name not in _OLD:
        raise AttributeError(f"module 'fcfg.sampling' has no attribute '{name}'")
    warnings.warn(
        f"fcfg.sampling.{name} is now {_OLD[name]}; the old name will be removed in fcfg 0.3",
        DeprecationWarning,
        stacklevel=2,
    )
    return globals()[_OLD[name]]
