"""DPM-Solver++ (2M): second order at one evaluation per step.

References:
    DPM-Solver++: fast solver for guided sampling of diffusion probabilistic models
    (Lu et al., 2022), Algorithm 2.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from fcfg.diffusion.prediction import AbstractPredictor, State, Step
from fcfg.sampling.ddim import ddim_step, leave_image
from fcfg.sampling.solver import AbstractSolver, Trajectory, register_solver


@register_solver
@dataclass(frozen=True)
class DPMSolver2M(AbstractSolver):
    r"""Extrapolate the clean image from the last two evaluations, along the log-SNR.

    With :math:`\lambda = \log(\sqrt{\alpha} / \sqrt{1 - \alpha})`, the last time u, and
    :math:`h = \lambda_s - \lambda_t`, :math:`h' = \lambda_t - \lambda_u`:

    .. math::
        x_s = \frac{\sqrt{1 - \alpha_s}}{\sqrt{1 - \alpha_t}}\, x_t
        + \sqrt{\alpha_s}\, (1 - e^{-h})\, D,
        \qquad D = \hat x_0^{(t)} + \frac{h}{2 h'} (\hat x_0^{(t)} - \hat x_0^{(u)})

    which is the DDIM step of the clean image D, in both directions. Steps without history, and
    those at t = 0 and where a flow has no signal, where λ is infinite, are DDIM steps; the one
    that begins at t = 0 is :func:`~fcfg.sampling.ddim.leave_image`. The history holds guided and
    unguided predictions alike: the first step after guidance starts or stops extrapolates from
    the other kind.
    """

    name = "dpm-2m"

    def init(self, trajectory: Trajectory) -> State:
        """Last clean image, and its noise/signal, of a flow signal/noise; zeros at first."""
        return torch.zeros_like(trajectory.x), trajectory.x.new_zeros(())

    def step(self, predictor: AbstractPredictor, trajectory: Trajectory, step: Step) -> Trajectory:
        """Evaluate once, at the current time."""
        if step.at_image and step.ascending:
            return leave_image(predictor, trajectory, step)
        x_t, (before, rate_u) = trajectory.x, trajectory.solver_state
        prediction, here = trajectory.predicted(predictor, step)
        eps = prediction.merged(step)
        x_s = ddim_step(x_t, step, eps, eps)
        clean = step.image(x_t, eps)
        rate_t = step.signal_t / step.noise_t if step.flow else step.noise_t / step.signal_t
        if not (step.at_image or step.at_noise):
            if step.flow:
                ahead, behind = rate_t * step.noise_s / step.signal_s, rate_u / rate_t
            else:
                ahead, behind = step.noise_s / step.signal_s / rate_t, rate_t / rate_u
            extrapolation = torch.log(ahead) / (2 * torch.log(behind))
            x_s = x_s + step.signal_s * (1 - ahead) * extrapolation * (clean - before)
        return replace(here, x=x_s, solver_state=(clean, rate_t))
