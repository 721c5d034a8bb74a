"""What a guidance rule is: a pure formula over predictions, with explicit state."""

from __future__ import annotations

from abc import ABC, abstractmethod

from jaxtyping import Float, Int
from torch import Tensor

from fcfg.denoise import Images, Prediction, State, Step
from fcfg.schedule import NoiseSchedule


class AbstractRule(ABC):
    """Combines the unconditional prediction with one prediction for each group.

    Factoring is not the rule's business: with one group a rule is the ordinary one (CFG, CFG++,
    APG), with several the factored one (FCFG, FCFG++, FAPG).
    """

    @abstractmethod
    def init(self, x: Images, groups: int) -> State:
        """State before the first guided step."""

    @abstractmethod
    def combine(
        self,
        x_t: Images,
        step: Step,
        null: Images,
        groups: Float[Tensor, "groups batch channel height width"],
        weights: Float[Tensor, "groups"],
        state: State,
    ) -> tuple[Prediction, State]:
        r"""Guide one step.

        Args:
            x_t: The noisy images.
            step: Where we are.
            null: :math:`\epsilon_\theta(x_t, t, \varnothing)`.
            groups: :math:`\epsilon_\theta(x_t, t, c^{(m)})` for every group m.
            weights: :math:`\omega_m`, or :math:`\lambda_m` for CFG++.
            state: What :meth:`init` or the last guided step gave.
        """

    @abstractmethod
    def weights_on_grid(
        self,
        weights: Float[Tensor, "steps groups"],
        t: Int[Tensor, "steps"],
        s: Int[Tensor, "steps"],
        schedule: NoiseSchedule,
    ) -> Float[Tensor, "steps groups"]:
        """Turn the weights a user states into those of the steps t → s."""


def pushed(
    null: Images,
    groups: Float[Tensor, "groups batch channel height width"],
    weights: Float[Tensor, "groups"],
) -> Images:
    r"""Noise pushed along the difference that each group makes.

    .. math:: \epsilon_\varnothing + \sum_m \omega_m (\epsilon_m - \epsilon_\varnothing)
    """
    return null + (along_groups(weights) * (groups - null)).sum(dim=0)


def along_groups(weights: Float[Tensor, "groups"]) -> Float[Tensor, "groups 1 1 1 1"]:
    """Weights in the shape that multiplies one prediction for each group."""
    return weights.view(-1, 1, 1, 1, 1)
