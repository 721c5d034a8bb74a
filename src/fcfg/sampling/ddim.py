"""DDIM, the paper's solver."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fcfg.diffusion.prediction import AbstractPredictor, Images, State, Step
from fcfg.diffusion.schedule import clean_image
from fcfg.sampling.solver import AbstractSolver, Trajectory, register_solver


@register_solver
@dataclass(frozen=True)
class DDIM(AbstractSolver):
    r"""Deterministic DDIM, in either direction (Song et al., 2021).

    .. math:: x_s = \sqrt{\alpha_s}\, \hat x_0(x_t, \epsilon_\text{clean})
        + \sqrt{1 - \alpha_s}\, \epsilon_\text{renoise}

    First order: the round trip error halves when the steps double.
    """

    name = "ddim"

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
        """Evaluate once, at the current time."""
        x_t = trajectory.x
        prediction, predictor_state = predictor.predict(x_t, step, predictor_state)
        x_s = ddim_step(x_t, step, prediction.clean, prediction.renoise)
        spent = trajectory.evaluations + prediction.rows
        after = replace(trajectory, x=x_s, evaluations=spent, noise=prediction.clean)
        return after, predictor_state, state


def ddim_step(x_t: Images, step: Step, clean: Images, renoise: Images) -> Images:
    """Take a DDIM step with given noises for the clean estimate and for adding noise again."""
    image = clean_image(x_t, clean, step.signal_t, step.noise_t)
    return step.signal_s * image + step.noise_s * renoise
