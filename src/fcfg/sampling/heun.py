"""Heun's method: second order at two evaluations a step.

References:
    Elucidating the design space of diffusion-based generative models (Karras et al., 2022).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fcfg.diffusion.prediction import AbstractPredictor, State, Step
from fcfg.sampling.ddim import DDIM, ddim_step
from fcfg.sampling.fixed_point import leave_image
from fcfg.sampling.solver import AbstractSolver
from fcfg.sampling.trajectory import Trajectory


@dataclass(frozen=True)
class Heun(AbstractSolver):
    r"""Take the DDIM step of the mean of two noises, at both ends of the step.

    In :math:`x / \sqrt{\alpha}` as a function of :math:`r = \sqrt{1 - \alpha} / \sqrt{\alpha}`
    the flow is :math:`d(x / \sqrt{\alpha}) / dr = \epsilon`, DDIM is Euler's method, and this is
    the trapezoid. The second question is asked at (x_s, s) with the weights of the step. A step
    that begins or ends at t = 0 is a DDIM step.
    """

    def __str__(self) -> str:
        return "heun"

    def init(self, trajectory: Trajectory) -> State:
        """No state."""
        return ()

    def step(
        self,
        predictor: AbstractPredictor,
        trajectory: Trajectory,
        step: Step,
        asked: State,
        state: State,
    ) -> tuple[Trajectory, State, State]:
        """Two evaluations, at the current time and at the next."""
        if step.at_image and step.ascending:
            return leave_image(predictor, trajectory, step, asked), asked, state
        if step.at_image:
            return DDIM().step(predictor, trajectory, step, asked, state)
        there = step.reversed()
        first, asked = predictor.predict(trajectory.x, step, asked)
        x_s = ddim_step(trajectory.x, step, first.clean, first.renoise)
        second, _ = predictor.predict(x_s, there, asked)
        # Merged for the step that is taken, so that CFG++ is CFG at the weight of this step.
        eps = (first.merged(step) + second.merged(step)) / 2
        x_s = ddim_step(trajectory.x, step, eps, eps)
        spent = trajectory.evaluations + first.rows + second.rows
        return replace(trajectory, x=x_s, evaluations=spent), asked, state
