r"""The contract between guidance and sampling: what is predicted at one step (Sec. 2.1).

Guidance and sampling never meet. A predictor turns evaluations of the network into a
:class:`Prediction` at a :class:`Step`; a solver turns predictions into images.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor

from fcfg.diffusion.networks import repeat_for_conditions

Images: TypeAlias = Float[Tensor, "batch channel *size"]
Condition: TypeAlias = Float[Tensor, "batch condition"]
State: TypeAlias = tuple[Tensor, ...]
Times: TypeAlias = Int[Tensor, "batch"]
Evaluations: TypeAlias = Float[Tensor, "rows batch channel *size"]
Rows: TypeAlias = int | Int[Tensor, "batch"]  # one number per image where they differ
Evaluate: TypeAlias = Callable[[Tensor, Tensor, Tensor], Tensor]  # images, times, conditions


@dataclass(frozen=True, eq=False)
class Step:
    """One step from time t to time s. All numbers are tensors on the device of the images."""

    t: Int[Tensor, ""]
    s: Int[Tensor, ""]
    signal_t: Float[Tensor, ""]
    noise_t: Float[Tensor, ""]
    signal_s: Float[Tensor, ""]
    noise_s: Float[Tensor, ""]
    weights: Float[Tensor, "groups"]  #: guidance weights; empty without guidance
    guided: bool  #: false outside the start and stop of the guidance
    ascending: bool  #: from image to noise, as in abduction
    first: bool = False  #: the first step of its run
    last: bool = False  #: the last step of its run
    at_image: bool = False  #: begins or ends at t = 0, where there is no noise
    at_noise: bool = False  #: begins or ends where there is no signal
    flow: bool = False  #: signal and noise add up to 1, and predictions are flows, not noises

    def image(self, x_t: Tensor, prediction: Tensor) -> Tensor:
        r"""Return the clean image of a prediction at (x_t, t).

        .. math:: \hat x_0 = (x_t - \sqrt{1 - \alpha_t}\, \epsilon) / \sqrt{\alpha_t}
            \quad \text{or} \quad x_t - \sigma_t u
        """
        if self.flow:
            return x_t - self.noise_t * prediction
        return (x_t - self.noise_t * prediction) / self.signal_t

    def noise(self, x_t: Tensor, prediction: Tensor) -> Tensor:
        r"""Return the noise of a prediction, :math:`x_t + (1 - \sigma_t) u` of a flow."""
        return x_t + self.signal_t * prediction if self.flow else prediction

    @property
    def reach(self) -> Float[Tensor, ""]:
        """How far the clean image moves, backwards, for a unit of the prediction."""
        return self.noise_t if self.flow else self.noise_t / self.signal_t

    def reversed(self) -> Step:
        """Return the step from s to t."""
        return replace(
            self,
            t=self.s,
            s=self.t,
            signal_t=self.signal_s,
            noise_t=self.noise_s,
            signal_s=self.signal_t,
            noise_s=self.noise_t,
            ascending=not self.ascending,
        )


@dataclass(frozen=True, eq=False)
class Prediction:
    r"""The two noises of a step: one for the clean estimate, one for adding noise again.

    They are the same tensor except in CFG++, which adds the unconditional noise. Of a flow, they
    are predictions of :math:`u = \epsilon - x_0`.
    """

    clean: Images
    renoise: Images
    rows: Rows = 1  #: network rows used per image

    def merged(self, step: Step) -> Images:
        r"""Return the single noise that gives the same DDIM step.

        .. math::
            \frac{\sqrt{1 - \alpha_s}\, \epsilon_\text{renoise} - k\, \epsilon_\text{clean}}
            {\sqrt{1 - \alpha_s} - k},
            \qquad k = \sqrt{\alpha_s}\, \sqrt{1 - \alpha_t} / \sqrt{\alpha_t}

        Of a flow, both weights are multiplied by :math:`1 - \sigma_t`, which may vanish. For CFG++
        this is exactly CFG with a weight that depends on the time.
        """
        if self.renoise is self.clean:
            return self.clean
        if step.flow:
            again, k = step.noise_s * step.signal_t, step.signal_s * step.noise_t
        else:
            again, k = step.noise_s, step.signal_s * step.noise_t / step.signal_t
        return (again * self.renoise - k * self.clean) / (again - k)


Predicted: TypeAlias = tuple[Prediction, State]  # and the new state


class AbstractPredictor(ABC):
    """Predicts noise for a solver. It holds nothing that changes: that is in its state."""

    #: All tensors it holds besides the denoiser's, one row per network row.
    conditions: State = ()
    #: Equal for two predictors whose steps differ only in their tensors, so that a recorded step
    #: of one can be replayed for the other. None if its steps cannot be recorded.
    kind: Hashable = None

    @abstractmethod
    def init(self, x: Images) -> State:
        """Return the state before the first step; the shapes of its tensors never change."""

    @abstractmethod
    def predict(self, x: Images, step: Step, state: State) -> Predicted:
        """Predict at (x, step.t) and return the new state."""


class TwoStagePredictor(AbstractPredictor):
    """A predictor in two stages: evaluations of the network, and a formula over them.

    The first stage can serve several steps at once, where the images at their times are known.
    """

    denoiser: Evaluate

    @abstractmethod
    def asked(self, *, guided: bool) -> list[tuple[Condition, bool]]:
        """Return the conditions of a step, and of each whether it is the whole condition."""

    def rows(self, *, guided: bool, known: bool) -> int:
        """Return the network rows of a step per image; fewer if that of the condition is known."""
        return sum(not (whole and known) for _, whole in self.asked(guided=guided))

    def evaluate(
        self, x: Images, t: Times, *, guided: bool, noise: Images | None = None
    ) -> Evaluations:
        """Evaluate all conditions at one time; or at several, with the images one after the other.

        ``noise`` is the prediction under the whole condition, if it is known.
        """
        asked = self.asked(guided=guided)
        new = [repeat_for_conditions(c, x) for c, whole in asked if noise is None or not whole]
        found = iter(self.denoiser(x, t, torch.cat(new)).split(len(x)) if new else ())
        return torch.stack(
            [noise if noise is not None and whole else next(found) for _, whole in asked]
        )

    @abstractmethod
    def combine(self, x: Images, step: Step, evaluations: Evaluations, state: State) -> Predicted:
        """Turn the evaluations of one step into its prediction."""

    def predict(self, x: Images, step: Step, state: State) -> Predicted:
        evaluations = self.evaluate(x, step.t.expand(len(x)), guided=step.guided)
        return self.combine(x, step, evaluations, state)


class ConditionalPredictor(TwoStagePredictor):
    """The plain conditional model: abduction (Algorithm 1), or guidance with ω = 1."""

    def __init__(self, denoiser: Evaluate, condition: Condition) -> None:
        self.denoiser = denoiser
        self.conditions = (condition,)
        self.kind = ConditionalPredictor

    def init(self, x: Images) -> State:
        return ()

    def asked(self, *, guided: bool) -> list[tuple[Condition, bool]]:
        return [(self.conditions[0], True)]

    def combine(self, x: Images, step: Step, evaluations: Evaluations, state: State) -> Predicted:
        return Prediction(clean=(eps := evaluations[0]), renoise=eps), state
