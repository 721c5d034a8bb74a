"""Guidance as users write it: a rule, its weights and its options, in Python or as text.

The text form is ``none``, ``RULE:NUMBER`` or ``RULE:group=w[,group=w…]``, with options behind it,
``[;option=value…]``. RULE is cfg, cfg++, apg, contrast, one of these with an f before it, or a
rule added with :func:`~fcfg.guidance.register_rule`. It is the ``repr`` of a guidance, and the
command line reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, TypeAlias

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from fcfg.causal.graph import CausalGraph, Partition
from fcfg.diffusion.denoiser import Denoiser
from fcfg.diffusion.prediction import AbstractPredictor, ConditionalPredictor
from fcfg.diffusion.schedule import NoiseSchedule
from fcfg.guidance.apg import APG
from fcfg.guidance.cfg import CFG
from fcfg.guidance.cfgpp import CFGPlusPlus
from fcfg.guidance.contrast import Contrast
from fcfg.guidance.early_stopping import EarlyStoppingPredictor
from fcfg.guidance.guided import GuidedPredictor
from fcfg.guidance.options import common_options
from fcfg.guidance.rule import COMMON_OPTIONS, RULES, UNGUIDED, AbstractRule, StepWeights
from fcfg.guidance.text import GLOBAL, read_text, value_text
from fcfg.support.errors import (
    InputError,
    check_is,
    complaint,
    nearest,
    quoted,
    short,
)
from fcfg.support.names import RESERVED, check_name

Weight: TypeAlias = float | Callable[[float], float]
PathKind: TypeAlias = Literal["none", "inferred", "drawn"]


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


@dataclass(frozen=True, repr=False)
class Guidance:
    """A guidance rule with its weights; use one of the constructors below.

    >>> Guidance.fcfg(affected=3.0, invariant=1.2)
    fcfg:affected=3.0,invariant=1.2
    >>> Guidance.parse("fapg:affected=3,invariant=1.2;radius=5").radius
    5.0
    >>> Guidance.cfg(3.0).replace(start=0.2)
    cfg:3.0;start=0.2
    >>> Guidance.contrast(1.5).replace(anchor=True)
    contrast:1.5;anchor=true

    A weight is a number, or a function of the share (T - t) / T of the way from noise to image.
    (A function has no text form, so the ``repr`` of such a guidance does not parse.)

    Args:
        rule: Rule with its own options; None for the plain conditional model.
        factored: Whether groups have weights of their own.
        weights: Pairs of group and weight.
        start: Share of the way at which guidance starts.
        stop: Share of the way at which guidance stops.
        tolerance: Change of the pixels below which the guidance of an image stops early.
        anchor: Whether to subtract the errors of the factual path, see
            :mod:`fcfg.sampling.anchor`.
        drawn_noise: Whether the noise of that path is drawn instead of inferred, see
            :mod:`fcfg.pipeline.drawn_noise`.
        align: Number of steps that align the null condition at each time, see
            :mod:`fcfg.pipeline.alignment`.
    """

    rule: AbstractRule | None
    factored: bool
    weights: tuple[tuple[str, Weight], ...]
    start: float = 0.0
    stop: float = 1.0
    tolerance: float = 0.0
    anchor: bool = False
    align: int = 0
    drawn_noise: bool = False

    def __post_init__(self) -> None:
        """Refuse illegal weights and options, and convert numbers to floats."""
        if not isinstance(self.rule, AbstractRule | None) or (self.rule is None and self.weights):
            raise InputError(
                "guidance",
                expected="a rule with weights, or None without",
                got=f"{short(self.rule)} with {len(self.weights)} weights",
                do="use one of the constructors, such as Guidance.fcfg",
            )
        weights = tuple(
            (check_name(group), weight if callable(weight) else self._weight(group, weight))
            for group, weight in self.weights
        )
        object.__setattr__(self, "weights", weights)
        options = common_options(**{name: getattr(self, name) for name in COMMON_OPTIONS})
        for name, value in options.items():
            object.__setattr__(self, name, value)
        if self.align and (self.factored or type(self.rule) is not CFG):
            raise InputError(
                "guidance option align",
                expected=f"0 with {self.name}, since only cfg can be aligned",
                got=self.align,
                do="use cfg with one weight",
            )

    @property
    def name(self) -> str:
        """Name of the rule, with an f before it if it is factored; 'none' without a rule."""
        return UNGUIDED if self.rule is None else "f" * self.factored + self.rule.name

    def _weight(self, group: str, weight: Weight, share: float = 0.0) -> float:
        assert self.rule is not None
        number = weight(share) if callable(weight) else weight
        return self.rule.check_weight(f"guidance {self.name}, weight of '{group}'", number)

    def __getattr__(self, name: str) -> Any:
        """Return an option of the rule, such as ``radius`` of APG."""
        rule = self.__dict__.get("rule")
        if rule is not None and name in {option.name for option in fields(rule)}:
            return getattr(rule, name)
        raise AttributeError(f"'Guidance' object has no attribute '{name}'")

    @classmethod
    def none(cls) -> Guidance:
        """The plain conditional model, the paper's ω = 1."""
        return cls(None, factored=False, weights=())

    @classmethod
    def of(
        cls, rule: AbstractRule, weight: Weight | None = None, /, **weights: Weight
    ) -> Guidance:
        """Any rule, with one weight for all attributes or one for each group.

        Args:
            rule: Rule with its options.
            weight: Weight of all attributes.
            **weights: Weights of the groups, as in :meth:`fcfg`.
        """
        check_is(
            "guidance", rule, AbstractRule, "a rule", do="pass one such as fcfg.guidance.CFG()"
        )
        if weight is not None and weights:
            raise InputError(
                f"guidance {rule.name}",
                expected="one weight, or a weight for every group",
                got=f"both {short(weight)} and {quoted(weights)}",
                do="leave one out",
            )
        if weight is not None:
            return cls(rule, factored=False, weights=((GLOBAL, weight),))
        if not weights:
            raise InputError(
                f"guidance f{rule.name}",
                expected="a weight for every group",
                got="none",
                do="for example affected=3.0, invariant=1.2",
            )
        return cls(rule, factored=True, weights=tuple(weights.items()))

    @classmethod
    def cfg(cls, weight: Weight) -> Guidance:
        """Classifier-free guidance: one weight for all attributes."""
        return cls.of(CFG(), weight)

    @classmethod
    def cfgpp(cls, weight: Weight) -> Guidance:
        """CFG++: one λ for all attributes, defined for unit steps.

        Longer steps use a larger λ, so that the strength does not depend on the number of steps;
        ``.replace(raw=True)`` uses λ unchanged. With 1,000 steps both are the paper's rule.
        """
        return cls.of(CFGPlusPlus(), weight)

    @classmethod
    def apg(cls, weight: Weight) -> Guidance:
        """Adaptive projected guidance: one weight for all attributes."""
        return cls.of(APG(), weight)

    @classmethod
    def contrast(cls, weight: Weight) -> Guidance:
        """Contrast: guidance along the difference between counterfactual and factual condition."""
        return cls.of(Contrast(), weight)

    @classmethod
    def fcfg(cls, /, **weights: Weight) -> Guidance:
        """Factored CFG: a weight for each group.

        Groups named affected and invariant follow from the intervention. Groups can also be named
        like all the attributes; other groups need a ``partition``.
        """
        return cls.of(CFG(), **weights)

    @classmethod
    def fcfgpp(cls, /, **weights: Weight) -> Guidance:
        """Factored CFG++: a λ for each group, defined for unit steps as in :meth:`cfgpp`."""
        return cls.of(CFGPlusPlus(), **weights)

    @classmethod
    def fapg(cls, /, **weights: Weight) -> Guidance:
        """Factored APG: a weight for each group."""
        return cls.of(APG(), **weights)

    def replace(self, **options: Any) -> Guidance:
        """Return a copy with other options.

        Args:
            **options: start, stop, tolerance, anchor, drawn_noise, align; raw (CFG++ and APG);
                eta, momentum, radius (APG); or the fields of your own rule.
        """
        legal = ["anchor", "drawn_noise"]
        if self.rule is not None:
            legal = [*COMMON_OPTIONS, *(f.name for f in fields(self.rule))]
        for name in options:
            if name not in legal:
                raise InputError(
                    f"guidance {self.name}",
                    expected=f"options among {quoted(legal)}",
                    got=repr(name),
                    do=nearest(name, legal),
                )
        common = {name: options.pop(name) for name in COMMON_OPTIONS if name in options}
        return replace(self, **common, rule=self.rule and self.rule.with_options(**options))

    @classmethod
    def parse(cls, text: str) -> Guidance:
        """Read the text form."""
        name, factored, weights, options = read_text(text)
        rule = None if name == UNGUIDED else RULES[name]()
        return cls(rule, factored, tuple(weights.items())).replace(**options)

    def __repr__(self) -> str:
        pairs = [f"{group}={value_text(weight)}" for group, weight in self.weights]
        values = pairs if self.factored else [value_text(weight) for _, weight in self.weights]
        common = [option for option in fields(self) if option.name in COMMON_OPTIONS]
        options = "".join(
            f";{option.name}={value_text(getattr(self, option.name))}"
            for option in (*common, *(() if self.rule is None else fields(self.rule)))
            if getattr(self, option.name) != option.default
        )
        return f"{self.name}{':' * bool(values)}{','.join(values)}{options}"

    @property
    def path(self) -> PathKind:
        """Which states of the factual image a prediction needs, beside the last one."""
        if self.drawn_noise:
            return "drawn"
        return "inferred" if self.anchor or self.align else "none"

    @property
    def needs_path(self) -> bool:
        """Whether a prediction needs states at all times."""
        return self.path != "none"

    @property
    def factual(self) -> Guidance:
        """Guidance of the factual branch of an anchored prediction, whose attributes are factual.

        A rule that refers to the factual condition is the plain conditional model there.
        """
        refers = self.rule is not None and self.rule.reference == "factual"
        return Guidance.none() if refers else self

    def partition(
        self, graph: CausalGraph, targets: Iterable[str], given: Partition | None = None
    ) -> Partition:
        """Return the groups named by the weights, for an intervention on ``targets``.

        Args:
            graph: Causal graph over the attributes of the model.
            targets: Attributes intervened on.
            given: Groups, if they do not follow from their names.
        """
        if not self.factored:
            if given is not None:
                raise InputError(
                    "partition",
                    expected=f"none, since {self.name} has no groups",
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
                do="name them so, or pass partition= in Python",
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
        """Return the weights on a descending grid of times.

        Groups that are empty, or whose weight is 0 at every step, are left out: they have no
        effect and need no evaluation. A step of CFG with one group at weight 1 is a step of the
        plain conditional model, which takes one row.
        """
        shares = [(schedule.steps - t) / schedule.steps for t in times[:-1]]
        if self.rule is None:
            return WeightTable((), torch.zeros(len(shares), 0), (False,) * len(shares))
        guided = tuple(self.start <= share < self.stop for share in shares)
        if not any(guided):
            raise InputError(
                f"guidance {self!r}",
                expected="at least one step between start and stop",
                got=f"none among {len(shares)} steps",
                do="use more steps or a wider interval",
            )
        chosen = dict(self.weights)
        columns = {
            group: [
                self._weight(group, chosen[group], share) if on else 0.0
                for share, on in zip(shares, guided, strict=True)
            ]
            for group in partition
            if partition[group]
        }
        if self.rule.plain_at_one and len(columns) == 1:
            (column,) = columns.values()
            guided = tuple(on and weight != 1 for on, weight in zip(guided, column, strict=True))
        active = tuple(group for group, column in columns.items() if any(column))
        weights = torch.tensor([columns[group] for group in active], dtype=torch.float64)
        weights = weights.view(len(active), len(shares)).T
        t, s = torch.tensor(times[:-1]), torch.tensor(times[1:])
        return WeightTable(active, self.rule.weights_on_grid(weights, t, s, schedule), guided)

    def predictor(
        self,
        denoiser: Denoiser,
        condition: Float[Tensor, "batch condition"],
        factual: Float[Tensor, "batch condition"],
        keep: Bool[Tensor, "groups attributes"],
    ) -> AbstractPredictor:
        """Return the predictor of this guidance.

        Args:
            denoiser: The denoiser.
            condition: Conditions of the images, (batch, K·d).
            factual: Conditions of the factual images, (batch, K·d).
            keep: Attributes that each group of the :meth:`table` keeps.
        """
        if self.rule is None:
            return ConditionalPredictor(denoiser, condition)
        reference = factual if self.rule.reference == "factual" else None
        guided = GuidedPredictor(denoiser, condition, keep, self.rule, reference)
        return EarlyStoppingPredictor(guided, self.tolerance) if self.tolerance else guided
