"""One step as a CUDA graph: network, rule and update, told to a GPU at once.

A step computes the same way whatever its numbers are, and all of them are tensors: so it is
recorded over copies of what it was given, and replayed over whatever is copied there later.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator, Hashable
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import is_dataclass, replace
from typing import Any, TypeAlias

import torch
from torch import Tensor

from fcfg.diffusion.prediction import AbstractPredictor, State, Step
from fcfg.sampling import AbstractSolver, Trajectory

#: Trajectory, step, conditions of the predictor, its state and that of the solver.
Given: TypeAlias = tuple[Trajectory, Step, State, State, State]
After: TypeAlias = tuple[Trajectory, State, State]

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


class RecordedStep:
    """A step with all that it reads and writes, on the GPU of what it is given.

    Args:
        solver: Whose step.
        predictor: What it asks.
        given: An example; later ones have the same :func:`form`.
        stream: Where it is recorded.
        pool: Memory of what it computes on the way, shared with other recordings; or its own.
    """

    def __init__(
        self,
        solver: AbstractSolver,
        predictor: AbstractPredictor,
        given: Given,
        stream: torch.cuda.Stream,
        pool: Any,
    ) -> None:
        held: Given = _mapped(torch.clone, given)
        trajectory, step, conditions, asked, state = held
        predictor = copy.copy(predictor)
        predictor.conditions = conditions

        def take() -> After:
            return solver.step(predictor, trajectory, step, asked, state)

        self._inputs, self.graph = _tensors(held), torch.cuda.CUDAGraph()
        with as_recording():
            take()  # once as it is: what is compiled or chosen at first comes before the graph
            # Of what goes on meanwhile, only what this thread does is recorded.
            alone = "thread_local"
            with torch.cuda.graph(self.graph, pool, stream, capture_error_mode=alone):
                self._after = take()

    def __call__(self, given: Given) -> After:
        """Copy in, replay, and copy out what the next replay overwrites."""
        for mine, theirs in zip(self._inputs, _tensors(given), strict=True):
            mine.copy_(theirs)
        self.graph.replay()
        return _mapped(torch.clone, self._after)


def form(part: Any) -> Hashable:
    """All of it but the numbers."""
    if isinstance(part, Tensor):
        return part.shape, part.dtype
    if is_dataclass(part):
        return tuple(form(value) for value in vars(part).values())
    return tuple(form(value) for value in part) if isinstance(part, tuple) else part


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
