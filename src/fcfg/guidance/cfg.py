"""Classifier-free guidance and, over several groups, FCFG (Algorithms 3, 4 and 5).

References:
    Classifier-free diffusion guidance (Ho and Salimans, 2022).
"""

from __future__ import annotations

from dataclasses import dataclass

from fcfg.diffusion.prediction import Images, Prediction, State, Step
from fcfg.guidance.mask import largest
from fcfg.guidance.rule import AbstractRule, Groups, Weights, register_rule, weighted_sum
from fcfg.support.options import option


@register_rule
@dataclass(frozen=True)
class CFG(AbstractRule):
    r"""Move the prediction along the difference that each group makes.

    .. math:: \epsilon = \epsilon_\varnothing
        + \sum_m \omega_m (\epsilon_m - \epsilon_\varnothing)

    One group at weight 1 is the plain conditional model, at weight 0 the unconditional one.

    Args:
        mask: Share of the pixels, those with the smallest difference, that a group does not move;
            see :func:`fcfg.guidance.mask.largest`.
    """

    name = "cfg"
    mask: float = option(0.0, "a share from 0 to below 1", lambda share: 0 <= share < 1)

    @property
    def plain_at_one(self) -> bool:
        return not self.mask

    def combine(
        self, x_t: Images, step: Step, null: Images, groups: Groups, weights: Weights, state: State
    ) -> tuple[Prediction, State]:
        """Guide one step, with one noise for both uses."""
        eps = null + weighted_sum(weights, largest(groups - null, self.mask))
        return Prediction(clean=eps, renoise=eps), state
