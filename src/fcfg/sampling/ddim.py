"""DDIM, the paper's solver, and the steps that others share with it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fcfg.diffusion.prediction import AbstractPredictor, Images, Rows, Step
from fcfg.sampling.solver import AbstractSolver, Trajectory, register_solver


@register_solver
@dataclass(frozen=True)
class DDIM(AbstractSolver):
    r"""Deterministic DDIM, in either direction (Song et al., 2021).

    .. math:: x_s = \sqrt{\alpha_s}\, \hat x_0(x_t, \epsilon_\text{clean})
        + \sqrt{1 - \alpha_s}\, \epsilon_\text{renoise}

    Of a flow, this is Euler's method, :math:`x_s = x_t + (\sigma_s - \sigma_t)\, u`.
    First order: the round trip error halves when the steps double.
    """

    name = "ddim"

    def step(self, predictor: AbstractPredictor, trajectory: Trajectory, step: Step) -> Trajectory:
        """Evaluate once, at the current time."""
        prediction, here = trajectory.predicted(predictor, step)
        return replace(here, x=ddim_step(here.x, step, prediction.clean, prediction.renoise))


def ddim_step(x_t: Images, step: Step, clean: Images, renoise: Images) -> Images:
    """Take a DDIM step with given noises for the clean estimate and for adding noise again."""
    image = step.image(x_t, clean)
    return step.signal_s * image + step.noise_s * step.noise(x_t, renoise)


def refined_step(
    predictor: AbstractPredictor, trajectory: Trajectory, step: Step, x_s: Images
) -> tuple[Images, Rows]:
    """Take the step from x_t with the noise at (x_s, s); also return the network rows."""
    back = step.reversed()
    prediction, _ = predictor.predict(x_s, back, trajectory.predictor_state)
    eps = prediction.merged(back)
    return ddim_step(trajectory.x, step, eps, eps), prediction.rows


def leave_image(predictor: AbstractPredictor, trajectory: Trajectory, step: Step) -> Trajectory:
    """Take the ascending step from t = 0 of DPM-Solver++, Heun and BDIA: one refinement.

    DDIM evaluates at t = 1. An evaluation at s comes much closer to the inverse of the generating
    step that ends at t = 0.
    """
    x_s, rows = refined_step(predictor, trajectory, step, trajectory.x)
    return replace(trajectory, x=x_s, evaluations=trajectory.evaluations + rows)
