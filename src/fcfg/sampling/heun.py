"""Heun's method: second order at two evaluations per step.

References:
    Elucidating the design space of diffusion-based generative models (Karras et al., 2022).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fcfg.diffusion.prediction import AbstractPredictor, Step
from fcfg.sampling.ddim import DDIM, ddim_step, leave_image
from fcfg.sampling.solver import AbstractSolver, Trajectory, register_solver


@register_solver
@dataclass(frozen=True)
class Heun(AbstractSolver):
    r"""Take the DDIM step of the mean of two noises, at both ends of the step.

    In :math:`x / \sqrt{\alpha}` as a function of :math:`r = \sqrt{1 - \alpha} / \sqrt{\alpha}`
    the flow is :math:`d(x / \sqrt{\alpha}) / dr = \epsilon`, DDIM is Euler's method, and this is
    the trapezoid. The second evaluation is at (x_s, s), with the weights of the step. A step that
    ends at t = 0 is a DDIM step; one that begins there is
    :func:`~fcfg.sampling.ddim.leave_image`.
    """

    name = "heun"

    def step(self, predictor: AbstractPredictor, trajectory: Trajectory, step: Step) -> Trajectory:
        """Evaluate twice, at the current time and at the next."""
        if step.at_image and step.ascending:
            return leave_image(predictor, trajectory, step)
        if step.at_image:
            return DDIM().step(predictor, trajectory, step)
        first, here = trajectory.predicted(predictor, step)
        x_s = ddim_step(here.x, step, first.clean, first.renoise)
        second, there = replace(here, x=x_s).predicted(predictor, step.reversed())
        # Merged for this step, so that CFG++ is CFG at the weight of this step.
        eps = (first.merged(step) + second.merged(step)) / 2
        x_s = ddim_step(here.x, step, eps, eps)
        return replace(here, x=x_s, evaluations=there.evaluations)
