"""BDIA: a solver that can be inverted exactly.

References:
    Exact diffusion inversion via bidirectional integration approximation (Zhang et al., 2023).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from fcfg.diffusion.prediction import AbstractPredictor, Images, State, Step
from fcfg.sampling.ddim import ddim_step, leave_image
from fcfg.sampling.solver import AbstractSolver, Trajectory, register_solver
from fcfg.support.options import option


@register_solver
@dataclass(frozen=True)
class BDIA(AbstractSolver):
    r"""Correct each DDIM step by the error of the DDIM step back.

    With the last time u, and :math:`\text{DDIM}_{t \to s}` the DDIM step of the noise at (x_t, t):

    .. math::
        x_s = \text{DDIM}_{t \to s}(x_t)
        + \gamma^{(\theta_u - \theta_s) / \pi} \bigl( x_u - \text{DDIM}_{t \to u}(x_t) \bigr),
        \qquad \tan \theta = \sqrt{1 - \alpha} / \sqrt{\alpha}

    The factor of an abduction is one over that of the prediction, so that each inverts the other
    for any network. Second order. The last step, to t = 0, is corrected like any other.

    An abduction stores the error of the DDIM step back from its end in ``Trajectory.companions``,
    and a prediction starts from noise and companion together. Without the companion, the first
    step is a DDIM step, and the image is a different one.

    The inversion is exact up to rounding if the prediction uses the attributes of the abduction,
    without guidance. Otherwise the correction alternates in sign: with γ = 1 it grows in a
    prediction, and with a small γ an abduction inflates the noise.

    Args:
        gamma: Share of a correction that remains after integrating from noise to image. (The
            original has one factor per step, whose effect depends on the number of steps.)
    """

    name = "bdia"

    gamma: float = option(0.3, "a number above 0, up to 1", lambda gamma: 0 < gamma <= 1)

    def init(self, trajectory: Trajectory) -> State:
        """Last image, signal and noise; zeros before the first step."""
        nothing = trajectory.x.new_zeros(())
        return trajectory.x, nothing, nothing

    def step(self, predictor: AbstractPredictor, trajectory: Trajectory, step: Step) -> Trajectory:
        """Evaluate once at the current time, and once more at the end of an abduction."""
        x_t = trajectory.x
        if step.at_image and step.ascending:
            after = leave_image(predictor, trajectory, step)
        else:
            prediction, here = trajectory.predicted(predictor, step)
            eps = prediction.merged(step)
            x_s = ddim_step(x_t, step, eps, eps) + self._correction(trajectory, step, eps)
            after = replace(here, x=x_s)
        if step.ascending and step.last:
            back = step.reversed()
            prediction, asked = after.predicted(predictor, back)
            eps = prediction.merged(back)
            missed = x_t - ddim_step(after.x, back, eps, eps)
            after = replace(after, companions=(missed,), evaluations=asked.evaluations)
        return replace(after, solver_state=(x_t, step.signal_t, step.noise_t))

    def _correction(self, trajectory: Trajectory, step: Step, eps: Images) -> Images | float:
        if step.first:
            return 0.0 if step.ascending else sum(trajectory.companions, start=0.0)
        x_u, signal_u, noise_u = trajectory.solver_state
        behind = replace(step, signal_s=signal_u, noise_s=noise_u)
        missed = x_u - ddim_step(trajectory.x, behind, eps, eps)
        turned = torch.atan2(step.noise_s, step.signal_s) - torch.atan2(noise_u, signal_u)
        return missed * self.gamma ** (-turned / torch.pi)  # turned is negative in a prediction
