"""What a guidance rule is: a pure formula over predictions, with explicit state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from numbers import Real
from typing import ClassVar

from jaxtyping import Float, Int
from torch import Tensor

from fcfg.diffusion.prediction import Images, Prediction, State, Step
from fcfg.diffusion.schedule import NoiseSchedule
from fcfg.support.errors import InputError


@dataclass(frozen=True)
class AbstractRule(ABC):
    """Combines the unconditional prediction with one prediction for each group.

    Factoring is not the rule's business: with one group a rule is the ordinary one (CFG, CFG++,
    APG), with several the factored one (FCFG, FCFG++, FAPG).

    A rule is a frozen dataclass. Its fields are its options, numbers or truth values with a
    default; :func:`fcfg.guidance.register_rule` gives it a text form.
    """

    name: ClassVar[str]  #: in texts, where a factored rule has an f before it
    largest_weight: ClassVar[float] = 1e6
    weight_words: ClassVar[tuple[str, str]] = (
        "a number, 0 or more",
        "1 is the plain conditional model, 3 is strong",
    )
    """What a weight is, and advice on how large it should be."""
    plain_at_one: ClassVar[bool] = False  #: whether one group at weight 1 is the plain model

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

    def weights_on_grid(
        self,
        weights: Float[Tensor, "steps groups"],
        t: Int[Tensor, "steps"],
        s: Int[Tensor, "steps"],
        schedule: NoiseSchedule,
    ) -> Float[Tensor, "steps groups"]:
        """Turn the weights a user states into those of the steps t → s: the same, usually."""
        return weights


def is_number(value: object) -> bool:
    """Whether something is a real number, NumPy's included, and not a truth value."""
    return isinstance(value, Real) and value is not True and value is not False


def check_option(name: str, value: object, expected: str, *, is_legal: bool) -> None:
    """Refuse an option of a rule.

    Args:
        name: Name of the option.
        value: What the user gave.
        expected: What is legal, in words.
        is_legal: Whether the value is.
    """
    if not is_legal:
        raise InputError(
            f"guidance option {name}", expected=expected, got=repr(value), do="change it"
        )


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
