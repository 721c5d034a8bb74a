"""Calibrated weights: the record of a calibration, and the default guidance that follows from it.

:func:`fcfg.calibrate` makes it, and ``calibration.json`` keeps it beside the weights of a model.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import combinations
from statistics import fmean
from typing import Any, ClassVar, Self

from pydantic import Field, field_validator, model_validator

from fcfg.causal.attributes import AttributeSpace
from fcfg.guidance import Guidance
from fcfg.storage import Number, Record, StoredRecord
from fcfg.support.errors import InputError, quoted

FEWEST = 8  #: images of a direction that has a weight and readings of its own


class WeightEstimate(Record):
    """A weight with its 95 % interval over images."""

    weight: Number
    low: Number
    high: Number

    def overlaps(self, other: WeightEstimate) -> bool:
        """Return whether the intervals have a point in common."""
        return self.low <= other.high and other.low <= self.high


class Direction(WeightEstimate):
    """The weight for interventions that set an attribute to one value."""

    images: int  #: number of counterfactuals at each weight
    real: tuple[Number, Number]
    """Mean and standard deviation of what the judge reads on real images that have the value: the
    log-odds of the value or, for a continuous attribute, the value it reads minus the true one."""
    read: tuple[Number, Number]  #: the same on counterfactuals, at the weight of the attribute


class AttributeWeight(WeightEstimate):
    """The weight for interventions on an attribute, over all directions."""

    directions: dict[str, Direction]  #: by the value, such as 'to 1'
    off_target: Number
    """Mean shift of what the judge reads of attributes that should stay, in standard deviations:
    the root mean square over these attributes and their values, at this weight."""
    curve: tuple[tuple[Number, Number, Number], ...]
    """Measured weights, with the criterion and the off-target shift of each."""
    truth: dict[str, Number] = Field(default_factory=dict)
    """In drawn worlds, the weights that the true counterfactuals would choose: 'reading', by the
    same criterion; 'mae', by the error of all pixels; 'change', by that of changed pixels."""
    separation: tuple[Number, Number] | None = None
    """How well the judge tells the values of a binary attribute apart (AUROC): on real images, and
    on counterfactuals at this weight."""
    raised_from: Number | None = None  #: the weight of the criterion, if this one is larger

    @property
    def is_at_end(self) -> bool:
        """Whether it is the smallest or the largest that was measured: others may be better."""
        (first, *_), *_, (last, *_) = self.curve
        return not 1.005 * first < self.weight < 0.995 * last  # it is rounded

    @property
    def directions_differ(self) -> bool:
        """Whether the intervals of two directions have no point in common."""
        pairs = combinations(self.directions.values(), 2)
        return any(not one.overlaps(other) for one, other in pairs)


class Calibration(StoredRecord):
    """Weights of a guidance rule that :func:`fcfg.calibrate` chose for a model.

    It is set as ``pipeline.calibration``, and its guidance is then the default of the pipeline.
    :func:`fcfg.save` and :func:`fcfg.load` keep it with the model.
    """

    file: ClassVar[str] = "calibration.json"
    noun: ClassVar[str] = "calibration"

    rule: str  #: guidance with the searched weight at 1, as text
    sampling: str  #: solver, grid and steps, as text
    images: int  #: number of images with counterfactuals
    references: int  #: number of real images that the judge read
    seed: int
    data: dict[str, Any]  #: description of the images
    at_least_real: bool = False  #: whether weights were raised, see :func:`fcfg.calibrate`
    attributes: dict[str, AttributeWeight] = Field(min_length=1)

    @field_validator("rule")
    @classmethod
    def _check_rule(cls, rule: str) -> str:
        return repr(with_weights(Guidance.parse(rule), {"": 1.0}))

    @model_validator(mode="after")
    def _check_weights(self) -> Self:
        for name in self.attributes:  # refuses weights that the rule does not have
            self.guidance([name])
        return self

    def check(self, space: AttributeSpace, subject: str) -> None:
        """Refuse weights of other attributes."""
        space.check_known(self.attributes, subject)

    @property
    def doubts(self) -> list[str]:
        """Why a model should keep its default instead, if there is a reason."""
        found = [
            f"do({name}): the best weight may lie beyond {own.weight:g}, the last one measured"
            for name, own in self.attributes.items()
            if own.is_at_end
        ]
        few = [f"do({name})" for name, own in self.attributes.items() if not own.directions]
        if few:
            found.append(f"{', '.join(few)}: fewer than {FEWEST} images in each direction")
        return found

    def guidance(self, targets: Collection[str]) -> Guidance:
        """Return the default guidance of an intervention.

        An intervention on several attributes has the mean of their weights. An attribute that
        could not be calibrated has the mean of all weights. A rule with a weight for each
        attribute takes each weight as it is.
        """
        chosen = {name: found.weight for name, found in self.attributes.items()}
        mean = _mean(chosen)
        own = {name: chosen.get(name, mean) for name in targets}
        return with_weights(Guidance.parse(self.rule), own or {"": mean})


def with_weights(guidance: Guidance, weights: Mapping[str, float]) -> Guidance:
    """Return a guidance with another weight of what an intervention changes.

    >>> with_weights(Guidance.parse("contrast:1;anchor=true"), {"smiling": 1.5})
    contrast:1.5;anchor=true
    >>> with_weights(Guidance.fcfg(affected=1, invariant=1.2), {"smiling": 2, "male": 3})
    fcfg:affected=2.5,invariant=1.2

    Args:
        guidance: Rule with one weight, with a weight of the group affected, or with a weight of
            each attribute.
        weights: Weight of each target; the mean of them where all targets share one.
    """
    names = [group for group, _ in guidance.weights]
    if guidance.rule is not None and not guidance.factored:
        new = {names[0]: _mean(weights)}
    elif "affected" in names:
        new = {"affected": _mean(weights)}
    elif names and set(weights) <= {*names, ""}:
        new = {name: weight for name, weight in weights.items() if name}
    else:
        raise InputError(
            f"guidance {guidance}",
            expected="a rule with one weight, with the group affected, or with the attributes",
            got=quoted(names),
            do="write for example contrast:1 or fcfg:affected=1,invariant=1",
        )
    return replace(guidance, weights=tuple((dict(guidance.weights) | new).items()))


def _mean(weights: Mapping[str, float]) -> float:
    return round(fmean(weights.values()), 4)
