"""Classifier-free guidance and, over several groups, FCFG (Algorithms 3, 4 and 5).

References:
    Classifier-free diffusion guidance (Ho and Salimans, 2022).
"""

from __future__ import annotations

from dataclasses import dataclass

from fcfg.diffusion.prediction import Images, Prediction, State, Step
from fcfg.guidance.rule import AbstractRule, Groups, Weights, register_rule, weighted_sum


@register_rule
@dataclass(frozen=True)
class CFG(AbstractRule):
    r"""Move the prediction along the difference that each group makes.

    .. math:: \epsilon = \epsilon_\varnothing
        + \sum_m \omega_m (\epsilon_m - \epsilon_\varnothing)

    One group at weight 1 is the plain conditional model, at weight 0 the unconditional one.
    """

    name = "cfg"
    plain_at_one = True

    def combine(
        self, x_t: Images, step: Step, null: Images, groups: Groups, weights: Weights, state: State
    ) -> tuple[Prediction, State]:
        """Guide one step, with one noise for both uses."""
        eps = null + weighted_sum(weights, groups - null)
        return Prediction(clean=eps, renoise=eps), state
