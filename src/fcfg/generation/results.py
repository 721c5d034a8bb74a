"""What is known of every counterfactual that was made, as it stands in ``record.json``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from fcfg.causal.attributes import AttributeSpace, Categorical, Column, Continuous, Table
from fcfg.causal.intervention import Intervention
from fcfg.judge import Reading

_SMALL_ERROR = 0.05  # mean absolute, in units of [-1, 1]: seen only where pictures are compared

Value: TypeAlias = int | float | str
Score: TypeAlias = float | dict[str, float]
Scores: TypeAlias = dict[str, Score]  # a probability, one for each level, or a value


@dataclass(frozen=True)
class Result:
    """One picture, its counterfactual, and how both compare."""

    file: str
    stored: tuple[int, int]  #: height and width in the file
    prepared: tuple[str, ...]  #: what was done to make it fit the model
    attributes_from: str  #: 'judge', 'given' or the path of a table
    factual: dict[str, Value]
    counterfactual: dict[str, Value]
    judged: dict[str, Scores] = field(default_factory=dict)
    """What the judge sees in 'factual', 'counterfactual' and 'reversed', where there is one: for
    a binary attribute the probability of 1, for a categorical one that of every level, for a
    continuous one its value."""
    network_rows: dict[str, int] = field(default_factory=dict)  #: spent on it
    reversal_error: float | None = None  #: mean absolute, in units of [-1, 1]
    outputs: dict[str, str] = field(default_factory=dict)  #: names of files in the folder
    key: str = ""  #: a digest of its pixels, as the model sees them
    change: float | None = None  #: from the picture to its counterfactual, like the reversal error

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> Result:
        """A result as it stands in a record."""
        values: dict[str, Any] = dict(entry)
        values |= {name: tuple(entry[name]) for name in ("stored", "prepared")}
        return cls(**values)

    @property
    def changed(self) -> list[str]:
        """Attributes whose counterfactual value is another one."""
        return [name for name, value in self.factual.items() if value != self.counterfactual[name]]

    @property
    def is_lost(self) -> bool:
        """Whether the way back ends no nearer to the picture than the counterfactual is.

        Small errors do not count: with nothing to change, there is nothing to come back from.
        """
        if self.reversal_error is None or self.change is None:
            return False
        return self.reversal_error > max(_SMALL_ERROR, self.change)

    def sure(self, name: str) -> float | None:
        """How probable the judge finds the factual value of an attribute, where it has classes."""
        value, score = self.factual[name], self.judged["factual"][name]
        if isinstance(score, dict):
            return score[str(value)]
        return None if isinstance(value, float) else score if value else 1 - score

    def judged_as(self, name: str) -> dict[str, float]:
        """For each image, how sure the judge is of the counterfactual value of an attribute.

        For a binary attribute that is the probability of 1, whichever is asked for; for a
        continuous one it is the value that the judge reads.
        """
        sure: dict[str, float] = {}
        for image, scores in self.judged.items():
            score = scores[name]
            sure[image] = (
                score[str(self.counterfactual[name])] if isinstance(score, dict) else score
            )
        return sure


def values_of(space: AttributeSpace, table: Table, row: int) -> dict[str, Value]:
    """Attributes of one image, levels by their names."""
    return {attribute.name: _value(space, table, attribute.name, row) for attribute in space}


def _value(space: AttributeSpace, table: Table, name: str, row: int) -> Value:
    attribute, value = space[name], table[name][row]
    if isinstance(attribute, Categorical):
        return attribute.levels[int(value)]
    return float(value) if isinstance(attribute, Continuous) else int(value)


def scores_of(space: AttributeSpace, reading: Reading, row: int) -> Scores:
    """What a judge sees in one image."""
    scores: Scores = {}
    for attribute in space:
        found = reading.scores[attribute.name][row]
        if isinstance(attribute, Categorical):
            scores[attribute.name] = dict(
                zip(attribute.levels, (float(p) for p in found), strict=True)
            )
        else:
            scores[attribute.name] = float(found)
    return scores


def intervention_text(value: Intervention) -> Any:
    """An intervention as JSON: a value, values, or the name of a function."""
    return getattr(value, "__name__", "function") if callable(value) else _plain(value)


def _plain(value: object) -> Any:
    return value if isinstance(value, str) else np.asarray(value).tolist()


def value_text(value: Value | float) -> str:
    """A value for eyes.

    >>> [value_text(value) for value in (1, 43.21987, 100.0, "fair")]
    ['1', '43.2', '100', 'fair']
    """
    return f"{round(value, 1):g}" if isinstance(value, float) else str(value)


def attributes_text(values: Mapping[str, Value]) -> str:
    r"""Attributes of one image for eyes, with hard spaces between names and values.

    >>> attributes_text({"smiling": 1, "age": 43.21987})
    'smiling\xa01, age\xa043.2'
    """
    return ", ".join(f"{name}\xa0{value_text(value)}" for name, value in values.items())


def finite(number: float) -> float | None:
    """A number that JSON can hold, or nothing."""
    return number if math.isfinite(number) else None


def rows_of(table: Mapping[str, Column], rows: slice) -> Table:
    """Some rows of a table."""
    return {name: column[rows] for name, column in table.items()}
