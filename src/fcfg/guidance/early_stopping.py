"""Guidance that ends, image by image, where it no longer changes anything."""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from fcfg.diffusion.denoiser import Denoiser
from fcfg.diffusion.prediction import Images, Prediction, State, Step
from fcfg.guidance.guided import GuidedPredictor
from fcfg.guidance.rule import AbstractRule


class SettlingPredictor(GuidedPredictor):
    r"""Guides an image until that moves its clean estimate by less than a tolerance.

    What is compared is the root mean square over pixels of

    .. math:: \frac{\sqrt{1 - \alpha_t}}{\sqrt{\alpha_t}}\, (\epsilon - \epsilon_\varnothing),

    the way from the unconditional clean image to the guided one. Once that was above the tolerance
    and has fallen below it, the image has settled: for the rest of the run the model is asked
    under the whole condition, one row instead of M + 1. (Before it was ever above, attributes may
    still be about to show.) Each image is judged alone, whatever else is in the batch.

    Args:
        denoiser: The model.
        condition: (batch, K·d), of the images that will be asked about.
        keep: Which attributes each group keeps.
        rule: How predictions are combined.
        tolerance: In units of a pixel, whose range is [-1, 1].
    """

    def __init__(
        self,
        denoiser: Denoiser,
        condition: Float[Tensor, "batch condition"],
        keep: Bool[Tensor, "groups attributes"],
        rule: AbstractRule,
        tolerance: float,
    ) -> None:
        super().__init__(denoiser, condition, keep, rule)
        self.tolerance = tolerance
        self.kind = None  # how many rows it asks for depends on numbers

    def init(self, x: Images) -> State:
        """Which images were moved, and which have settled; then the state of the rule."""
        no = torch.zeros(len(x), dtype=torch.bool, device=x.device)
        return (no, no, *super().init(x))

    def predict(self, x: Images, step: Step, state: State) -> tuple[Prediction, State]:
        """Evaluate what is needed, combine, and see which images have settled."""
        moved, settled, *held = state
        if not step.guided:
            prediction, after = super().predict(x, step, tuple(held))
            return prediction, (moved, settled, *after)
        eps = self._evaluated(x, step, settled)
        prediction, after = self.rule.combine(x, step, eps[0], eps[1:], step.weights, tuple(held))
        push = (prediction.merged(step) - eps[0]).square().mean(dim=(1, 2, 3)).sqrt()
        above = step.noise_t / step.signal_t * push >= self.tolerance
        plain = settled.view(-1, 1, 1, 1)
        clean = torch.where(plain, eps[0], prediction.clean)
        same = prediction.renoise is prediction.clean
        prediction = replace(
            prediction,
            clean=clean,
            renoise=clean if same else torch.where(plain, eps[0], prediction.renoise),
            rows=torch.where(settled, 1, self.groups + 1),
        )
        return prediction, (moved | above, settled | (moved & ~above), *after)

    def _evaluated(
        self, x: Images, step: Step, settled: Bool[Tensor, "batch"]
    ) -> Float[Tensor, "rows batch channel height width"]:
        """All conditions of the images that are guided; of the others, the whole one in all."""
        guided, plain = (mask.nonzero().flatten() for mask in (~settled, settled))
        count = self.groups + 1
        whole, masked = self.conditions
        conditions = masked.unflatten(0, (count, len(x)))
        rows = torch.cat([x[guided].repeat(count, 1, 1, 1), x[plain]])
        asked = torch.cat([conditions[:, guided].flatten(0, 1), whole[plain]])
        eps = self.denoiser(rows, step.t.expand(len(rows)), asked)
        found = eps.new_empty(count, *x.shape)
        found[:, guided] = eps[: count * len(guided)].unflatten(0, (count, len(guided)))
        found[:, plain] = eps[count * len(guided) :]
        return found
