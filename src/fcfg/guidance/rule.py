r"""What a guidance rule is: a pure formula over predictions, with explicit state (Sec. 3.2).

A rule combines the unconditional prediction :math:`\epsilon_\theta(x_t, t, \varnothing)` with one
prediction :math:`\epsilon_\theta(x_t, t, c^{(m)})` per group of attributes. With one group it is
the ordinary rule (CFG, CFG++, APG), with several the factored one (FCFG, FCFG++, FAPG). A rule can
ask for the prediction under the factual attributes instead of the unconditional one.

One file defines one rule: its name, its options, the legal weights and the formula.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from numbers import Real
from typing import Any, ClassVar, Literal, Self, TypeAlias, TypeGuard, TypeVar

from jaxtyping import Float, Int
from torch import Tensor

from fcfg.diffusion.prediction import Images, Prediction, State, Step
from fcfg.diffusion.schedule import NoiseSchedule
from fcfg.support.errors import InputError, quoted, short

Groups: TypeAlias = Float[Tensor, "groups batch channel height width"]  # predictions by group
Weights: TypeAlias = Float[Tensor, "groups"]
StepWeights: TypeAlias = Float[Tensor, "steps groups"]
Times: TypeAlias = Int[Tensor, "steps"]

#: Rules by name; :func:`register_rule` adds to them.
RULES: dict[str, type[AbstractRule]] = {}
UNGUIDED = "none"  # the name of the plain conditional model
#: Options of every rule.
COMMON_OPTIONS = ("start", "stop", "tolerance", "anchor", "drawn_noise", "align")


@dataclass(frozen=True)
class AbstractRule(ABC):
    """A guidance rule: a frozen dataclass whose fields are its options.

    A subclass sets ``name`` and defines :meth:`combine`. Everything else has a default.
    """

    name: ClassVar[str]  #: in the text form, where the factored rule has an f before it
    largest_weight: ClassVar[float] = 1e6
    weight_range: ClassVar[str] = f"a number from 0 to {largest_weight:,.0f}"  #: in messages
    weight_advice: ClassVar[str] = "1 is the plain conditional model, 3 is strong"
    plain_at_one: ClassVar[bool] = False  #: whether one group at weight 1 is the plain model
    #: Condition of ``null`` and of masked attributes: 'null', no attribute, or 'factual', those of
    #: the factual image.
    reference: ClassVar[Literal["null", "factual"]] = "null"

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
        if is_number(weight) and 0 <= weight <= self.largest_weight:
            return float(weight)
        raise InputError(
            subject, expected=self.weight_range, got=short(weight), do=self.weight_advice
        )

    def with_options(self, **options: Any) -> Self:
        """Return a copy with other options; numbers become floats."""
        for option in fields(self):
            value = options.get(option.name, option.default)
            if isinstance(option.default, bool):
                check_option(option.name, value, "true or false", isinstance(value, bool))
        floats = {name: float(value) for name, value in options.items() if is_number(value)}
        return replace(self, **(options | floats))


Rule = TypeVar("Rule", bound=AbstractRule)


def register_rule(rule: type[Rule]) -> type[Rule]:
    """Class decorator that gives a rule its text form.

    Args:
        rule: A frozen dataclass with a ``name`` and an option in each field.
    """
    name, subject = getattr(rule, "name", None), f"rule {rule.__name__}"
    if not isinstance(name, str) or not re.fullmatch(r"[a-z][a-z0-9+_-]*", name):
        raise InputError(
            subject,
            expected="a name of lower-case letters, digits, +, - and _",
            got=short(name),
            do="set it in the class, such as name = 'mine'",
        )
    taken = {f + known for known in (UNGUIDED, *RULES) for f in ("", "f")}
    if RULES.get(name) is not rule and {name, f"f{name}"} & taken:
        raise InputError(
            subject,
            expected="a name that is not taken, with or without an f before it",
            got=f"'{name}', and there are {quoted(sorted(taken))}",
            do="choose another name",
        )
    options, is_dataclass = fields(rule), "__dataclass_fields__" in vars(rule)
    illegal = [f.name for f in options if not isinstance(f.default, bool | int | float)]
    illegal += [f.name for f in options if f.name in COMMON_OPTIONS]
    if not is_dataclass or illegal:
        raise InputError(
            subject,
            expected="a frozen dataclass whose fields have numbers as defaults, none of them "
            f"called {quoted(COMMON_OPTIONS)}",
            got=quoted(illegal) if illegal else "another class",
            do="put @dataclass(frozen=True) before it, and give its options defaults",
        )
    RULES[name] = rule
    return rule


def weighted_sum(weights: Weights, differences: Groups) -> Images:
    r"""Sum one difference per group: :math:`\sum_m \omega_m \Delta_m`."""
    return (weights.view(-1, 1, 1, 1, 1) * differences).sum(dim=0)


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a real number, NumPy's included, and not a boolean."""
    return isinstance(value, Real) and not isinstance(value, bool)


def check_option(name: str, value: object, expected: str, is_legal: bool) -> None:
    """Refuse an illegal value of an option."""
    if not is_legal:
        raise InputError(
            f"guidance option {name}", expected=expected, got=repr(value), do="change it"
        )
