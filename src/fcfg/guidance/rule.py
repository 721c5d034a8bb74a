r"""What a guidance rule is: a pure formula over predictions, with explicit state (Sec. 3.2).

A rule combines the unconditional prediction :math:`\epsilon_\theta(x_t, t, \varnothing)` with one
prediction :math:`\epsilon_\theta(x_t, t, c^{(m)})` per group of attributes. With one group it is
the ordinary rule (CFG, CFG++, APG), with several the factored one (FCFG, FCFG++, FAPG). A rule can
ask for the prediction under the factual attributes instead of the unconditional one.

One file defines one rule: its name, its options, the legal weights and the formula.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias, TypedDict, TypeVar

from jaxtyping import Float, Int
from torch import Tensor

from fcfg.diffusion.prediction import Images, Prediction, State, Step
from fcfg.diffusion.schedule import NoiseSchedule
from fcfg.support.errors import InputError, short
from fcfg.support.images import per_image
from fcfg.support.options import check_options, check_registrable, is_number

Groups: TypeAlias = Float[Tensor, "groups batch channel *size"]  # predictions by group
Weights: TypeAlias = Float[Tensor, "groups"]
StepWeights: TypeAlias = Float[Tensor, "steps groups"]
Times: TypeAlias = Int[Tensor, "steps"]

#: Rules by name; :func:`register_rule` adds to them.
RULES: dict[str, type[AbstractRule]] = {}
UNGUIDED = "none"  # the name of the plain conditional model


class CommonOptions(TypedDict, total=False):
    """Options of every guidance."""

    start: float
    stop: float
    tolerance: float
    anchor: bool
    align: int
    drawn_noise: bool
    noises: int
    correlation: int
    release: float
    source: float | None


class Options(CommonOptions, total=False):
    """Options of every guidance and of the rules of this package."""

    eta: float
    mask: float
    momentum: float
    radius: float
    raw: bool


COMMON_OPTIONS = tuple(CommonOptions.__annotations__)


@dataclass(frozen=True)
class AbstractRule(ABC):
    """A guidance rule: a frozen dataclass whose fields are its options.

    A subclass sets ``name`` and defines :meth:`combine`. Everything else has a default. Options
    are numbers and booleans.
    """

    name: ClassVar[str]  #: in the text form, where the factored rule has an f before it
    #: Ends of the legal weights; a negative weight moves away from what its group says.
    smallest_weight: ClassVar[float] = -1e6
    largest_weight: ClassVar[float] = 1e6
    weight_range: ClassVar[str] = "a number from -1,000,000 to 1,000,000"  #: in messages
    weight_advice: ClassVar[str] = "1 is the plain conditional model, 3 is strong"
    #: Condition of ``null`` and of masked attributes: 'null', no attribute, or 'factual', those of
    #: the factual image.
    reference: ClassVar[Literal["null", "factual"]] = "null"

    def __post_init__(self) -> None:
        check_options(self, "guidance option")

    @property
    def plain_at_one(self) -> bool:
        """Whether one group at weight 1 is the plain model."""
        return False

    @abstractmethod
    def combine(
        self, x_t: Images, step: Step, null: Images, groups: Groups, weights: Weights, state: State
    ) -> tuple[Prediction, State]:
        r"""Guide one step and return the new state.

        Args:
            x_t: Noisy images.
            step: The step.
            null: :math:`\epsilon_\theta(x_t, t, \varnothing)`, or the prediction under the factual
                attributes, see ``reference``.
            groups: :math:`\epsilon_\theta(x_t, t, c^{(m)})` for every group m.
            weights: :math:`\omega_m`, or :math:`\lambda_m` for CFG++.
            state: State returned by :meth:`init` or by the previous guided step.
        """

    def init(self, x: Images, groups: int) -> State:
        """Return the state before the first guided step; by default there is none."""
        return ()

    def weights_on_grid(
        self, weights: StepWeights, t: Times, s: Times, schedule: NoiseSchedule
    ) -> StepWeights:
        """Convert the user's weights to those of the steps t → s; by default they are equal."""
        return weights

    def check_weight(self, subject: str, weight: object) -> float:
        """Return a legal weight as a float, or refuse it."""
        if is_number(weight) and self.smallest_weight <= weight <= self.largest_weight:
            return float(weight)
        raise InputError(
            subject, expected=self.weight_range, got=short(weight), do=self.weight_advice
        )


@dataclass(frozen=True, eq=False)
class WeightTable:
    """Weights of a run, step by step, without the groups that have no effect."""

    groups: tuple[str, ...]  #: groups that are evaluated
    weights: StepWeights
    guided: tuple[bool, ...]  #: false for steps of the plain conditional model

    @property
    def rows(self) -> int:
        """Largest number of network rows that a step needs per image."""
        return len(self.groups) + 1 if any(self.guided) else 1


Rule = TypeVar("Rule", bound=AbstractRule)


def register_rule(rule: type[Rule]) -> type[Rule]:
    """Class decorator that gives a rule its text form."""
    names = [UNGUIDED, *(name for name, known in RULES.items() if known is not rule)]
    taken = {f + name for name in names for f in ("", "f")}
    taken |= {name.removeprefix("f") for name in names}
    check_registrable(rule, "rule", taken, reserved=COMMON_OPTIONS)
    RULES[rule.name] = rule
    return rule


def weighted_sum(weights: Weights, differences: Groups) -> Images:
    r"""Sum one difference per group: :math:`\sum_m \omega_m \Delta_m`."""
    return (per_image(weights, differences) * differences).sum(dim=0)
