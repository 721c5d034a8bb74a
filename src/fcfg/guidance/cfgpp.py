"""CFG++ and, over several groups, FCFG++ (Algorithms 6 and 7).

References:
    CFG++: manifold-constrained classifier-free guidance (Chung et al., 2025).
"""

from __future__ import annotations

from dataclasses import dataclass

from fcfg.diffusion.prediction import Images, Prediction, State, Step
from fcfg.diffusion.schedule import NoiseSchedule
from fcfg.guidance.rule import (
    AbstractRule,
    Groups,
    StepWeights,
    Times,
    Weights,
    register_rule,
    weighted_sum,
)
from fcfg.support.errors import InputError


@register_rule
@dataclass(frozen=True)
class CFGPlusPlus(AbstractRule):
    r"""Guide the clean estimate only; add noise again with the unconditional prediction.

    .. math:: \epsilon_\text{clean} = \epsilon_\varnothing
        + \sum_m \lambda_m (\epsilon_m - \epsilon_\varnothing),
        \qquad \epsilon_\text{renoise} = \epsilon_\varnothing

    Under DDIM this is CFG with the weight :math:`\omega_t = \lambda\, r_t / (r_t - r_s)`,
    :math:`r = \sqrt{1 - \alpha} / \sqrt{\alpha}`, so the same λ is weaker with fewer steps. λ is
    therefore defined for unit steps, as in the paper's 1,000. A longer step t → s uses
    :math:`\lambda\, (r_t - r_s) / (r_t - r_{t-1})`, which makes :math:`\omega_t` independent of
    the grid.

    Args:
        raw: Whether to use the same λ for every step length.
    """

    name = "cfg++"
    smallest_weight, largest_weight = 0.0, 1.0
    weight_range = "a λ from 0 to 1"
    weight_advice = "it interpolates; 0.02 is about as strong as CFG at 3.0"
    raw: bool = False

    def combine(
        self, x_t: Images, step: Step, null: Images, groups: Groups, weights: Weights, state: State
    ) -> tuple[Prediction, State]:
        """Guide one step, with two different noises."""
        eps = null + weighted_sum(weights, groups - null)
        return Prediction(clean=eps, renoise=null), state

    def weights_on_grid(
        self, weights: StepWeights, t: Times, s: Times, schedule: NoiseSchedule
    ) -> StepWeights:
        """Scale λ from unit steps to the steps of the grid; refuse flows."""
        if schedule.is_flow:
            raise InputError(
                "guidance cfg++",
                expected="a schedule of noises, since λ of a flow is divided by its signal",
                got="a flow, whose signal vanishes",
                do="use cfg, apg or contrast",
            )
        if self.raw:
            return weights
        r_t, r_s, r_unit = (schedule.noise(u) / schedule.signal(u) for u in (t, s, t - 1))
        return weights * ((r_t - r_s) / (r_t - r_unit))[:, None]
