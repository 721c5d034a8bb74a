"""Whole steps that a GPU takes at one call: network, rule and update, recorded and replayed.

With few images, Python tells a GPU what to do more slowly than the GPU does it. A step computes
the same way whatever its numbers are, and all of them are tensors: so it is recorded once, as a
CUDA graph over copies of what it was given, and replayed over whatever is copied there later.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator, Hashable
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, is_dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from fcfg.denoise import AbstractPredictor, State, Step
from fcfg.execution.weights import WeightWatch
from fcfg.sampling import AbstractSolver, Trajectory

_MOST_ROWS = 128  # of a network call; with more, the GPU is the slower one
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
    """Recorded steps of a network, one for every kind of step and question, and every shape.

    Args:
        network: Its weights are read where they lie; :meth:`begin` sees whether they still do.
    """

    def __init__(self, network: nn.Module) -> None:
        self._weights = WeightWatch(network)
        self._steps: dict[Hashable, _RecordedStep] = {}

    def replaying(self, solver: AbstractSolver) -> AbstractSolver:
        """A solver that takes the same steps, recorded where they can be."""
        return _ReplayingSolver(solver, self)

    def begin(self) -> None:
        """Before every run: forget what was recorded with other weights."""
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
        rows = max((len(condition) for condition in predictor.conditions), default=0)
        if predictor.kind is None or rows > _MOST_ROWS:
            return solver.step(predictor, trajectory, step, asked, state)
        given = (replace(trajectory, evaluations=0), step, predictor.conditions, asked, state)
        key = (solver, predictor.kind, _precision(), _form(given))
        recorded = self._steps.pop(key, None)
        if recorded is None:
            recorded = _RecordedStep(solver, predictor, given)
        self._steps[key] = recorded  # the last one now
        for old in list(self._steps)[:-_KEPT]:
            del self._steps[old]
        after, asked, state = recorded(given)
        spent = trajectory.evaluations + after.evaluations
        return replace(after, evaluations=spent), asked, state


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
    """

    def __init__(
        self, solver: AbstractSolver, predictor: AbstractPredictor, given: _Given
    ) -> None:
        held: _Given = _mapped(torch.clone, given)
        trajectory, step, conditions, asked, state = held
        predictor = copy.copy(predictor)
        predictor.conditions = conditions

        def take() -> tuple[Trajectory, State, State]:
            return solver.step(predictor, trajectory, step, asked, state)

        self._inputs = _tensors(held)
        with as_recording():
            take()  # once as it is: what is compiled or chosen at first comes before the graph
            self._graph = torch.cuda.CUDAGraph()
            # Only what this thread does is recorded; others may go on.
            with torch.cuda.graph(self._graph, capture_error_mode="thread_local"):
                self._after = take()

    def __call__(self, given: _Given) -> tuple[Trajectory, State, State]:
        """Copy in, replay, and copy out what the next replay overwrites."""
        for mine, theirs in zip(self._inputs, _tensors(given), strict=True):
            mine.copy_(theirs)
        self._graph.replay()
        return _mapped(torch.clone, self._after)


def _precision() -> Hashable:
    """What torch computes products in, which others may switch."""
    return torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32


def _form(part: Any) -> Hashable:
    """All of it but the numbers."""
    if isinstance(part, Tensor):
        return part.shape, part.dtype, part.device
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
