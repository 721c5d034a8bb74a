"""Guidance as users write it: a rule, its weights and its options, in Python or as text.

The text form is ``none``, ``RULE:NUMBER`` or ``RULE:group=w[,group=w…]``, with options behind it,
``[;option=value…]``. RULE is cfg, cfg++, apg, contrast, one of these with an f before it, or a
rule added with :func:`~fcfg.guidance.register_rule`. It is the ``repr`` of a guidance, and the
command line reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any, TypeAlias, Unpack

import torch
from jaxtyping import Bool
from torch import Tensor

from fcfg.causal.graph import CausalGraph, Partition
from fcfg.diffusion.denoiser import Denoiser
from fcfg.diffusion.prediction import AbstractPredictor, Condition, ConditionalPredictor
from fcfg.diffusion.schedule import NoiseSchedule
from fcfg.guidance.apg import APG
from fcfg.guidance.cfg import CFG
from fcfg.guidance.cfgpp import CFGPlusPlus
from fcfg.guidance.contrast import Contrast
from fcfg.guidance.early_stopping import EarlyStoppingPredictor
from fcfg.guidance.guided import GuidedPredictor
from fcfg.guidance.path import PATH_OPTIONS, Drawing, PathKind
from fcfg.guidance.rule import (
    COMMON_OPTIONS,
    RULES,
    UNGUIDED,
    AbstractRule,
    Options,
    WeightTable,
)
from fcfg.support.errors import (
    InputError,
    check_among,
    check_is,
    complaint,
    nearest,
    quoted,
    short,
)
from fcfg.support.names import RESERVED, check_name
from fcfg.support.options import TextForm, check_options, option

Weight: TypeAlias = float | Callable[[float], float]

_GLOBAL = "all"  # the only group of a rule that is not factored
_EXAMPLE = "fcfg:affected=3,invariant=1.2;anchor=true"


@dataclass(frozen=True, repr=False)
class Guidance:
    """A guidance rule with its weights; use one of the constructors below.

    >>> Guidance.fcfg(affected=3.0, invariant=1.2)
    fcfg:affected=3.0,invariant=1.2
    >>> Guidance.parse("fapg:affected=3,invariant=1.2;radius=5").rule
    APG(eta=0.0, momentum=-0.75, radius=5.0, raw=False)
    >>> Guidance.cfg(3.0).replace(start=0.2)
    cfg:3.0;start=0.2
    >>> Guidance.contrast(1.5).replace(anchor=True)
    contrast:1.5;anchor=true

    A weight is a number, or a function of the share (T - t) / T of the way from noise to image.
    (A function has no text form, so the ``repr`` of such a guidance does not parse.)
    """

    rule: AbstractRule | None  #: with its own options; None for the plain conditional model
    factored: bool  #: whether groups have weights of their own
    weights: tuple[tuple[str, Weight], ...]  #: pairs of group and weight
    #: Shares of the way at which guidance starts and stops.
    start: float = option(0.0, "a share from 0 to below 1", lambda share: 0 <= share < 1)
    stop: float = option(1.0, "a share above 0, up to 1", lambda share: 0 < share <= 1)
    #: Change of the pixels below which the guidance of an image stops early.
    tolerance: float = option(0.0, "a number, 0 or more", lambda change: change >= 0)
    #: Whether to subtract the errors of the factual path, see :mod:`fcfg.sampling.anchor`.
    anchor: bool = False
    #: Steps that align the null condition at each time, see :mod:`fcfg.pipeline.alignment`.
    align: int = option(0, "a whole number from 0 to 1000", lambda count: 0 <= count <= 1000)
    #: Whether noise of that path is drawn, not inferred, see :mod:`fcfg.pipeline.drawn_noise`.
    drawn_noise: bool = False
    #: Noises at each time, over which the anchored steps are averaged.
    noises: int = option(1, "a whole number from 1 to 64", lambda count: 1 <= count <= 64)
    #: Of each drawn noise and the next: -1 for opposite pairs, 0 for none, 1 for one noise.
    correlation: int = option(-1, "-1, 0 or 1", lambda number: number in (-1, 0, 1))
    #: Share of the way at which the anchor ends, and plain prediction goes on.
    release: float = option(1.0, "a share from 0 to 1", lambda share: 0 <= share <= 1)
    #: Weight in the factual branch; None for the same as in the other one.
    source: float | None = None

    def __post_init__(self) -> None:
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
        check_options(self, "guidance option")
        for name, expected in self._conflicts():
            raise InputError(
                f"guidance option {name}",
                expected=expected,
                got=short(getattr(self, name)),
                do="change one of the two options",
            )
        if self.source is not None:
            object.__setattr__(self, "source", self._weight("source", self.source))

    def _conflicts(self) -> Iterator[tuple[str, str]]:
        """Options that may not be combined, with what they would have to be."""
        if self.drawn_noise and not self.anchor:
            why = "since drawn noise does not lead back to the image"
            yield "drawn_noise", f"false without anchor=true, {why}"
        if not self.drawn_noise and self.drawing != Drawing():
            name = "noises" if self.noises > 1 else "correlation"
            yield name, f"{getattr(Drawing(), name)} without drawn_noise=true"
        if self.noises > 1 and self.release == 0:
            yield "noises", "1 with release=0, which averages no step"
        if self.release < 1 and not self.anchor:
            yield "release", "1 without anchor=true"
        if self.source is not None and not self.anchor:
            yield "source", "none without anchor=true, since there is no factual branch"
        if self.source is not None and (self.rule is None or self.rule.reference == "factual"):
            yield "source", f"none with {self.name}, whose factual branch is not guided"
        if self.anchor and self.tolerance:
            yield "tolerance", "0 with anchor=true, since both branches must be guided alike"
        if self.align and (self.anchor or self.tolerance):
            why = "since each corrects guidance its own way"
            yield "align", f"0 with anchor=true or a tolerance, {why}"
        if self.align and (self.factored or type(self.rule) is not CFG):
            yield "align", f"0 with {self.name}, since only cfg can be aligned"
        if not self.start < self.stop:
            yield "start", f"less than stop, {self.stop}"

    @property
    def name(self) -> str:
        """Name of the rule, with an f before it if it is factored; 'none' without a rule."""
        return UNGUIDED if self.rule is None else "f" * self.factored + self.rule.name

    def _weight(self, group: str, weight: Weight, share: float = 0.0) -> float:
        assert self.rule is not None
        number = weight(share) if callable(weight) else weight
        return self.rule.check_weight(f"guidance {self.name}, weight of '{group}'", number)

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
        if (weight is None) == (not weights):
            raise InputError(
                f"guidance {rule.name}",
                expected="one weight, or a weight for every group",
                got=f"both {short(weight)} and {quoted(weights)}" if weights else "none",
                do="write for example Guidance.of(rule, 3.0), or affected=3.0, invariant=1.2",
            )
        stated = weights if weight is None else {_GLOBAL: weight}
        return cls(rule, factored=weight is None, weights=tuple(stated.items()))

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

    def replace(self, **options: Unpack[Options]) -> Guidance:
        """Return a copy with other options.

        Args:
            **options: start, stop, tolerance, anchor, drawn_noise, noises, correlation, release,
                source, align; mask (CFG and contrast); raw (CFG++ and APG); eta, momentum,
                radius (APG); or the fields of your own rule.
        """
        return self._with(options)

    def _with(self, options: Mapping[str, Any]) -> Guidance:
        own = {each.name for each in fields(self.rule)} if self.rule else set[str]()
        common = COMMON_OPTIONS if self.rule else PATH_OPTIONS
        for name in options:
            check_among(f"guidance {self.name}, option", name, [*common, *sorted(own)])
        rule = self.rule and replace(self.rule, **{n: options[n] for n in own & set(options)})
        return replace(self, rule=rule, **{n: options[n] for n in options if n not in own})

    @classmethod
    def parse(cls, text: str) -> Guidance:
        """Read the text form."""
        form = TextForm.read(text, "guidance", _EXAMPLE)
        rules = {f + name: rule for name, rule in RULES.items() for f in ("", "f")}
        factored = form.name in rules and form.name not in RULES
        complete = bool(form.numbers) and ("" in form.numbers) != factored
        if complete != (form.name in rules) or form.name not in (UNGUIDED, *rules):
            raise InputError(
                f"guidance '{text}'",
                expected=f"'{UNGUIDED}' alone, one of {quoted(RULES)} with a number, or with an f "
                "before it and a weight for every group",
                got=repr(form.name),
                do=f"write for example '{_EXAMPLE}'"
                if form.name in rules
                else nearest(form.name.replace("pp", "++"), [_EXAMPLE, *rules]),
            )
        rule = rules[form.name]() if form.name in rules else None
        weights = ((group or _GLOBAL, weight) for group, weight in form.numbers.items())
        return cls(rule, factored, tuple(weights))._with(form.options)

    def __repr__(self) -> str:
        options = {
            each.name: value
            for holder in (self, self.rule)
            for each in (() if holder is None else fields(holder))
            if each.default is not MISSING
            and (value := getattr(holder, each.name)) != each.default
        }
        numbers = {group if self.factored else "": weight for group, weight in self.weights}
        return str(TextForm(self.name, numbers, options))

    @property
    def path(self) -> PathKind:
        """Which states of the factual image a prediction needs, beside the last one."""
        if self.drawn_noise:
            return "drawn"
        return "inferred" if self.anchor or self.align else "none"

    @property
    def drawing(self) -> Drawing:
        """How the noise of a path is drawn."""
        return Drawing(self.noises, self.correlation)

    @property
    def unanchored(self) -> Guidance:
        """The guidance without an anchor, and without what only an anchor has."""
        plain = {name: getattr(Guidance, name) for name in (*PATH_OPTIONS, "source")}
        return replace(self, **plain)

    @property
    def factual(self) -> Guidance:
        """Guidance of the factual branch of an anchored prediction, whose attributes are factual.

        A rule that refers to the factual condition is the plain conditional model there.
        """
        if self.rule is not None and self.rule.reference == "factual":
            return Guidance.none()
        if self.source is None:
            return self
        weights = tuple((group, self.source) for group, _ in self.weights)
        return replace(self, weights=weights, source=None)

    def partition(
        self, graph: CausalGraph, targets: Iterable[str], given: Partition | None = None
    ) -> Partition:
        """Return the groups named by the weights, for an intervention on ``targets``.

        Groups are given if they do not follow from their names.
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
        elif given is None:
            given = Partition.by_attribute(graph)
        given.check_covers(graph.nodes)
        missing = [group for group in given if group not in names]
        unknown = sorted(names - set(given.names))
        if missing or unknown:
            raise InputError(
                f"guidance {self!r}",
                expected=f"a weight for each of the groups {quoted(given)}",
                got=complaint(("none for", missing), ("one for", unknown)),
                do="name every group once, the weight 0 leaves one out; groups of your own "
                "need partition= in Python",
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
        condition: Condition,
        factual: Condition,
        keep: Bool[Tensor, "groups attributes"],
    ) -> AbstractPredictor:
        """Return the predictor of this guidance.

        ``keep`` holds the attributes that each group of the :meth:`table` keeps.
        """
        if self.rule is None:
            return ConditionalPredictor(denoiser, condition)
        reference = factual if self.rule.reference == "factual" else None
        guided = GuidedPredictor(denoiser, condition, keep, self.rule, reference)
        return EarlyStoppingPredictor(guided, self.tolerance) if self.tolerance else guided


GuidanceLike: TypeAlias = Guidance | str  #: or its text form
