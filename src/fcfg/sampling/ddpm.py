"""DDPM: the mean of a step that draws noise anew, for predictions whose noise is drawn.

References:
    Denoising diffusion implicit models (Song et al., 2021), Equation 12.
    An edit friendly DDPM noise space (Huberman-Spiegelglas et al., 2024).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from jaxtyping import Float
from torch import Tensor

from fcfg.diffusion.prediction import AbstractPredictor, Step
from fcfg.sampling.solver import AbstractSolver, Trajectory, register_solver
from fcfg.support.options import option


@register_solver
@dataclass(frozen=True)
class DDPM(AbstractSolver):
    r"""Step to the mean of DDIM with noise; whoever draws the path adds the noise.

    .. math:: \mu = \sqrt{\alpha_s}\, \hat x_0 + \sqrt{1 - \alpha_s - \sigma^2}\, \epsilon,
        \qquad \sigma = \eta \sqrt{\frac{1 - \alpha_s}{1 - \alpha_t}
        \Bigl( 1 - \frac{\alpha_t}{\alpha_s} \Bigr)}

    An anchor adds :math:`x_s - \mu(x_t)`. On a path of independent noise this is σ times the noise
    map of edit-friendly DDPM inversion, which is therefore the anchored prediction of this solver.
    A step that is not anchored adds σ times the noise of the path.

    Args:
        eta: Share η of the noise of DDPM, the posterior; 0 is DDIM.
    """

    name = "ddpm"
    draws_noise = True
    eta: float = option(1.0, "a number from 0 to 1", lambda eta: 0 <= eta <= 1)

    def fresh(self, step: Step) -> Float[Tensor, ""]:
        kept = step.signal_t * step.noise_s / (step.signal_s * step.noise_t)
        return self.eta * (1 - kept.square()).sqrt()

    def step(self, predictor: AbstractPredictor, trajectory: Trajectory, step: Step) -> Trajectory:
        """Evaluate once, at the current time."""
        prediction, here = trajectory.predicted(predictor, step)
        image = step.image(here.x, prediction.clean)
        left = step.noise_s * (1 - self.fresh(step).square()).sqrt()
        noise = step.noise(here.x, prediction.renoise)
        return replace(here, x=step.signal_s * image + left * noise)
