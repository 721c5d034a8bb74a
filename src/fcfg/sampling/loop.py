"""The loop: a plan followed step by step, in either direction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fcfg.diffusion.prediction import AbstractPredictor
from fcfg.sampling.plan import Plan
from fcfg.sampling.solver import AbstractSolver
from fcfg.sampling.trajectory import Trajectory


@dataclass(frozen=True, eq=False)
class StepRecord:
    """What ``on_step`` is told after every step."""

    index: int  #: of the step just done, from 0
    steps: int  #: how many the run has
    trajectory: Trajectory  #: of the images in hand
    ascending: bool  #: true in an abduction, false in a prediction
    first_image: int = 0  #: where ``trajectory.x[0]`` stands among the caller's images
    images: int = 0  #: how many the caller has

    @property
    def share(self) -> float:
        """How much of the abduction, or of the prediction, is done: 0 to 1."""
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
