"""Which steps are recorded, and when they are replayed.

With few images, Python tells a GPU what to do more slowly than the GPU does it; then whole steps
are replayed. All else is taken as it is.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable
from dataclasses import dataclass, replace
from threading import Lock

import torch

from fcfg.diffusion.denoiser import Denoiser
from fcfg.diffusion.prediction import AbstractPredictor, State, Step
from fcfg.pipeline.runtime.cuda_graph import After, Given, RecordedStep, form
from fcfg.pipeline.runtime.weights import WeightWatch
from fcfg.sampling import AbstractSolver, Trajectory

_MOST_PIXELS = 128 * 64 * 64  # of a network call; with more, the GPU is the slower one
_KEPT = 64  # recordings: a question has six or so, and more for every number of images


class StepRecorder:
    """Recorded steps of a denoiser, one for every kind of step and question, and every shape.

    Threads take turns, and so do streams: all recordings compute in the same memory.

    Args:
        denoiser: On its GPU, prepared. Weights are read where they lie, which :meth:`begin`
            looks at.
    """

    def __init__(self, denoiser: Denoiser) -> None:
        self._denoiser, self._prepared = denoiser, _asked(denoiser)
        self._weights = WeightWatch(denoiser.network)
        self._steps: dict[Hashable, RecordedStep] = {}
        self._lock, self._device = Lock(), denoiser.device
        self._finished = torch.cuda.Event()

    def __reduce__(self) -> tuple[type[StepRecorder], tuple[Denoiser]]:
        """A copy of a pipeline records for itself."""
        return StepRecorder, (self._denoiser,)

    def replaying(self, solver: AbstractSolver) -> AbstractSolver:
        """A solver that takes the same steps, recorded where they can be."""
        return _ReplayingSolver(solver, self)

    def begin(self) -> None:
        """Before every run: forget what was recorded with other weights."""
        with self._lock:
            if self._weights.changed():
                self._steps.clear()

    def records(self, predictor: AbstractPredictor, trajectory: Trajectory) -> bool:
        """Whether a step is few images' on this GPU, asks what was prepared, and can be replayed.

        Args:
            predictor: What it asks.
            trajectory: Where it begins.
        """
        if predictor.kind is None or trajectory.x.device != self._device:
            return False
        rows = max((len(condition) for condition in predictor.conditions), default=0)
        few = rows * trajectory.x[0, 0].numel() <= _MOST_PIXELS
        return few and _asked(self._denoiser) == self._prepared

    def replay(self, solver: AbstractSolver, predictor: AbstractPredictor, given: Given) -> After:
        """Take a step of which :meth:`records` is true, and record it if it is the first.

        Args:
            solver: Whose step.
            predictor: What it asks.
            given: What it starts from.
        """
        with self._lock, torch.cuda.device(self._device):
            recorded = self._recorded(solver, predictor, given)
            self._finished.wait()
            after = recorded(given)
            self._finished.record()
            return after

    def _recorded(
        self, solver: AbstractSolver, predictor: AbstractPredictor, given: Given
    ) -> RecordedStep:
        """The step of this kind, which is the last one to be forgotten now."""
        key = (solver, predictor.kind, _switches(), form(given))
        recorded = self._steps.pop(key, None)
        if recorded is None:
            # Memory is shared with one that still has it: a pool that all have left is gone.
            other = next(iter(self._steps.values()), None)
            pool = None if other is None else other.graph.pool()
            recorded = RecordedStep(solver, predictor, given, _stream(self._device), pool)
        self._steps[key] = recorded
        for old in list(self._steps)[:-_KEPT]:
            del self._steps[old]
        return recorded


@dataclass(frozen=True)
class _ReplayingSolver(AbstractSolver):
    """Another solver's steps, through a recorder."""

    solver: AbstractSolver
    recorder: StepRecorder

    def __str__(self) -> str:
        return str(self.solver)

    def init(self, trajectory: Trajectory) -> State:
        """State of the solver."""
        self.recorder.begin()
        return self.solver.init(trajectory)

    def step(
        self,
        predictor: AbstractPredictor,
        trajectory: Trajectory,
        step: Step,
        asked: State,
        state: State,
    ) -> tuple[Trajectory, State, State]:
        """The solver's, as it is or recorded, where rows are counted from nothing."""
        if not self.recorder.records(predictor, trajectory):
            return self.solver.step(predictor, trajectory, step, asked, state)
        given = (replace(trajectory, evaluations=0), step, predictor.conditions, asked, state)
        after, asked, state = self.recorder.replay(self.solver, predictor, given)
        spent = trajectory.evaluations + after.evaluations
        return replace(after, evaluations=spent), asked, state


@functools.cache
def _stream(device: torch.device) -> torch.cuda.Stream:
    """Where all recordings of a GPU are made: torch keeps memory for each stream, for good."""
    return torch.cuda.Stream(device)


def _asked(denoiser: Denoiser) -> tuple[object, ...]:
    """What a denoiser computes with, but the weights."""
    return denoiser.evaluate, denoiser.network, denoiser.schedule, denoiser.parameterisation


def _switches() -> Hashable:
    """What else decides how torch computes, and may be switched at any time."""
    return (
        torch.backends.cuda.matmul.allow_tf32,
        torch.backends.cudnn.allow_tf32,
        torch.is_autocast_enabled("cuda") and torch.get_autocast_dtype("cuda"),
        torch.is_inference_mode_enabled(),  # whose tensors cannot be written to without it
    )
