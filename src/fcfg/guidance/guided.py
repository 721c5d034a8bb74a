"""The guided predictor: one network call evaluates all conditions of a step (Sec. 3.2)."""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from fcfg.diffusion.denoiser import Denoiser
from fcfg.diffusion.prediction import AbstractPredictor, Images, Prediction, State, Step
from fcfg.guidance.rule import AbstractRule


class GuidedPredictor(AbstractPredictor):
    """Evaluates the M + 1 conditions of a step in one batch; a rule combines them.

    Outside the start and stop of the guidance, it evaluates one row under the whole condition and
    leaves the state of the rule unchanged.

    Args:
        denoiser: The denoiser.
        condition: Conditions of the images, (batch, K·d).
        keep: Attributes that each group keeps.
        rule: Rule that combines the predictions.
    """

    def __init__(
        self,
        denoiser: Denoiser,
        condition: Float[Tensor, "batch condition"],
        keep: Bool[Tensor, "groups attributes"],
        rule: AbstractRule,
    ) -> None:
        self.denoiser = denoiser
        self.rule = rule
        self.groups = len(keep)
        self.kind = (GuidedPredictor, rule, self.groups)
        masked = [denoiser.embedder.masked(condition, row[None]) for row in keep]
        null = torch.zeros_like(condition)
        # The whole condition, and those of a guided step: ((M + 1)·batch, K·d), null first.
        self.conditions = (condition, torch.cat([null, *masked]))

    def init(self, x: Images) -> State:
        """Return the state of the rule."""
        return self.rule.init(x, self.groups)

    def predict(self, x: Images, step: Step, state: State) -> tuple[Prediction, State]:
        """Evaluate all conditions and combine them."""
        whole, masked = self.conditions
        if not step.guided:
            eps = self.denoiser(x, step.t.expand(len(x)), whole)
            return Prediction(clean=eps, renoise=eps), state
        eps = self.denoiser(x, step.t.expand(len(x)), masked)
        eps = eps.unflatten(0, (self.groups + 1, len(x)))
        prediction, state = self.rule.combine(x, step, eps[0], eps[1:], step.weights, state)
        return replace(prediction, rows=self.groups + 1), state
