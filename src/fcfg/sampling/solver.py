"""What a solver is: one step of a trajectory, with explicit state."""

from __future__ import annotations

from abc import ABC, abstractmethod

from fcfg.diffusion.prediction import AbstractPredictor, State, Step
from fcfg.sampling.trajectory import Trajectory


class AbstractSolver(ABC):
    """One step of a trajectory. History of multistep solvers is in the state."""

    @abstractmethod
    def __str__(self) -> str:
        """Its text form, which :func:`fcfg.sampling.parse_solver` reads."""

    @abstractmethod
    def init(self, trajectory: Trajectory) -> State:
        """State before the first step."""

    @abstractmethod
    def step(
        self,
        predictor: AbstractPredictor,
        trajectory: Trajectory,
        step: Step,
        asked: State,
        state: State,
    ) -> tuple[Trajectory, State, State]:
        """Go from step.t to step.s.

        Args:
            predictor: What to ask.
            trajectory: At time t.
            step: The step.
            asked: State of the predictor. Where a solver asks several times, the state that
                came with the question at (x_t, t) is kept.
            state: State of the solver.

        Returns:
            The trajectory at time s, and both states.
        """
