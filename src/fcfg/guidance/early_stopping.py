"""Early stopping: guidance ends for each image once it no longer changes the image."""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from fcfg.diffusion.prediction import AbstractPredictor, Images, Prediction, State, Step
from fcfg.guidance.guided import GuidedPredictor
from fcfg.support.images import per_image, pixel_axes


class EarlyStoppingPredictor(AbstractPredictor):
    r"""Guides each image until guidance changes its clean estimate by less than a tolerance.

    The change is the root mean square over pixels of

    .. math:: \frac{\sqrt{1 - \alpha_t}}{\sqrt{\alpha_t}}\, (\epsilon - \epsilon_\varnothing),

    the difference between the guided and the unconditional clean image. Guidance of an image
    stops when the change falls below the tolerance after having exceeded it. (Before that,
    attributes may not be visible yet.) From then on, the network evaluates one row under the
    whole condition instead of M + 1. No image depends on the others in the batch. The tolerance
    is in units of a pixel with range [-1, 1].
    """

    def __init__(self, guided: GuidedPredictor, tolerance: float) -> None:
        self.guided = guided
        self.tolerance = tolerance
        self.conditions = guided.conditions  # and no kind: the number of rows depends on values

    def init(self, x: Images) -> State:
        """Return which images have changed, which have stopped, and the state of the rule."""
        no = torch.zeros(len(x), dtype=torch.bool, device=x.device)
        return (no, no, *self.guided.init(x))

    def predict(self, x: Images, step: Step, state: State) -> tuple[Prediction, State]:
        changed, stopped, *rule_state = state
        if not step.guided:
            prediction, new_state = self.guided.predict(x, step, tuple(rule_state))
            return prediction, (changed, stopped, *new_state)
        eps = self._evaluate(x, step, stopped)
        prediction, new_state = self.guided.guide(x, step, eps, tuple(rule_state))
        missed = prediction.merged(step) - eps[0]
        change = missed.square().mean(dim=pixel_axes(x)).sqrt()
        above = step.reach * change >= self.tolerance
        plain = per_image(stopped, x)
        clean = torch.where(plain, eps[0], prediction.clean)
        same = prediction.renoise is prediction.clean
        prediction = replace(
            prediction,
            clean=clean,
            renoise=clean if same else torch.where(plain, eps[0], prediction.renoise),
            rows=torch.where(stopped, 1, self.guided.groups + 1),
        )
        return prediction, (changed | above, stopped | (changed & ~above), *new_state)

    def _evaluate(
        self, x: Images, step: Step, stopped: Bool[Tensor, "batch"]
    ) -> Float[Tensor, "rows batch channel *size"]:
        """Evaluate all conditions of guided images; repeat the whole one's of stopped images."""
        guided, plain = (mask.nonzero().flatten() for mask in (~stopped, stopped))
        count = self.guided.groups + 1
        whole, masked = self.guided.conditions
        masked = masked.unflatten(0, (count, len(x)))
        rows = torch.cat([x[guided]] * count + [x[plain]])
        conditions = torch.cat([masked[:, guided].flatten(0, 1), whole[plain]])
        output = self.guided.denoiser(rows, step.t.expand(len(rows)), conditions)
        eps = output.new_empty(count, *x.shape)
        eps[:, guided] = output[: count * len(guided)].unflatten(0, (count, len(guided)))
        eps[:, plain] = output[count * len(guided) :]
        return eps
