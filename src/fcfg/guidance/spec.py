"""What a user writes to choose a guidance, in Python or as text.

Text form: ``none | RULE:NUMBER | RULE:group=w[,group=w…][;option=value…]`` with RULE one of
cfg, fcfg, cfg++, fcfg++, apg, fapg, or one that :func:`~fcfg.guidance.register_rule` was given. It
is what ``repr`` gives and the command line takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeAlias, cast

import torch
from jaxtyping import Float
from torch import Tensor

from fcfg.causal.graph import CausalGraph, Partition
from fcfg.diffusion.schedule import NoiseSchedule
from fcfg.guidance.apg import APG
from fcfg.guidance.cfg import CFG
from fcfg.guidance.cfgpp import CFGPlusPlus
from fcfg.guidance.rule import AbstractRule, check_option, is_number
from fcfg.guidance.rules import NONE, RULES, rule_options
from fcfg.guidance.text import GLOBAL, read_text, value_text
from fcfg.support.errors import (
    InputError,
    check_integer,
    check_is,
    complaint,
    nearest,
    quoted,
    short,
)
from fcfg.support.names import RESERVED, check_name

Weight: TypeAlias = float | Callable[[float], float]

# Options of every rule, in words and as a test; the others are the fields of the rule.
_LEGAL: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "start": ("a share from 0 to below 1", lambda x: is_number(x) and 0 <= x < 1),
    "stop": ("a share above 0, up to 1", lambda x: is_number(x) and 0 < x <= 1),
    "tolerance": ("a number, 0 or more", lambda x: is_number(x) and x >= 0),
}


@dataclass(frozen=True, eq=False)
class WeightTable:
    """Weights of a run, step by step, without the groups that can have no effect."""

    groups: tuple[str, ...]  #: those that must be evaluated
    weights: Float[Tensor, "steps groups"]
    guided: tuple[bool, ...]  #: false where the plain model is asked

    @property
    def rows(self) -> int:
        """The most network rows that a step needs for one image."""
        return len(self.groups) + 1 if any(self.guided) else 1

    def check_batch(self, batch_size: int) -> None:
        """Refuse a number of network rows at once that has no room for one image."""
        size = check_integer("batch_size", batch_size, 1, 10**9, do="256 is the default")
        if size < self.rows:
            raise InputError(
                "batch_size",
                expected=f"at least {self.rows} network rows, what one image needs",
                got=size,
                do="raise it, or use fewer groups",
            )


@dataclass(frozen=True, repr=False)
class Guidance:
    """A guidance rule with its weights; made by one of the seven constructors.

    >>> Guidance.fcfg(affected=3.0, invariant=1.2)
    fcfg:affected=3.0,invariant=1.2
    >>> Guidance.parse("fapg:affected=3,invariant=1.2;radius=5").radius
    5.0
    >>> Guidance.cfg(3.0).replace(start=0.2)
    cfg:3.0;start=0.2

    A weight is a number, or a function of the share (T - t) / T of the way from noise to image.
    ``start`` and ``stop`` are such shares too; outside them the model is asked unguided. With a
    ``tolerance``, so is every image once guidance moves its pixels by less than that. (A
    function has no text form, so the ``repr`` of a guidance that holds one does not parse.)
    """

    rule: str
    factored: bool
    weights: tuple[tuple[str, Weight], ...]
    start: float = 0.0
    stop: float = 1.0
    tolerance: float = 0.0
    formula: AbstractRule = field(default_factory=CFG)
    """The rule with its own options; for 'none' any will do, since no step is guided."""

    def __post_init__(self) -> None:
        """Refuse what means nothing, and make numbers floats."""
        if self.rule not in (NONE, self.formula.name):
            raise InputError(
                "guidance",
                expected=f"a rule among {quoted([NONE, *RULES])}, with its formula",
                got=repr(self.rule),
                do="use one of the constructors, such as Guidance.fcfg",
            )
        weights = tuple((check_name(group), self._weight(group, w)) for group, w in self.weights)
        object.__setattr__(self, "weights", weights)
        for name, (expected, is_legal) in _LEGAL.items():
            value = getattr(self, name)
            check_option(name, value, expected, is_legal=is_legal(value))
            object.__setattr__(self, name, float(value))
        if not self.start < self.stop:
            raise InputError(
                "guidance option start",
                expected=f"less than stop, {self.stop}",
                got=self.start,
                do="widen the interval",
            )

    def __getattr__(self, name: str) -> Any:
        """The options of the rule, such as ``radius`` of APG."""
        formula = self.__dict__.get("formula")
        if formula is not None and name in rule_options(formula):
            return getattr(formula, name)
        raise AttributeError(f"'Guidance' object has no attribute '{name}'")

    def _weight(self, group: str, weight: Weight) -> Weight:
        return weight if callable(weight) else self._number(group, weight)

    def _number(self, group: str, weight: object) -> float:
        expected, advice = self.formula.weight_words
        if not (is_number(weight) and 0 <= cast(float, weight) <= self.formula.largest_weight):
            raise InputError(
                f"guidance {self._rule_name}, weight of '{group}'",
                expected=expected,
                got=short(weight),
                do=advice,
            )
        return float(cast(float, weight))

    @classmethod
    def none(cls) -> Guidance:
        """The plain conditional model, the paper's ω = 1."""
        return cls(NONE, factored=False, weights=())

    @classmethod
    def of(
        cls, rule: AbstractRule, weight: Weight | None = None, /, **weights: Weight
    ) -> Guidance:
        """A rule of your own, with one weight for all attributes or one for each group.

        Args:
            rule: The rule with its options.
            weight: The weight of all attributes.
            **weights: Or the weights of the groups, as in :meth:`fcfg`.
        """
        check_is(
            "guidance", rule, AbstractRule, "a rule", do="pass one such as fcfg.guidance.CFG()"
        )
        if weight is None:
            return cls._factored(rule, weights)
        if weights:
            raise InputError(
                f"guidance {rule.name}",
                expected="one weight, or a weight for every group",
                got=f"both {short(weight)} and {quoted(weights)}",
                do="leave one out",
            )
        return cls(rule.name, factored=False, weights=((GLOBAL, weight),), formula=rule)

    @classmethod
    def cfg(cls, weight: Weight) -> Guidance:
        """Classifier-free guidance: one weight for all attributes."""
        return cls.of(CFG(), weight)

    @classmethod
    def cfgpp(cls, weight: Weight) -> Guidance:
        """CFG++: one λ for all attributes, stated for unit steps.

        A longer step is given a larger λ, so that the strength does not depend on the number of
        steps; ``.replace(raw=True)`` takes λ as it is. At 1,000 steps both are the paper's.
        """
        return cls.of(CFGPlusPlus(), weight)

    @classmethod
    def apg(cls, weight: Weight) -> Guidance:
        """Adaptive projected guidance: one weight for all attributes."""
        return cls.of(APG(), weight)

    @classmethod
    def fcfg(cls, /, **weights: Weight) -> Guidance:
        """Factored CFG: a weight for each group.

        Groups named affected and invariant follow from the intervention; groups named like all
        the attributes stand for them; any others need a ``partition``.
        """
        return cls._factored(CFG(), weights)

    @classmethod
    def fcfgpp(cls, /, **weights: Weight) -> Guidance:
        """Factored CFG++: a λ for each group, stated for unit steps as in :meth:`cfgpp`."""
        return cls._factored(CFGPlusPlus(), weights)

    @classmethod
    def fapg(cls, /, **weights: Weight) -> Guidance:
        """Factored APG: a weight for each group."""
        return cls._factored(APG(), weights)

    @classmethod
    def _factored(cls, rule: AbstractRule, weights: dict[str, Weight]) -> Guidance:
        if not weights:
            raise InputError(
                f"guidance f{rule.name}",
                expected="a weight for every group",
                got="none",
                do="for example affected=3.0, invariant=1.2",
            )
        return cls(rule.name, factored=True, weights=tuple(weights.items()), formula=rule)

    def replace(self, **options: Any) -> Guidance:
        """A copy with other options.

        Args:
            **options: start, stop, tolerance; raw (CFG++ and APG); eta, momentum, radius (APG);
                or the fields of a rule of your own.
        """
        legal = self._legal
        for name in options:
            if name not in legal:
                raise InputError(
                    f"guidance {self._rule_name}",
                    expected=f"options among {quoted(legal)}",
                    got=repr(name),
                    do=nearest(name, legal) if legal else "leave it out",
                )
        own = {name: options.pop(name) for name in _LEGAL if name in options}
        numbers = {
            name: float(value) if is_number(value) else value for name, value in options.items()
        }
        for option in fields(self.formula):
            if isinstance(option.default, bool) and option.name in numbers:
                value = numbers[option.name]
                check_option(option.name, value, "true or false", is_legal=isinstance(value, bool))
        return replace(self, **own, formula=replace(self.formula, **numbers))

    @property
    def _legal(self) -> tuple[str, ...]:
        """Names of the options, in the order of the text form."""
        return () if self.rule == NONE else (*_LEGAL, *rule_options(self.formula))

    @classmethod
    def parse(cls, text: str) -> Guidance:
        """Read the text form."""
        if isinstance(text, str) and text.strip() == NONE:
            return cls.none()
        name, factored, weights, options = read_text(text, RULES)
        made = cls(name, factored, tuple(weights.items()), formula=RULES[name]())
        return made.replace(**options)

    def __repr__(self) -> str:
        if self.rule == NONE:
            return NONE
        pairs = [f"{group}={value_text(weight)}" for group, weight in self.weights]
        weights = ",".join(pairs) if self.factored else value_text(self.weights[0][1])
        default = type(self)(self.rule, self.factored, self.weights, formula=type(self.formula)())
        changed = {
            name: getattr(self, name)
            for name in self._legal
            if getattr(self, name) != getattr(default, name)
        }
        options = "".join(f";{name}={value_text(value)}" for name, value in changed.items())
        return f"{self._rule_name}:{weights}{options}"

    @property
    def _rule_name(self) -> str:
        return ("f" if self.factored else "") + self.rule

    def partition(
        self, graph: CausalGraph, targets: Iterable[str], given: Partition | None = None
    ) -> Partition:
        """The groups that the weights name, for an intervention on ``targets``.

        Args:
            graph: Over the attributes of the model.
            targets: The attributes intervened on.
            given: The groups, where their names do not say.
        """
        if not self.factored:
            if given is not None:
                raise InputError(
                    "partition",
                    expected=f"none, since {self._rule_name} has no groups",
                    got=repr(given),
                    do="use a factored rule such as fcfg, or leave the partition out",
                )
            return Partition.single(graph)
        names = {group for group, _ in self.weights}
        if given is None and names & set(RESERVED):
            given = Partition.by_intervention(graph, targets)
        elif given is None and names & set(graph.nodes):
            given = Partition.by_attribute(graph)
        elif given is None:
            raise InputError(
                f"guidance {self!r}",
                expected="groups named affected and invariant, or like all the attributes",
                got=quoted(group for group, _ in self.weights),
                do="pass partition= to say what is in these groups",
            )
        given.check_covers(graph.nodes)
        missing = [group for group in given if group not in names]
        unknown = sorted(names - set(given.names))
        if missing or unknown:
            raise InputError(
                f"guidance {self!r}",
                expected=f"a weight for each of the groups {quoted(given)}",
                got=complaint(("none for", missing), ("one for", unknown)),
                do="name every group once; the weight 0 leaves one out",
            )
        return given

    def table(
        self, partition: Partition, times: Sequence[int], schedule: NoiseSchedule
    ) -> WeightTable:
        """Weights on a descending grid of times.

        Groups that are empty, or whose weight is 0 at every step, are left out: they have no
        effect, and need no evaluation. Where CFG has one group, at weight 1, it is the plain
        conditional model, which takes one row.
        """
        share = [(schedule.steps - t) / schedule.steps for t in times[:-1]]
        if self.rule == NONE:
            return WeightTable((), torch.zeros(len(share), 0), (False,) * len(share))
        guided = tuple(self.start <= u < self.stop for u in share)
        if not any(guided):
            raise InputError(
                f"guidance {self!r}",
                expected="at least one step between start and stop",
                got=f"none among {len(share)} steps",
                do="use more steps or a wider interval",
            )
        chosen = dict(self.weights)
        stated = {
            group: [
                self._at(group, chosen[group], u) if on else 0.0
                for u, on in zip(share, guided, strict=True)
            ]
            for group in partition
            if partition[group]
        }
        if self.formula.plain_at_one and len(stated) == 1:
            (column,) = stated.values()
            guided = tuple(on and weight != 1 for on, weight in zip(guided, column, strict=True))
        active = tuple(group for group, column in stated.items() if any(column))
        weights = torch.tensor([stated[group] for group in active], dtype=torch.float64)
        t, s = torch.tensor(times[:-1]), torch.tensor(times[1:])
        weights = weights.view(len(active), len(share)).T
        return WeightTable(active, self.formula.weights_on_grid(weights, t, s, schedule), guided)

    def _at(self, group: str, weight: Weight, share: float) -> float:
        return self._number(group, weight(share)) if callable(weight) else weight
