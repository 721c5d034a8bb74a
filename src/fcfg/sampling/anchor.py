r"""Anchored prediction: the errors of the way back, measured on the factual image and subtracted.

Abduction leaves a path :math:`x_0, \dots, x_T`. Going back along it under the factual condition c
and the same guidance should give the path again. What it gives instead is off by discretisation
and by what guidance does to everything the image already was. Both errors are known at every step,
and the counterfactual makes the same ones:

.. math:: \tilde x_s = \Phi_{t \to s}(\tilde x_t; \tilde c)
    + \bigl[ x_s - \Phi_{t \to s}(x_t; c) \bigr]

with :math:`\Phi` the step of any solver under any guidance. Under the factual condition the result
is the image itself, for any number of steps. Unguided, the bracket vanishes as the steps grow.

The bracket depends on the path and the guidance, not on the counterfactual condition. It is
computed once and serves every question about the image.

A path of drawn noise can have several states at each time. Each has a bracket of its own, and all
of them go on with the mean of what was changed so far. From the step on at which an anchor is
released, nothing is subtracted: the prediction goes on as a plain one.

References:
    PnP inversion: boosting diffusion-based editing with 3 lines of code (Ju et al., 2024), which
    adds the error of the factual branch back in image editing.
    FlowEdit: inversion-free text-based editing using pre-trained flow models (Kulikov et al.,
    2025), which averages over noises and ends with plain steps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from fcfg.diffusion.prediction import (
    AbstractPredictor,
    Evaluations,
    Images,
    Prediction,
    Rows,
    State,
    Step,
    TwoStagePredictor,
)
from fcfg.sampling.loop import OnStep, StepRecord, Steps
from fcfg.sampling.solver import AbstractSolver, Trajectory
from fcfg.support.images import pixel_axes


@dataclass(frozen=True, eq=False)
class Path:
    """The states of an abduction, and the noises that the network predicted there."""

    states: Float[Tensor, "times batch channel *size"]  #: at the ascending times 0..T
    #: At the times between 0 and T; None if the solver does not evaluate at these states.
    noises: Float[Tensor, "between batch channel *size"] | None = None
    #: States with further drawn noise.
    further: Float[Tensor, "times batch more channel *size"] | None = None

    def flat(self, rows: slice) -> Path:
        """Return the path of some images; the states of one image follow each other."""
        states = self.states[:, rows]
        if self.further is not None:
            states = torch.cat([states[:, :, None], self.further[:, rows]], dim=2).flatten(1, 2)
        return Path(states, None if self.noises is None else self.noises[:, rows])


class PathRecorder:
    """Callback for the steps of an abduction that records the path."""

    def __init__(self, x: Images, on_step: OnStep) -> None:
        self._states, self._noises, self._on_step = [x], list[Images | None](), on_step

    def __call__(self, record: StepRecord) -> None:
        """Record the state after a step, and the noise before it."""
        self._states.append(record.trajectory.x)
        self._noises.append(record.trajectory.noise)
        self._on_step(record)

    @property
    def path(self) -> Path:
        """The path; a step that begins at an image has no noise of use."""
        noises = [noise for noise in self._noises[1:] if noise is not None]
        whole = 0 < len(noises) == len(self._noises) - 1
        return Path(torch.stack(self._states), torch.stack(noises) if whole else None)


@dataclass(frozen=True, eq=False)
class Anchor:
    """The errors of the factual branch, with which predictions are corrected."""

    corrections: Float[Tensor, "steps batch channel *size"]  #: by descending time
    evaluations: int  #: network rows per image, besides those of the abduction

    @property
    def size(self) -> Float[Tensor, "batch"]:
        """Root mean square over the pixels of the corrections of all steps together."""
        squares = self.corrections.square().sum(dim=0)
        return squares.mean(dim=pixel_axes(squares)).sqrt()


def anchor_path(
    predictor: TwoStagePredictor,
    path: Path,
    start: Trajectory,
    steps: Steps,
    solver: AbstractSolver,
    batch_size: int,
    anchored: int,
) -> Anchor:
    """Measure the error of every step back along a path, up to the number of anchored ones.

    The states are known, so that one network call evaluates as many steps as fit. The predictor
    is that of the factual condition; the steps descend from the end of the abduction. After the
    anchored steps, a solver that draws noise has that of the path.
    """
    states = path.states.flip(0)
    noises: list[Images | None] = [None] * len(steps)
    if path.noises is not None:
        noises[1:] = path.noises.flip(0)
    trajectory = solver.begin(predictor, start)
    errors: list[Images] = []
    spent: Rows = 0
    while len(errors) < anchored:
        first = len(errors)
        guided, noise = steps[first].guided, noises[first]
        rows = predictor.rows(guided=guided, known=noise is not None)
        most = max(1, batch_size // max(1, rows * len(states[0])))
        last = first + 1
        while last < min(first + most, anchored) and (
            steps[last].guided == guided and (noises[last] is None) == (noise is None)
        ):
            last += 1
        here = slice(first, last)
        evaluations = predictor.evaluate(
            states[here].flatten(0, 1),
            torch.stack([step.t for step in steps[here]]).repeat_interleave(len(states[0])),
            guided=guided,
            noise=None if noise is None else torch.cat([n for n in noises[here] if n is not None]),
        ).unflatten(1, (last - first, len(states[0])))
        for i, step in enumerate(steps[here]):
            x_t, x_s = states[first + i], states[first + i + 1]
            known = _KnownPredictor(predictor, x_t, evaluations[:, i], rows)
            trajectory = solver.step(known, replace(trajectory, x=x_t, evaluations=0), step)
            errors.append(x_s - trajectory.x)
            spent = spent + trajectory.evaluations
    for step, x_s in zip(steps[anchored:], states[anchored + 1 :], strict=True):
        errors.append(solver.fresh(step) * (x_s - step.signal_s * states[-1]))
    return Anchor(torch.stack(errors), int(spent))


@dataclass(frozen=True, eq=False)
class Correction:
    """What an anchored prediction does after each step."""

    errors: Float[Tensor, "steps rows channel *size"]
    states: Float[Tensor, "times rows channel *size"] | None  #: of the path, if they are averaged
    noises: int  #: states of each image
    anchored: int  #: number of steps after which what was changed is averaged

    def __call__(self, index: int, x: Images) -> Images:
        """Add the error of the factual branch; average over the noises of each image."""
        x = x + self.errors[index]
        if self.states is None or index >= self.anchored:
            return x
        own = self.states[-2 - index]
        change = (x - own).unflatten(0, (-1, self.noises)).mean(dim=1)
        return own + change.repeat_interleave(self.noises, dim=0)


class _KnownPredictor(AbstractPredictor):
    """A predictor whose evaluations of one batch of images are known."""

    def __init__(
        self, predictor: TwoStagePredictor, x: Images, evaluations: Evaluations, rows: int
    ) -> None:
        self._predictor, self._x, self._evaluations = predictor, x, evaluations
        self._rows = rows

    def init(self, x: Images) -> State:
        return self._predictor.init(x)

    def predict(self, x: Images, step: Step, state: State) -> tuple[Prediction, State]:
        if x is not self._x:
            return self._predictor.predict(x, step, state)
        prediction, state = self._predictor.combine(x, step, self._evaluations, state)
        return replace(prediction, rows=self._rows), state
