"""DDIM whose inversion is refined by iteration."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fcfg.diffusion.prediction import AbstractPredictor, Step
from fcfg.sampling.ddim import DDIM, refined_step
from fcfg.sampling.solver import AbstractSolver, Trajectory, register_solver
from fcfg.support.images import pixel_axes
from fcfg.support.options import option


@register_solver
@dataclass(frozen=True)
class FixedPointDDIM(AbstractSolver):
    r"""DDIM whose inversion solves for the exact inverse of the generating step.

    Ascending, :math:`x_s` is iterated from :math:`x_t` on

    .. math:: x_s = \sqrt{\alpha_s}\, \hat x_0(x_t, \epsilon) + \sqrt{1 - \alpha_s}\, \epsilon,
        \qquad \epsilon = \epsilon_\theta(x_s, s, c),

    whose solution the DDIM step s → t maps back to :math:`x_t`. One iteration is the method of
    diffusers. ``Trajectory.residual`` is the distance between :math:`x_t` and the step back from
    the last iterate but one. Where it does not fall, the step is too long for the iteration: on
    the cosine schedule that is the step to T, where the signal almost vanishes. Descending, it is
    :class:`DDIM`.

    Args:
        iterations: Number of evaluations per step.
    """

    name = "fixed-point"

    iterations: int = option(5, "an integer from 1 to 1000", lambda count: 1 <= count <= 1000)

    def step(self, predictor: AbstractPredictor, trajectory: Trajectory, step: Step) -> Trajectory:
        """Iterate when ascending; take the DDIM step when descending."""
        if not step.ascending:
            return DDIM().step(predictor, trajectory, step)
        x_s = last = trajectory.x
        spent = trajectory.evaluations
        for _ in range(self.iterations):
            last = x_s
            x_s, rows = refined_step(predictor, trajectory, step, x_s)
            spent = spent + rows
        missed = x_s - last if step.flow else (x_s - last) * step.signal_t / step.signal_s
        residual = missed.square().mean(dim=pixel_axes(missed)).sqrt()
        if trajectory.residual is not None:
            residual = residual.maximum(trajectory.residual)
        return replace(trajectory, x=x_s, residual=residual, evaluations=spent)
