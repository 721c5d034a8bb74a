"""BDIA: a solver that is undone exactly.

References:
    Exact diffusion inversion via bidirectional integration approximation (Zhang et al., 2023).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from fcfg.diffusion.prediction import AbstractPredictor, Images, State, Step
from fcfg.sampling.ddim import ddim_step
from fcfg.sampling.fixed_point import leave_image
from fcfg.sampling.solver import AbstractSolver, register_solver
from fcfg.sampling.trajectory import Trajectory
from fcfg.support.errors import InputError, short


@register_solver
@dataclass(frozen=True)
class BDIA(AbstractSolver):
    r"""Correct each DDIM step by what its mirror image misses.

    With the last time u, and :math:`\text{DDIM}_{t \to s}` the DDIM step of the noise at (x_t, t):

    .. math::
        x_s = \text{DDIM}_{t \to s}(x_t)
        + \gamma^{(\theta_u - \theta_s) / \pi} \bigl( x_u - \text{DDIM}_{t \to u}(x_t) \bigr),
        \qquad \tan \theta = \sqrt{1 - \alpha} / \sqrt{\alpha}

    The factor of an abduction is one over that of the prediction, so that either undoes the
    other, whatever the network: of three images in a row, the outer ones give each other. Second
    order. The last step, to t = 0, is corrected like any other.

    An abduction keeps what the DDIM step back from its end misses, as ``Trajectory.companions``,
    and a prediction starts with that; without it, the first step is a DDIM step, and the image
    is another one. The noise alone says little: the two belong together.

    Exact means: predicted as it was abducted, the image comes back up to rounding. Under other
    attributes, or guided, the correction is that of another question. It alternates in sign, and
    a prediction with γ = 1 lets it grow. An abduction does the opposite, and inflates the noise
    where γ is small.

    Args:
        gamma: What is left of a correction over the whole way from noise to image. (The original
            has one factor for each step, which would mean more the more steps there are.)
    """

    name = "bdia"

    gamma: float = 0.3

    def __post_init__(self) -> None:
        """Refuse a factor that cannot be undone, or that lets errors grow."""
        if not (isinstance(self.gamma, int | float) and 0 < self.gamma <= 1):
            raise InputError(
                "bdia, gamma",
                expected="a number above 0, up to 1",
                got=short(self.gamma),
                do="1 is second order, less forgets faster",
            )

    def init(self, trajectory: Trajectory) -> State:
        """The last image, its signal and its noise: nothing yet."""
        nothing = trajectory.x.new_zeros(())
        return trajectory.x, nothing, nothing

    def step(
        self,
        predictor: AbstractPredictor,
        trajectory: Trajectory,
        step: Step,
        predictor_state: State,
        state: State,
    ) -> tuple[Trajectory, State, State]:
        """One evaluation at the current time, and one more where an abduction ends."""
        if step.at_image and step.ascending:
            after = leave_image(predictor, trajectory, step, predictor_state)
        else:
            prediction, predictor_state = predictor.predict(trajectory.x, step, predictor_state)
            eps = prediction.merged(step)
            x_s = ddim_step(trajectory.x, step, eps, eps)
            x_s = x_s + self._correction(trajectory, step, eps, state)
            spent = trajectory.evaluations + prediction.rows
            after = replace(trajectory, x=x_s, evaluations=spent)
        if step.ascending and step.last:
            after = _with_companion(
                predictor, trajectory.x, after, step.reversed(), predictor_state
            )
        return after, predictor_state, (trajectory.x, step.signal_t, step.noise_t)

    def _correction(
        self, trajectory: Trajectory, step: Step, eps: Images, state: State
    ) -> Images | float:
        if step.first:
            return 0.0 if step.ascending else sum(trajectory.companions, start=0.0)
        x_u, signal_u, noise_u = state
        behind = replace(step, signal_s=signal_u, noise_s=noise_u)
        missed = x_u - ddim_step(trajectory.x, behind, eps, eps)
        turned = torch.atan2(step.noise_s, step.signal_s) - torch.atan2(noise_u, signal_u)
        return missed * self.gamma ** (-turned / torch.pi)  # turned is negative in a prediction


def _with_companion(
    predictor: AbstractPredictor,
    x_t: Images,
    after: Trajectory,
    back: Step,
    predictor_state: State,
) -> Trajectory:
    """Keep what the DDIM step back misses."""
    prediction, _ = predictor.predict(after.x, back, predictor_state)
    eps = prediction.merged(back)
    missed = x_t - ddim_step(after.x, back, eps, eps)
    spent = after.evaluations + prediction.rows
    return replace(after, companions=(missed,), evaluations=spent)
