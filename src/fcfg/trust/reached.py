"""Whether an answer shows what was asked for: each attribute intervened on, as the judge reads it.

A value of a binary attribute is not reached if its probability is below a half, and a level if
another one is likelier. A continuous value is not reached if the reading is farther from it than
from the reading of the picture, and farther than the judge errs on the picture.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fcfg.causal.attributes import (
    AbstractAttribute,
    Categorical,
    Column,
    Continuous,
    Table,
)
from fcfg.judge import Reading
from fcfg.metrics import level_scores
from fcfg.model import Action, AnyModel

_Scores = NDArray[np.float64]
_NO_YES = ["no", "yes"]


def not_reached(
    model: AnyModel,
    factual: Table,
    action: Action,
    before: Reading | None,
    after: Reading | None,
) -> list[dict[str, str]]:
    """Return the asked values that a judge does not read: for each image, words by attribute.

    An image has ``{"effusion": "reads 3 %, asked yes"}``, or nothing.

    Args:
        model: The model.
        factual: Attributes of the pictures.
        action: Attributes of the answers.
        before: Reading of the pictures; nothing is claimed without a judge.
        after: Reading of the answers.
    """
    found: list[dict[str, str]] = [{} for _ in action.attributes[model.space.names[0]]]
    if before is None or after is None:
        return found
    words = model.words
    for name in action.targets:
        attribute, asked, read = model.space[name], action.attributes[name], after.scores[name]
        missed = _is_missed(attribute, factual[name], asked, before.scores[name], read)
        for row in np.flatnonzero(missed):
            own = words.get(name, _NO_YES)
            found[row][name] = _in_words(attribute, asked[row], read[row], own)
    return found


def _is_missed(
    attribute: AbstractAttribute, factual: Column, asked: Column, before: _Scores, read: _Scores
) -> NDArray[np.bool_]:
    if isinstance(attribute, Continuous):
        bound = np.maximum(np.abs(read - before), np.abs(before - factual))
        return (asked != factual) & (np.abs(read - asked) > bound)
    if isinstance(attribute, Categorical):
        return level_scores(read, asked) < read.max(axis=1)
    return np.where(asked == 1, read, 1 - read) < 0.5


def _in_words(
    attribute: AbstractAttribute, asked: float, read: _Scores, words: Sequence[str]
) -> str:
    if isinstance(attribute, Continuous):
        return f"reads {read:.3g}, asked {asked:.3g}"
    if isinstance(attribute, Categorical):
        return (
            f"reads {attribute.levels[int(read.argmax())]}, asked {attribute.levels[int(asked)]}"
        )
    of = "" if words == _NO_YES else f" {words[1]}"
    return f"reads {100 * read:.0f} %{of}, asked {words[int(asked)]}"
