"""What a user writes to choose a guidance, in Python or as text.

Text form: ``none | RULE:NUMBER | RULE:group=w[,group=w…][;option=value…]`` with RULE one of
cfg, fcfg, cfg++, fcfg++, apg, fapg. It is what ``repr`` gives and the command line takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, cast

import torch
from jaxtyping import Float
from torch import Tensor

from fcfg.errors import InputError, complaint, nearest, quoted, short
from fcfg.graph import CausalGraph, Partition
from fcfg.guidance.apg import APG
from fcfg.guidance.cfg import CFG
from fcfg.guidance.cfgpp import CFGPlusPlus
from fcfg.guidance.rule import AbstractRule
from fcfg.guidance.text import GLOBAL, is_number, read_text, value_text
from fcfg.names import RESERVED, check_name
from fcfg.schedule import NoiseSchedule

Weight: TypeAlias = float | Callable[[float], float]

# The options each rule takes, all through Guidance.replace.
_OPTIONS = {
    "none": (),
    "cfg": ("start", "stop", "tolerance"),
    "cfg++": ("start", "stop", "tolerance", "raw"),
    "apg": ("start", "stop", "tolerance", "eta", "momentum", "radius", "raw"),
}


# What each option may be, in words and as a test.
_LEGAL: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "start": ("a share from 0 to below 1", lambda x: is_number(x) and 0 <= x < 1),
    "stop": ("a share above 0, up to 1", lambda x: is_number(x) and 0 < x <= 1),
    "tolerance": ("a number, 0 or more", lambda x: is_number(x) and x >= 0),
    "raw": ("true or false", lambda x: isinstance(x, bool)),
    "eta": ("a number from 0 to 1", lambda x: is_number(x) and 0 <= x <= 1),
    "momentum": ("a number between -1 and 1", lambda x: is_number(x) and -1 < x < 1),
    "radius": ("a number above 0 (inf is none)", lambda x: is_number(x) and x > 0),
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
    raw: bool = False
    eta: float = APG.eta
    momentum: float = APG.momentum
    radius: float = APG.radius
    tolerance: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what means nothing, and make numbers floats."""
        if self.rule not in _OPTIONS:
            raise InputError(
                "guidance",
                expected=f"a rule among {quoted(_OPTIONS)}",
                got=repr(self.rule),
                do="use one of the constructors, such as Guidance.fcfg",
            )
        weights = tuple((check_name(group), self._weight(group, w)) for group, w in self.weights)
        object.__setattr__(self, "weights", weights)
        for name, (expected, is_legal) in _LEGAL.items():
            value = getattr(self, name)
            if not is_legal(value):
                raise InputError(
                    f"guidance option {name}", expected=expected, got=repr(value), do="change it"
                )
            object.__setattr__(self, name, value if isinstance(value, bool) else float(value))
        if not self.start < self.stop:
            raise InputError(
                "guidance option start",
                expected=f"less than stop, {self.stop}",
                got=self.start,
                do="widen the interval",
            )

    def _weight(self, group: str, weight: Weight) -> Weight:
        return weight if callable(weight) else self._number(group, weight)

    def _number(self, group: str, weight: object) -> float:
        top = 1.0 if self.rule == "cfg++" else 1e6
        if not (is_number(weight) and 0 <= cast(float, weight) <= top):
            raise InputError(
                f"guidance {self._rule_name}, weight of '{group}'",
                expected="a λ from 0 to 1" if top == 1 else "a number, 0 or more",
                got=short(weight),
                do="0.02 is about as strong as CFG at 3.0"
                if top == 1
                else "1 is the plain conditional model, 3 is strong",
            )
        return float(cast(float, weight))

    @classmethod
    def none(cls) -> Guidance:
        """The plain conditional model, the paper's ω = 1."""
        return cls("none", factored=False, weights=())

    @classmethod
    def cfg(cls, weight: Weight) -> Guidance:
        """Classifier-free guidance: one weight for all attributes."""
        return cls("cfg", factored=False, weights=((GLOBAL, weight),))

    @classmethod
    def cfgpp(cls, weight: Weight) -> Guidance:
        """CFG++: one λ for all attributes, stated for unit steps.

        A longer step is given a larger λ, so that the strength does not depend on the number of
        steps; ``.replace(raw=True)`` takes λ as it is. At 1,000 steps both are the paper's.
        """
        return cls("cfg++", factored=False, weights=((GLOBAL, weight),))

    @classmethod
    def apg(cls, weight: Weight) -> Guidance:
        """Adaptive projected guidance: one weight for all attributes."""
        return cls("apg", factored=False, weights=((GLOBAL, weight),))

    @classmethod
    def fcfg(cls, /, **weights: Weight) -> Guidance:
        """Factored CFG: a weight for each group.

        Groups named affected and invariant follow from the intervention; groups named like all
        the attributes stand for them; any others need a ``partition``.
        """
        return cls._factored("cfg", weights)

    @classmethod
    def fcfgpp(cls, /, **weights: Weight) -> Guidance:
        """Factored CFG++: a λ for each group, stated for unit steps as in :meth:`cfgpp`."""
        return cls._factored("cfg++", weights)

    @classmethod
    def fapg(cls, /, **weights: Weight) -> Guidance:
        """Factored APG: a weight for each group."""
        return cls._factored("apg", weights)

    @classmethod
    def _factored(cls, rule: str, weights: dict[str, Weight]) -> Guidance:
        if not weights:
            raise InputError(
                f"guidance f{rule}",
                expected="a weight for every group",
                got="none",
                do="for example affected=3.0, invariant=1.2",
            )
        return cls(rule, factored=True, weights=tuple(weights.items()))

    def replace(self, **options: Any) -> Guidance:
        """A copy with other options.

        Args:
            **options: start, stop, tolerance; raw (CFG++ and APG); eta, momentum, radius (APG).
        """
        legal = _OPTIONS[self.rule]
        for name in options:
            if name not in legal:
                raise InputError(
                    f"guidance {self._rule_name}",
                    expected=f"options among {quoted(legal)}",
                    got=repr(name),
                    do=nearest(name, legal) if legal else "leave it out",
                )
        return replace(self, **options)

    @classmethod
    def parse(cls, text: str) -> Guidance:
        """Read the text form."""
        if isinstance(text, str) and text.strip() == "none":
            return cls.none()
        names = [f + rule for rule in _OPTIONS if rule != "none" for f in ("", "f")]
        name, weights, options = read_text(text, names)
        rule = name.removeprefix("f")
        made = cls(rule, factored=name != rule, weights=tuple(weights.items()))
        return made.replace(**options)

    def __repr__(self) -> str:
        if self.rule == "none":
            return "none"
        pairs = [f"{group}={value_text(weight)}" for group, weight in self.weights]
        weights = ",".join(pairs) if self.factored else value_text(self.weights[0][1])
        default = type(self)(self.rule, self.factored, self.weights)
        changed = {
            name: getattr(self, name)
            for name in _OPTIONS[self.rule]
            if getattr(self, name) != getattr(default, name)
        }
        options = "".join(f";{name}={value_text(value)}" for name, value in changed.items())
        return f"{self._rule_name}:{weights}{options}"

    @property
    def _rule_name(self) -> str:
        return ("f" if self.factored else "") + self.rule

    def make_rule(self) -> AbstractRule:
        """The formula behind the name; for 'none' any will do, since no step is guided."""
        if self.rule == "cfg++":
            return CFGPlusPlus(raw=self.raw)
        if self.rule == "apg":
            return APG(eta=self.eta, momentum=self.momentum, radius=self.radius, raw=self.raw)
        return CFG()

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
        if self.rule == "none":
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
        if self.rule == "cfg" and len(stated) == 1:  # at weight 1 that is the plain model
            (column,) = stated.values()
            guided = tuple(on and weight != 1 for on, weight in zip(guided, column, strict=True))
        active = tuple(group for group, column in stated.items() if any(column))
        weights = torch.tensor([stated[group] for group in active], dtype=torch.float64)
        t, s = torch.tensor(times[:-1]), torch.tensor(times[1:])
        weights = weights.view(len(active), len(share)).T
        return WeightTable(
            active, self.make_rule().weights_on_grid(weights, t, s, schedule), guided
        )

    def _at(self, group: str, weight: Weight, share: float) -> float:
        return self._number(group, weight(share)) if callable(weight) else weight
