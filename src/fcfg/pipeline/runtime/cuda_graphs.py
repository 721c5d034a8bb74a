"""CUDA graphs of whole steps: network, rule and update, launched at once.

With few images, launching the kernels of a step takes longer than running them. The computation
of a step does not depend on its numbers, all of which are tensors: so it is recorded over copies
of its inputs, and replayed after new inputs were copied there.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Generator, Hashable
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, is_dataclass, replace
from threading import Lock
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from fcfg.diffusion.denoiser import Denoiser
from fcfg.diffusion.prediction import AbstractPredictor, State, Step
from fcfg.sampling import AbstractSolver, Trajectory
from fcfg.support.tensors import mapped, tensors_in

#: Trajectory, step, and conditions of the predictor.
Inputs: TypeAlias = tuple[Trajectory, Step, State]

_MOST_PIXELS = 128 * 64 * 64  # of a network call; with more, launch overhead does not matter
_KEPT = 64  # recorded steps: a question has about six, and more for every number of images

_recording: ContextVar[bool] = ContextVar("recording", default=False)


def is_recording() -> bool:
    """Return whether a step is being recorded; recordings cannot be nested."""
    return _recording.get()


@contextmanager
def as_recording() -> Generator[None]:
    """Mark the time of a recording and its warm-up."""
    token = _recording.set(True)
    try:
        yield
    finally:
        _recording.reset(token)


class WeightWatch:
    """Detects weights that were written to or replaced."""

    def __init__(self, network: nn.Module) -> None:
        # Collected once: there are hundreds, and finding them takes as long as a small step.
        self._parts = [module._parameters for module in network.modules()]  # pyright: ignore[reportPrivateUsage] # no public name
        self._seen = self._now()

    def changed(self) -> bool:
        """Return whether any weight changed since the last call."""
        now = self._now()
        changed, self._seen = now != self._seen, now
        return changed

    def _now(self) -> list[tuple[int, int]]:
        """Address of each weight, and the number of writes to it, which torch counts."""
        weights = (weight for part in self._parts for weight in part.values())
        return [(weight.data_ptr(), weight._version) for weight in weights if weight is not None]


class RecordedStep:
    """A step with all tensors that it reads and writes, on one GPU."""

    def __init__(
        self,
        solver: AbstractSolver,
        predictor: AbstractPredictor,
        inputs: Inputs,
        stream: torch.cuda.Stream,
        pool: Any,
    ) -> None:
        held: Inputs = mapped(torch.clone, inputs)
        trajectory, step, conditions = held
        predictor = copy.copy(predictor)
        predictor.conditions = conditions

        def take() -> Trajectory:
            return solver.step(predictor, trajectory, step)

        self._inputs, self.graph = tensors_in(held), torch.cuda.CUDAGraph()
        with as_recording():
            take()  # eager warm-up: compilation and kernel selection come before the graph
            # Record only what this thread does.
            mode = "thread_local"
            with torch.cuda.graph(self.graph, pool, stream, capture_error_mode=mode):
                self._outputs = take()

    def __call__(self, inputs: Inputs) -> Trajectory:
        """Copy the inputs in, replay, and copy the outputs, which the next replay overwrites."""
        for own, given in zip(self._inputs, tensors_in(inputs), strict=True):
            own.copy_(given)
        self.graph.replay()
        return mapped(torch.clone, self._outputs)


def structure(part: Any) -> Hashable:
    """Return everything but the numbers: shapes, types, and values that are not tensors."""
    if isinstance(part, Tensor):
        return part.shape, part.dtype
    if is_dataclass(part):
        return tuple(structure(value) for value in vars(part).values())
    return tuple(structure(value) for value in part) if isinstance(part, tuple) else part


class StepRecorder:
    """Recorded steps of a denoiser, one for every kind of step and question, and every shape.

    Threads and streams take turns, since all recordings share their memory.
    """

    def __init__(self, denoiser: Denoiser) -> None:
        self._denoiser, self._prepared = denoiser, _setup(denoiser)
        self._weights = WeightWatch(denoiser.network)
        self._steps: dict[Hashable, RecordedStep] = {}
        self._lock, self._device = Lock(), denoiser.device
        self._finished = torch.cuda.Event()

    def __reduce__(self) -> tuple[type[StepRecorder], tuple[Denoiser]]:
        """Let a copy of a pipeline record its own steps."""
        return StepRecorder, (self._denoiser,)

    def replaying(self, solver: AbstractSolver) -> AbstractSolver:
        """Return a solver that takes the same steps, recorded where they can be."""
        return _ReplayingSolver(solver, self)

    def begin(self) -> None:
        """Drop the recordings if the weights have changed; called before every run."""
        with self._lock:
            if self._weights.changed():
                self._steps.clear()

    def records(self, predictor: AbstractPredictor, trajectory: Trajectory) -> bool:
        """Return whether a step can be recorded, and is small enough to gain from it."""
        if predictor.kind is None or trajectory.x.device != self._device:
            return False
        rows = max((len(condition) for condition in predictor.conditions), default=0)
        few = rows * trajectory.x[0, 0].numel() <= _MOST_PIXELS
        return few and _setup(self._denoiser) == self._prepared

    def replay(
        self, solver: AbstractSolver, predictor: AbstractPredictor, inputs: Inputs
    ) -> Trajectory:
        """Take a step for which :meth:`records` is true, recording the first of its kind."""
        with self._lock, torch.cuda.device(self._device):
            recorded = self._recorded(solver, predictor, inputs)
            self._finished.wait()
            outputs = recorded(inputs)
            self._finished.record()
            return outputs

    def _recorded(
        self, solver: AbstractSolver, predictor: AbstractPredictor, inputs: Inputs
    ) -> RecordedStep:
        """Return the cached step and mark it most recently used."""
        key = (solver, predictor.kind, _switches(), structure(inputs))
        recorded = self._steps.pop(key, None)
        if recorded is None:
            # Share the memory pool of a living recording: a pool without one is freed.
            other = next(iter(self._steps.values()), None)
            pool = None if other is None else other.graph.pool()
            recorded = RecordedStep(solver, predictor, inputs, _stream(self._device), pool)
        self._steps[key] = recorded
        for old in list(self._steps)[:-_KEPT]:
            del self._steps[old]
        return recorded


@dataclass(frozen=True)
class _ReplayingSolver(AbstractSolver):
    """The steps of another solver, through a recorder."""

    name = "replaying"
    solver: AbstractSolver
    recorder: StepRecorder

    def __str__(self) -> str:
        return str(self.solver)

    def init(self, trajectory: Trajectory) -> State:
        self.recorder.begin()
        return self.solver.init(trajectory)

    def step(self, predictor: AbstractPredictor, trajectory: Trajectory, step: Step) -> Trajectory:
        """Take the step as it is or recorded; a recorded one counts its rows from zero."""
        if not self.recorder.records(predictor, trajectory):
            return self.solver.step(predictor, trajectory, step)
        inputs = (replace(trajectory, evaluations=0), step, predictor.conditions)
        after = self.recorder.replay(self.solver, predictor, inputs)
        return replace(after, evaluations=trajectory.evaluations + after.evaluations)


@functools.cache
def _stream(device: torch.device) -> torch.cuda.Stream:
    """Return the stream of all recordings of a GPU: torch keeps memory for every stream."""
    return torch.cuda.Stream(device)


def _setup(denoiser: Denoiser) -> tuple[object, ...]:
    """Return everything that a denoiser computes with, except the weights."""
    return denoiser.evaluate, denoiser.network, denoiser.schedule, denoiser.parameterisation


def _switches() -> Hashable:
    """Return the global settings of torch that a recording depends on."""
    return (
        torch.backends.cuda.matmul.allow_tf32,
        torch.backends.cudnn.allow_tf32,
        torch.is_autocast_enabled("cuda") and torch.get_autocast_dtype("cuda"),
        torch.is_inference_mode_enabled(),  # its tensors cannot be written to outside of it
    )
