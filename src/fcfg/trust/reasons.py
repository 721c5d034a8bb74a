"""Reasons not to believe a counterfactual, in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fcfg.model import Plan
from fcfg.model.thresholds import Thresholds

SMALL_ERROR = 0.05  #: mean absolute, in units of [-1, 1]: hardly visible
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


def limits_of(
    thresholds: Thresholds | None, targets: Iterable[str], plan: Plan[Any]
) -> dict[str, float]:
    """Return the largest ordinary values of the signals of an answer; empty without thresholds."""
    if thresholds is None or plan.sampling is None:
        return {}
    return thresholds.limits_for(list(targets), plan.setting, plan.sampling)


def reasons(
    signals: Mapping[str, float | None],
    limits: Mapping[str, float],
    factual: Mapping[str, object],
    counterfactual: Mapping[str, object],
) -> list[str]:
    """Return why an image should not be believed: each kind of signal above its limit, once.

    A picture that is not reproduced when nothing is asked is doubted without a limit, if the error
    is plain to see and more than half of the change.

    >>> reasons({"asked smiling": 5.0}, {"asked smiling": 3.0}, {"smiling": 0}, {"smiling": 1})
    ['the judge does not read smiling=1']

    Args:
        signals: Signals of the image, see :mod:`fcfg.trust.signals`; None if not finite.
        limits: The largest ordinary values.
        factual: Factual attributes of the image.
        counterfactual: Its counterfactual attributes.
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
