"""The guided predictor: one network call evaluates all conditions of a step (Sec. 3.2)."""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from fcfg.diffusion.denoiser import Denoiser
from fcfg.diffusion.networks import repeat_for_conditions
from fcfg.diffusion.prediction import (
    ConditionalPredictor,
    Evaluations,
    Images,
    Prediction,
    State,
    Step,
    Times,
    TwoStagePredictor,
)
from fcfg.guidance.rule import AbstractRule


class GuidedPredictor(TwoStagePredictor):
    """Evaluates the M + 1 conditions of a step in one batch; a rule combines them.

    Outside the start and stop of the guidance, it evaluates one row under the whole condition and
    leaves the state of the rule unchanged. ``reference`` stands in place of the null token.
    """

    def __init__(
        self,
        denoiser: Denoiser,
        condition: Float[Tensor, "batch condition"],
        keep: Bool[Tensor, "groups attributes"],
        rule: AbstractRule,
        reference: Float[Tensor, "batch condition"] | None = None,
    ) -> None:
        self.denoiser = denoiser
        self.rule = rule
        self.groups = len(keep)
        self.kind = (GuidedPredictor, rule, self.groups)
        self.is_whole = [False, *keep.all(dim=1).tolist()]  # rows that are the plain model
        null = denoiser.embedder.null_for(condition) if reference is None else reference
        masked = [denoiser.embedder.masked(condition, row[None], null) for row in keep]
        # The whole condition, and those of a guided step: ((M + 1)·batch, K·d), null first.
        self.conditions = (condition, torch.cat([null, *masked]))

    def init(self, x: Images) -> State:
        """Return the state of the rule."""
        return self.rule.init(x, self.groups)

    @property
    def _plain(self) -> ConditionalPredictor:
        return ConditionalPredictor(self.denoiser, self.conditions[0])

    def rows(self, *, guided: bool, known: bool) -> int:
        """One per condition, without those that are known."""
        if not guided:
            return self._plain.rows(guided=False, known=known)
        return self.groups + 1 - sum(self.is_whole) * known

    def evaluate(
        self, x: Images, t: Times, *, guided: bool, noise: Images | None = None
    ) -> Evaluations:
        """Evaluate all conditions of guided steps, or the whole condition."""
        if not guided:
            return self._plain.evaluate(x, t, guided=False, noise=noise)
        known = [noise is not None and is_whole for is_whole in self.is_whole]
        sets = self.conditions[1].split(len(self.conditions[0]))
        asked = [
            repeat_for_conditions(c, x) for c, skip in zip(sets, known, strict=True) if not skip
        ]
        eps = self.denoiser(x, t, torch.cat(asked)).unflatten(0, (len(asked), len(x)))
        if noise is None:
            return eps
        found = iter(eps)
        return torch.stack([noise if skip else next(found) for skip in known])

    def combine(
        self, x: Images, step: Step, evaluations: Evaluations, state: State
    ) -> tuple[Prediction, State]:
        """Apply the rule."""
        if not step.guided:
            return self._plain.combine(x, step, evaluations, state)
        null, groups = evaluations[0], evaluations[1:]
        prediction, state = self.rule.combine(x, step, null, groups, step.weights, state)
        return replace(prediction, rows=self.groups + 1), state
