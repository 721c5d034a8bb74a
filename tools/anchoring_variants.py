"""Variants of anchored prediction that the package does not have, for tools/anchoring_study.py.

``fade`` and ``gate`` weaken the corrections, against ghosts (remains of the old image). ``fade``
does so linearly in the number of steps, to nothing at the image, where ``do(factual)`` is not the
image any more. ``gate`` does so where the clean images of the two branches differ.

The rule ``given`` conditions on the attributes that should stay, where contrast compares with the
factual condition: ε(x, c̃) + (ω - 1) (ε(x, c̃) - ε(x, c̃ without the affected attributes)). It is
written ``fgiven:affected=2,invariant=1``; the weight of the group invariant means nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.nn import functional

from fcfg.diffusion.prediction import Images, Prediction, State, Step
from fcfg.guidance import Guidance
from fcfg.guidance.cfg import CFG
from fcfg.guidance.guided import GuidedPredictor
from fcfg.guidance.rule import Groups, Weights, register_rule
from fcfg.pipeline import counterfactual, inference

VARIANTS = ("fade", "gate")
_GATE = 0.15  # difference of the clean images at which the correction is e times smaller


@dataclass(frozen=True)
class Given(CFG):
    """The sibling of contrast that conditions on the attributes that should stay."""

    name = "given"

    def combine(
        self, x_t: Images, step: Step, null: Images, groups: Groups, weights: Weights, state: State
    ) -> tuple[Prediction, State]:
        """Apply the weight of the affected group to the whole condition."""
        return super().combine(x_t, step, null, groups, weights[:1], state)


def _predictor(self: Guidance, denoiser: Any, condition: Any, factual: Any, keep: Any) -> Any:
    if not isinstance(self.rule, Given):
        return _OWN_PREDICTOR(self, denoiser, condition, factual, keep)
    given = denoiser.embedder.masked(condition, keep[1][None], torch.zeros_like(condition))
    return GuidedPredictor(denoiser, condition, torch.ones_like(keep[:1]), self.rule, given)


_OWN_PREDICTOR = Guidance.predictor


def add_given() -> None:
    """Add the rule ``given`` to this process."""
    register_rule(Given)
    Guidance.predictor = _predictor  # pyright: ignore[reportAttributeAccessIssue] # a study


@contextmanager
def variant(kind: str) -> Iterator[None]:
    """Weaken the corrections of anchored predictions.

    Args:
        kind: 'fade', 'gate', or '' for the anchor of the package.
    """
    own_images, own_integrate, paths = inference.generate_images, inference.integrate, [None]

    def images(denoiser: Any, abduction: Any, *rest: Any, **options: Any) -> Any:
        paths[0] = abduction.path and abduction.path.states.flip(0)
        return own_images(denoiser, abduction, *rest, **options)

    def integrate(
        predictor: Any, start: Any, plan: Any, solver: Any, report: Any, corrections: Any = None
    ) -> Any:
        if corrections is not None and kind == "fade":
            share = torch.linspace(1, 0, len(corrections), device=corrections.device)
            corrections = corrections * share.view(-1, 1, 1, 1, 1)
        if corrections is not None and kind == "gate":
            corrections = _Gated(corrections, paths[0], plan)
        return own_integrate(predictor, start, plan, solver, report, corrections)

    with (
        patch.object(counterfactual, "generate_images", images),
        patch.object(inference, "integrate", integrate if kind else own_integrate),
    ):
        yield


@dataclass(frozen=True, eq=False)
class _Gated:
    """Corrections that depend on how far the counterfactual has come from the path.

    The loop computes ``x + gated[i]`` from the state x after step i.
    """

    corrections: Tensor
    path: Any  #: descending states of the abduction, of as many images
    plan: Any

    def __getitem__(self, index: int) -> _GatedStep:
        path = self.path[index + 1].to(self.corrections.device)
        return _GatedStep(self.corrections[index], path, self.plan.signal_s[index])


@dataclass(frozen=True, eq=False)
class _GatedStep:
    correction: Tensor
    path: Tensor
    signal: Tensor

    def __radd__(self, x: Tensor) -> Tensor:
        difference = ((x + self.correction - self.path) / self.signal.clamp(min=0.05)).abs()
        smooth = functional.avg_pool2d(difference.mean(1, keepdim=True), 5, 1, 2)
        return x + self.correction * torch.exp(-((smooth / _GATE) ** 2))
