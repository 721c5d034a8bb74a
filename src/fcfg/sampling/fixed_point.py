"""DDIM whose inversion is refined by iteration."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fcfg.diffusion.prediction import AbstractPredictor, Images, Rows, State, Step
from fcfg.sampling.ddim import DDIM, ddim_step
from fcfg.sampling.solver import AbstractSolver, Trajectory, register_solver
from fcfg.support.errors import check_integer


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

    iterations: int = 5

    def __post_init__(self) -> None:
        """Check the number of iterations."""
        check_integer("fixed-point iterations", self.iterations, 1, 1000, do="use 5")

    def init(self, trajectory: Trajectory) -> State:
        """No state."""
        return ()

    def step(
        self,
        predictor: AbstractPredictor,
        trajectory: Trajectory,
        step: Step,
        predictor_state: State,
        state: State,
    ) -> tuple[Trajectory, State, State]:
        """Iterate when ascending; take the DDIM step when descending."""
        if not step.ascending:
            return DDIM().step(predictor, trajectory, step, predictor_state, state)
        x_s = last = trajectory.x
        spent = trajectory.evaluations
        for _ in range(self.iterations):
            last = x_s
            x_s, rows = _iterate(predictor, trajectory.x, x_s, step, predictor_state)
            spent = spent + rows
        missed = (x_s - last) * step.signal_t / step.signal_s
        residual = missed.square().mean(dim=(1, 2, 3)).sqrt()
        if trajectory.residual is not None:
            residual = residual.maximum(trajectory.residual)
        return (
            replace(trajectory, x=x_s, residual=residual, evaluations=spent),
            predictor_state,
            state,
        )


def leave_image(
    predictor: AbstractPredictor, trajectory: Trajectory, step: Step, predictor_state: State
) -> Trajectory:
    """Take the ascending step from t = 0 of DPM-Solver++, Heun and BDIA: one iteration.

    DDIM evaluates at t = 1. An evaluation at s comes much closer to the inverse of the generating
    step that ends at t = 0.
    """
    x_s, rows = _iterate(predictor, trajectory.x, trajectory.x, step, predictor_state)
    return replace(trajectory, x=x_s, evaluations=trajectory.evaluations + rows)


def _iterate(
    predictor: AbstractPredictor, x_t: Images, x_s: Images, step: Step, predictor_state: State
) -> tuple[Images, Rows]:
    """Take the step from x_t with the noise at (x_s, s); also return the network rows."""
    back = step.reversed()
    prediction, _ = predictor.predict(x_s, back, predictor_state)
    eps = prediction.merged(back)
    return ddim_step(x_t, step, eps, eps), prediction.rows
