"""Whole steps that a GPU takes at one call: network, rule and update, recorded and replayed.

With few images, Python tells a GPU what to do more slowly than the GPU does it. A step computes
the same way whatever its numbers are, and all of them are tensors: so it is recorded once, as a
CUDA graph over copies of what it was given, and replayed over whatever is copied there later.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Generator, Hashable
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, is_dataclass, replace
from threading import Lock
from typing import Any

import torch
from torch import Tensor

from fcfg.denoise import AbstractPredictor, Denoiser, State, Step
from fcfg.execution.weights import WeightWatch
from fcfg.sampling import AbstractSolver, Trajectory

_MOST_PIXELS = 128 * 64 * 64  # of a network call; with more, the GPU is the slower one
_KEPT = 64  # recordings: a question has six or so, and more for every number of images

_recording: ContextVar[bool] = ContextVar("recording", default=False)


def is_recording() -> bool:
    """Whether what is called now is to be part of a recording, which holds no other."""
    return _recording.get()


@contextmanager
def as_recording() -> Generator[None]:
    """For the time of a recording, and of what comes before it."""
    token = _recording.set(True)
    try:
        yield
    finally:
        _recording.reset(token)


class StepRecorder:
    """Recorded steps of a denoiser, one for every kind of step and question, and every shape.

    Threads take turns, and so do streams: all recordings compute in the same memory.

    Args:
        denoiser: On its GPU, prepared. Weights are read where they lie, which :meth:`begin`
            looks at; while something else is asked than the network that was prepared, steps are
            taken as they are.
    """

    def __init__(self, denoiser: Denoiser) -> None:
        self._denoiser, self._prepared = denoiser, _asked(denoiser)
        self._weights = WeightWatch(denoiser.network)
        self._steps: dict[Hashable, _RecordedStep] = {}
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

    def step(
        self,
        solver: AbstractSolver,
        predictor: AbstractPredictor,
        trajectory: Trajectory,
        step: Step,
        asked: State,
        state: State,
    ) -> tuple[Trajectory, State, State]:
        """Take a step: as it is, or as one that was recorded."""
        if not self._records(predictor, trajectory):
            return solver.step(predictor, trajectory, step, asked, state)
        given = (replace(trajectory, evaluations=0), step, predictor.conditions, asked, state)
        with self._lock, torch.cuda.device(self._device):
            recorded = self._recorded(solver, predictor, given)
            self._finished.wait()
            after, asked, state = recorded(given)
            self._finished.record()
        spent = trajectory.evaluations + after.evaluations
        return replace(after, evaluations=spent), asked, state

    def _records(self, predictor: AbstractPredictor, trajectory: Trajectory) -> bool:
        if predictor.kind is None or trajectory.x.device != self._device:
            return False
        rows = max((len(condition) for condition in predictor.conditions), default=0)
        few = rows * trajectory.x[0, 0].numel() <= _MOST_PIXELS
        return few and _asked(self._denoiser) == self._prepared

    def _recorded(
        self, solver: AbstractSolver, predictor: AbstractPredictor, given: _Given
    ) -> _RecordedStep:
        """The step of this kind, which is the last one to be forgotten now."""
        key = (solver, predictor.kind, _switches(), _form(given))
        recorded = self._steps.pop(key, None)
        if recorded is None:
            # Memory is shared with one that still has it: a pool that all have left is gone.
            other = next(iter(self._steps.values()), None)
            pool = None if other is None else other.graph.pool()
            recorded = _RecordedStep(solver, predictor, given, _stream(self._device), pool)
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
        """The recorder's."""
        return self.recorder.step(self.solver, predictor, trajectory, step, asked, state)


_Given = tuple[Trajectory, Step, State, State, State]


class _RecordedStep:
    """One step as a CUDA graph, with all that it reads and writes.

    Args:
        solver: Whose step.
        predictor: What it asks.
        given: Trajectory, step, conditions of the predictor, and both states.
        stream: Where it is recorded.
        pool: Memory of what it computes on the way, shared with other recordings; or its own.
    """

    def __init__(
        self,
        solver: AbstractSolver,
        predictor: AbstractPredictor,
        given: _Given,
        stream: torch.cuda.Stream,
        pool: Any,
    ) -> None:
        held: _Given = _mapped(torch.clone, given)
        trajectory, step, conditions, asked, state = held
        predictor = copy.copy(predictor)
        predictor.conditions = conditions

        def take() -> tuple[Trajectory, State, State]:
            return solver.step(predictor, trajectory, step, asked, state)

        self._inputs, self.graph = _tensors(held), torch.cuda.CUDAGraph()
        with as_recording():
            take()  # once as it is: what is compiled or chosen at first comes before the graph
            # Of what goes on meanwhile, only what this thread does is recorded.
            alone = "thread_local"
            with torch.cuda.graph(self.graph, pool, stream, capture_error_mode=alone):
                self._after = take()

    def __call__(self, given: _Given) -> tuple[Trajectory, State, State]:
        """Copy in, replay, and copy out what the next replay overwrites."""
        for mine, theirs in zip(self._inputs, _tensors(given), strict=True):
            mine.copy_(theirs)
        self.graph.replay()
        return _mapped(torch.clone, self._after)


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


def _form(part: Any) -> Hashable:
    """All of it but the numbers."""
    if isinstance(part, Tensor):
        return part.shape, part.dtype
    if is_dataclass(part):
        return tuple(_form(value) for value in vars(part).values())
    return tuple(_form(value) for value in part) if isinstance(part, tuple) else part


def _mapped(function: Callable[[Tensor], Tensor], part: Any) -> Any:
    """The same with a function of every tensor."""
    if isinstance(part, Tensor):
        return function(part)
    if is_dataclass(part) and not isinstance(part, type):
        names = vars(part).items()
        return replace(part, **{name: _mapped(function, value) for name, value in names})
    return tuple(_mapped(function, value) for value in part) if isinstance(part, tuple) else part


def _tensors(part: Any) -> list[Tensor]:
    """All of them, in order."""
    if isinstance(part, Tensor):
        return [part]
    parts = vars(part).values() if is_dataclass(part) else part if isinstance(part, tuple) else ()
    return [tensor for value in parts for tensor in _tensors(value)]
