"""The sampling loop, in either direction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fcfg.diffusion.prediction import AbstractPredictor
from fcfg.sampling.plan import Plan
from fcfg.sampling.solver import AbstractSolver
from fcfg.sampling.trajectory import Trajectory


@dataclass(frozen=True, eq=False)
class StepRecord:
    """Argument of the callback ``on_step``, after every step."""

    index: int  #: of the finished step, from 0
    steps: int  #: number of steps
    trajectory: Trajectory  #: of the current chunk of images
    ascending: bool  #: true in an abduction, false in a prediction
    first_image: int = 0  #: index of ``trajectory.x[0]`` among the caller's images
    images: int = 0  #: number of the caller's images

    @property
    def share(self) -> float:
        """Share of the abduction or prediction that is done, 0 to 1."""
        count = len(self.trajectory.x)
        done = self.first_image * self.steps + count * (self.index + 1)
        return done / (self.steps * max(self.images, count))


OnStep = Callable[[StepRecord], None]


def integrate(
    predictor: AbstractPredictor,
    trajectory: Trajectory,
    plan: Plan,
    solver: AbstractSolver,
    on_step: OnStep | None = None,
) -> Trajectory:
    """Follow a plan from its first time to its last."""
    predictor_state, state = predictor.init(trajectory.x), solver.init(trajectory)
    for index, step in enumerate(plan):
        trajectory, predictor_state, state = solver.step(
            predictor, trajectory, step, predictor_state, state
        )
        if on_step is not None:
            on_step(StepRecord(index, len(plan), trajectory, plan.ascending))
    return trajectory
