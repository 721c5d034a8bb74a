"""DDIM whose inversion is refined by iteration."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fcfg.diffusion.prediction import AbstractPredictor, Images, Rows, State, Step
from fcfg.sampling.ddim import DDIM, ddim_step
from fcfg.sampling.solver import AbstractSolver, register_solver
from fcfg.sampling.trajectory import Trajectory
from fcfg.support.errors import check_integer


@register_solver
@dataclass(frozen=True)
class FixedPointDDIM(AbstractSolver):
    r"""DDIM whose inversion solves for the exact inverse of the generating step.

    Ascending, :math:`x_s` is iterated from :math:`x_t` on

    .. math:: x_s = \sqrt{\alpha_s}\, \hat x_0(x_t, \epsilon) + \sqrt{1 - \alpha_s}\, \epsilon,
        \qquad \epsilon = \epsilon_\theta(x_s, s, c),

    whose solution the DDIM step s → t leads back to :math:`x_t`. One iteration is what diffusers
    does. By how much the step back from the last iterate but one misses :math:`x_t` is reported
    as ``Trajectory.residual``. Where it does not fall, the step is too long for the iteration:
    on the cosine schedule that is the step to T, where the signal all but vanishes, so that the
    refinement gains little there. Descending, it is :class:`DDIM`.

    Args:
        iterations: Evaluations in each step.
    """

    name = "fixed-point"

    iterations: int = 5

    def __post_init__(self) -> None:
        """Refuse no iteration at all."""
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
        """Iterate upward; downward take the DDIM step."""
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
    """The ascending step from t = 0 of all solvers but DDIM: one iteration, one evaluation.

    DDIM asks at t = 1 and trusts the answer up to s. To ask at s instead comes much nearer to
    the inverse of the generating step that ends at t = 0.
    """
    x_s, rows = _iterate(predictor, trajectory.x, trajectory.x, step, predictor_state)
    return replace(trajectory, x=x_s, evaluations=trajectory.evaluations + rows)


def _iterate(
    predictor: AbstractPredictor, x_t: Images, x_s: Images, step: Step, predictor_state: State
) -> tuple[Images, Rows]:
    """Take the step from x_t with the noise that is predicted at (x_s, s), and what it took."""
    back = step.reversed()
    prediction, _ = predictor.predict(x_s, back, predictor_state)
    eps = prediction.merged(back)
    return ddim_step(x_t, step, eps, eps), prediction.rows
