"""Reasons not to believe a counterfactual, in words: signals above their limits, missed values.

Each attribute intervened on is read by the judge. A value of a binary attribute is not reached if
its probability is below a half, and a level if another one is likelier. A continuous value is not
reached if the reading is farther from it than from the reading of the picture, and farther than
the judge errs on the picture.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fcfg.causal.attributes import Categorical, Continuous, Table
from fcfg.judge import Reading
from fcfg.metrics import level_scores
from fcfg.model import Action, AnyModel, Plan
from fcfg.model.thresholds import Thresholds

SMALL_ERROR = 0.05  #: mean absolute, in units of [-1, 1]: hardly visible
_NO_YES = ["no", "yes"]
_KINDS = {
    "loss": "off the manifold",
    "change": "more changes than on validation images",
    "residual": "the inversion does not settle",
    "correction": "the prediction errs more than on validation images",
    "composition": "the picture itself is not reproduced",
    "given": "the judge does not read {name}={given} in the picture",
    "asked": "the judge does not read {name}={asked}",
    "moved": "{name} changes as well",
}


def unchecked(thresholds: Thresholds | None, plan: Plan[Any]) -> str | None:
    """Return a sentence about what trust in an answer does not cover; None if all is checked."""
    if plan.sampling is None:
        return None
    if thresholds is None:
        return "Only gross errors are noticed: 'fcfg calibrate' makes thresholds of trust."
    if not thresholds.knows_way_back(plan.setting, plan.sampling):
        return (
            "The errors of the prediction are not checked: their thresholds are of other guidance "
            "or sampling."
        )
    return None


def reasons(
    signals: Mapping[str, float | None],
    limits: Mapping[str, float],
    factual: Mapping[str, object],
    counterfactual: Mapping[str, object],
) -> list[str]:
    """Return why an image should not be believed: each kind of signal above its limit, once.

    A picture that is not reproduced when nothing is asked is doubted without a limit, if the error
    is plain to see and more than half of the change. Signals that are not finite are None.
    """
    plain = max(2 * SMALL_ERROR, (signals.get("change") or 0.0) / 2)
    limits = {**limits, "composition": min(plain, limits.get("composition", plain))}
    found: list[str] = []
    for signal, value in signals.items():
        kind, _, name = signal.partition(" ")
        if signal in limits and (value is None or value > limits[signal]):
            given, asked = factual.get(name), counterfactual.get(name)
            found.append(_KINDS[kind].format(name=name, given=given, asked=asked))
    return list(dict.fromkeys(found))


def not_reached(
    model: AnyModel, factual: Table, action: Action, before: Reading | None, after: Reading | None
) -> list[dict[str, str]]:
    """Return the asked values that a judge does not read: for each image, words by attribute.

    An image has ``{"effusion": "reads 3 %, asked yes"}``, or nothing. Without readings of the
    pictures (``before``) and of the answers (``after``), nothing is claimed.
    """
    found: list[dict[str, str]] = [{} for _ in action.attributes[model.space.names[0]]]
    if before is None or after is None:
        return found
    for name in action.targets:
        asked, read = action.attributes[name], after.scores[name]
        attribute, words = model.space[name], model.words.get(name, _NO_YES)
        if isinstance(attribute, Continuous):
            own, shown = factual[name], before.scores[name]
            bound = np.maximum(np.abs(read - shown), np.abs(shown - own))
            is_missed = (asked != own) & (np.abs(read - asked) > bound)
            told, wanted = ([f"{value:.3g}" for value in values] for values in (read, asked))
        elif isinstance(attribute, Categorical):
            is_missed = level_scores(read, asked) < read.max(axis=1)
            told, wanted = (
                [attribute.value(code) for code in codes] for codes in (read.argmax(axis=1), asked)
            )
        else:
            is_missed = np.where(asked == 1, read, 1 - read) < 0.5
            of = "" if words == _NO_YES else f" {words[1]}"
            told = [f"{100 * share:.0f} %{of}" for share in read]
            wanted = [words[int(value)] for value in asked]
        for row in np.flatnonzero(is_missed).tolist():
            found[row][name] = f"reads {told[row]}, asked {wanted[row]}"
    return found
