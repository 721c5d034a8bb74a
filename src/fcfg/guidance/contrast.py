"""Contrast: guidance along the difference that the intervention makes, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from fcfg.guidance.cfg import CFG
from fcfg.guidance.rule import register_rule


@register_rule
@dataclass(frozen=True)
class Contrast(CFG):
    r"""Move the prediction from the factual to the counterfactual condition, and beyond.

    .. math:: \epsilon = \epsilon_\theta(x_t, t, c)
        + \omega\, (\epsilon_\theta(x_t, t, \tilde c) - \epsilon_\theta(x_t, t, c))

    This is CFG with the factual condition c in place of the null token. Attributes that the
    intervention leaves alone are equal in c and :math:`\tilde c` and need no weight. Weight 1 is
    the plain conditional model, weight 0 the model under the factual attributes. Over several
    groups, :math:`c^{(m)}` has the counterfactual values of group m and the factual ones of all
    other groups.
    """

    name = "contrast"
    reference = "factual"
    weight_advice = "1 is the plain conditional model, 2 is strong"
