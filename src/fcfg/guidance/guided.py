"""The guided predictor: one network call evaluates all conditions of a step (Sec. 3.2)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor

from fcfg.diffusion.denoiser import Denoiser
from fcfg.diffusion.prediction import (
    Condition,
    ConditionalPredictor,
    Evaluations,
    Images,
    Predicted,
    Prediction,
    State,
    Step,
    TwoStagePredictor,
)
from fcfg.guidance.rule import AbstractRule
from fcfg.support.errors import InputError


class GuidedPredictor(TwoStagePredictor):
    """Evaluates the M + 1 conditions of a step in one batch; a rule combines them.

    Outside the start and stop of the guidance, it evaluates one row under the whole condition and
    leaves the state of the rule unchanged. ``reference`` stands in place of the null token.
    """

    def __init__(
        self,
        denoiser: Denoiser,
        condition: Condition,
        keep: Bool[Tensor, "groups attributes"],
        rule: AbstractRule,
        reference: Condition | None = None,
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
        return self.rule.init(x, self.groups)

    @property
    def _plain(self) -> ConditionalPredictor:
        return ConditionalPredictor(self.denoiser, self.conditions[0])

    def asked(self, *, guided: bool) -> list[tuple[Condition, bool]]:
        if not guided:
            return self._plain.asked(guided=False)
        sets = self.conditions[1].split(len(self.conditions[0]))
        return list(zip(sets, self.is_whole, strict=True))

    def combine(self, x: Images, step: Step, evaluations: Evaluations, state: State) -> Predicted:
        if not step.guided:
            return self._plain.combine(x, step, evaluations, state)
        prediction, state = self.guide(x, step, evaluations, state)
        return replace(prediction, rows=self.groups + 1), state

    def guide(self, x: Images, step: Step, eps: Evaluations, state: State) -> Predicted:
        """Ask the rule, which may be a user's own; refuse what is no prediction with a state."""
        made: Any = self.rule.combine(x, step, eps[0], eps[1:], step.weights, state)
        parts = made if isinstance(made, tuple) else (made,)
        if len(parts) != 2 or not all(map(isinstance, parts, (Prediction, tuple))):
            raise InputError(
                f"guidance rule {type(self.rule).__name__}, combine",
                expected="a Prediction and the new state, a tuple of tensors",
                got=" and ".join(type(each).__name__ for each in parts) or "an empty tuple",
                do="return Prediction(clean=eps, renoise=eps), state",
            )
        return made
