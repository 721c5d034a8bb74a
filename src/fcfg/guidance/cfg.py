"""Classifier-free guidance and, over several groups, FCFG (Algorithms 3, 4 and 5).

References:
    Classifier-free diffusion guidance (Ho and Salimans, 2022).
"""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from fcfg.diffusion.prediction import Images, Prediction, State, Step
from fcfg.guidance.rule import AbstractRule, pushed


@dataclass(frozen=True)
class CFG(AbstractRule):
    r"""Push the prediction along every group's difference.

    .. math:: \epsilon = \epsilon_\varnothing
        + \sum_m \omega_m (\epsilon_m - \epsilon_\varnothing)

    One group at weight 1 is the plain conditional model, at weight 0 the unconditional one.
    """

    name = "cfg"
    plain_at_one = True

    def init(self, x: Images, groups: int) -> State:
        """No state."""
        return ()

    def combine(
        self,
        x_t: Images,
        step: Step,
        null: Images,
        groups: Float[Tensor, "groups batch channel height width"],
        weights: Float[Tensor, "groups"],
        state: State,
    ) -> tuple[Prediction, State]:
        """Guide one step: one noise for both uses."""
        eps = pushed(null, groups, weights)
        return Prediction(clean=eps, renoise=eps), state
