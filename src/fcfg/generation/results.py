"""Results: one entry of ``record.json`` for every picture, and its values as text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float
from torch import Tensor

from fcfg.causal.attributes import AttributeSpace, Table
from fcfg.causal.intervention import Intervention
from fcfg.judge import Reading
from fcfg.model import AnyModel
from fcfg.support.images import image_keys
from fcfg.trust import SMALL_ERROR, Signals, not_reached, reasons

_LOST = "the reversal ends no nearer to the picture than the counterfactual is"

Value: TypeAlias = int | float | str
Score: TypeAlias = float | dict[str, float]
Scores: TypeAlias = dict[str, Score]  # a probability, one for each level, or a value


@dataclass(frozen=True)
class Result:
    """One picture, its counterfactual, and their comparison."""

    file: str
    stored: tuple[int, ...]  #: size in the file: height and width, or that of a volume
    prepared: tuple[str, ...]  #: what was done to make it fit the model
    attributes_from: str  #: 'judge', 'given' or the path of a table
    factual: dict[str, Value]
    counterfactual: dict[str, Value]
    judged: dict[str, Scores] = field(default_factory=dict)
    """Scores of the judge, if there is one, for 'factual', 'counterfactual' and 'reversed': the
    probability of 1 for a binary attribute, of every level for a categorical one, and the value
    of a continuous one."""
    network_rows: dict[str, int] = field(default_factory=dict)  #: number of network evaluations
    reversal_error: float | None = None  #: mean absolute, in units of [-1, 1]
    outputs: dict[str, str] = field(default_factory=dict)  #: file names in the folder
    key: str = ""  #: digest of the pixels that the model was given
    change: float | None = None  #: mean absolute difference of picture and counterfactual
    round_trip: float | None = None  #: what a codec loses of the picture (RMS), if there is one
    signals: dict[str, float | None] = field(default_factory=dict)  #: by name, of trust
    not_reached: dict[str, str] = field(default_factory=dict)
    """Attributes intervened on whose asked value the judge does not read, with what it reads."""
    reasons: tuple[str, ...] = ()  #: not to believe it; empty if nothing speaks against it

    @property
    def changed(self) -> list[str]:
        """Attributes whose counterfactual value differs."""
        return [name for name, value in self.factual.items() if value != self.counterfactual[name]]

    @property
    def is_lost(self) -> bool:
        """Whether the reversal is farther from the picture than the counterfactual is.

        Small errors do not count: where nothing changes, nothing has to be undone.
        """
        if self.reversal_error is None or self.change is None:
            return False
        return self.reversal_error > max(SMALL_ERROR, self.change)

    @property
    def missed(self) -> str:
        """What the judge does not read as asked, in words; empty where nothing is missed."""
        return "; ".join(f"{name} {words}" for name, words in self.not_reached.items())

    def doubted(self, limits: Mapping[str, float]) -> Result:
        """Return the same result with reasons not to believe it, if there are any."""
        found = ["the image is not finite"] if self.change is None else []
        found += [_LOST] if self.is_lost else []
        said = {f"asked {name}" for name in self.not_reached}
        signals = {name: value for name, value in self.signals.items() if name not in said}
        found += reasons(signals, limits, self.factual, self.counterfactual)
        return replace(self, reasons=tuple(found))

    def checked(self, signals: Signals, row: int) -> Result:
        """Return the same result with the signals of an image, and what they cost."""
        found = {name: finite(value) for name, value in signals.of(row).items()}
        return replace(self, signals=found, network_rows=self.network_rows | signals.cost)

    def sure(self, name: str) -> float | None:
        """Return the judge's probability of the factual value of a discrete attribute."""
        return probability_of(self.factual[name], self.judged["factual"][name])

    def judged_as(self, name: str) -> dict[str, float]:
        """Return the judge's score for the counterfactual value of an attribute, for each image.

        For a binary attribute that is the probability of 1, whatever the value; for a continuous
        one it is the value that the judge reads.
        """
        level = str(self.counterfactual[name])
        scores = {image: scores[name] for image, scores in self.judged.items()}
        return {
            k: score[level] if isinstance(score, dict) else score for k, score in scores.items()
        }


def results_of(
    model: AnyModel,
    images: Float[Tensor, "batch channel *size"],
    attributes: Table,
    pair: Any,
    back: Any = None,
    *,
    signals: Signals | None = None,
    about: Sequence[Mapping[str, Any]],
) -> list[Result]:
    """Return the results of pictures from their counterfactuals, and from those of the way back.

    The other fields of each result are those of ``about``.
    """
    signals = Signals({}) if signals is None else signals
    shown = {"factual": images, "counterfactual": pair.images.float()}
    spent = {"counterfactual": pair.spent}
    if back is not None:
        shown["reversed"], spent["reversal"] = back.images.float(), back.spent
    read = {name: model.read(x.nan_to_num()) for name, x in shown.items()}
    missed = not_reached(model, attributes, pair.action, read["factual"], read["counterfactual"])
    keys, space, changes = image_keys(images), model.space, distances(pair.images.float(), images)
    errors = [None] * len(images) if back is None else distances(shown["reversed"], images)
    lost = [None] * len(images) if pair.round_trip is None else pair.round_trip.tolist()
    return [
        Result(
            key=keys[row],
            factual=values_of(space, attributes, row),
            counterfactual=values_of(space, pair.attributes, row),
            judged={
                name: scores_of(space, reading, row)
                for name, reading in read.items()
                if reading is not None
            },
            network_rows={name: rows[row] for name, rows in spent.items()},
            change=changes[row],
            round_trip=lost[row],
            reversal_error=errors[row],
            not_reached=missed[row],
            **own,
        ).checked(signals, row)
        for row, own in enumerate(about)
    ]


def distances(images: Tensor, others: Tensor) -> list[float | None]:
    """Return mean absolute differences of images; None where they are not finite."""
    means = (images - others).abs().flatten(1).mean(dim=1)
    return [finite(mean) for mean in means.tolist()]


def values_of(space: AttributeSpace, table: Table, row: int) -> dict[str, Value]:
    """Return the attributes of one image, levels by their names."""
    return {attribute.name: attribute.value(table[attribute.name][row]) for attribute in space}


def scores_of(space: AttributeSpace, reading: Reading, row: int) -> Scores:
    """Return the scores of one image, those of levels by name."""
    found = {attribute: reading.scores[attribute.name][row].tolist() for attribute in space}
    return {
        own.name: dict(zip(own.choices, score, strict=True)) if isinstance(score, list) else score
        for own, score in found.items()
    }


def probability_of(value: Value, score: Score) -> float | None:
    """Return the judge's probability of a value; None of a continuous attribute."""
    if isinstance(score, dict):
        return score[str(value)]
    return None if isinstance(value, float) else score if value else 1 - score


def intervention_json(value: Intervention) -> Any:
    """Return an intervention as JSON: a value, values, or the name of a function."""
    if callable(value):
        return getattr(value, "__name__", "function")
    return value if isinstance(value, str) else np.asarray(value).tolist()


def intervention_text(value: Intervention) -> str:
    """Format an intervention for a file name.

    >>> [intervention_text(value) for value in (1, 2.5, "+10%", np.array([0, 1]))]
    ['1', '2.5', '+10%', 'column']
    """
    plain = intervention_json(value)
    if isinstance(plain, list):
        return "column"
    return f"{plain:g}" if isinstance(plain, float) else str(plain)


def value_text(value: Value | float) -> str:
    """Format a value.

    >>> [value_text(value) for value in (1, 43.21987, 100.0, "fair")]
    ['1', '43.2', '100', 'fair']
    """
    return f"{round(value, 1):g}" if isinstance(value, float) else str(value)


def attributes_text(values: Mapping[str, Value]) -> str:
    r"""Format the attributes of one image, with hard spaces between names and values.

    >>> attributes_text({"smiling": 1, "age": 43.21987})
    'smiling\xa01, age\xa043.2'
    """
    return ", ".join(f"{name}\xa0{value_text(value)}" for name, value in values.items())


def finite(number: float) -> float | None:
    """Return a number that JSON can hold, or None."""
    return number if math.isfinite(number) else None
