r"""Sampling: a grid of times, a solver, and one loop for both directions (Sec. 2.1).

The direction of time is a property of the grid: ascending times abduct (image to noise),
descending times predict (noise to image). The clean estimate is never clamped inside the loop,
since that would break the inverse.
"""

from fcfg.sampling.bdia import BDIA
from fcfg.sampling.config import QUALITIES, Way, find_way
from fcfg.sampling.ddim import DDIM
from fcfg.sampling.fixed_point import FixedPointDDIM
from fcfg.sampling.grids import GRIDS, time_grid
from fcfg.sampling.heun import Heun
from fcfg.sampling.loop import OnStep, StepRecord, integrate
from fcfg.sampling.multistep import DPMSolver2M
from fcfg.sampling.plan import Plan
from fcfg.sampling.solver import AbstractSolver
from fcfg.sampling.text import SOLVERS, as_solver, parse_solver
from fcfg.sampling.trajectory import Trajectory

__all__ = [
    "BDIA",
    "DDIM",
    "GRIDS",
    "QUALITIES",
    "SOLVERS",
    "AbstractSolver",
    "DPMSolver2M",
    "FixedPointDDIM",
    "Heun",
    "OnStep",
    "Plan",
    "StepRecord",
    "Trajectory",
    "Way",
    "as_solver",
    "find_way",
    "integrate",
    "parse_solver",
    "time_grid",
]
