"""Many images, little memory: a plan followed chunk by chunk."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import Tensor, nn

from fcfg.diffusion.prediction import AbstractPredictor
from fcfg.sampling import AbstractSolver, OnStep, Plan, StepRecord, Trajectory, integrate


@torch.no_grad()
def integrate_chunks(
    predictor: Callable[[slice], AbstractPredictor],
    start: Trajectory,
    plan: Plan,
    solver: AbstractSolver,
    *,
    size: int,
    on_step: OnStep | None = None,
) -> Trajectory:
    """Follow a plan with ``size`` images at once, on the device of the plan.

    Out of memory, a chunk starts again at half its size; finished chunks are kept.

    Args:
        predictor: Makes the predictor of a slice of the images.
        start: All images, anywhere.
        plan: The steps.
        solver: How to take them.
        size: Images at once.
        on_step: Told of every step of every chunk.

    Returns:
        All images, on the CPU.
    """
    done, count = 0, len(start.x)
    pieces: list[Trajectory] = []

    def report(record: StepRecord) -> None:
        if on_step is not None:
            on_step(replace(record, first_image=done, images=count))

    while done < count:
        rows = slice(done, min(done + size, count))
        try:
            chunk = start.map(lambda tensor, rows=rows: _sent(tensor[rows], plan.t.device))
            end = integrate(predictor(rows), chunk, plan, solver, report)
            pieces.append(end.map(_fetched))
        except torch.OutOfMemoryError:
            if size == 1:
                raise
            size = (rows.stop - rows.start + 1) // 2
        else:
            done = rows.stop
    _wait(plan.t.device)
    return Trajectory.joined(pieces)


def _sent(tensor: Tensor, device: torch.device) -> Tensor:
    """On the device; to a GPU from pinned memory, without waiting for it."""
    tensor = tensor.pin_memory() if device.type == "cuda" and not tensor.is_cuda else tensor
    return tensor.to(device, non_blocking=True)


def _fetched(tensor: Tensor) -> Tensor:
    """On the CPU, from a GPU once it is synchronised: the next chunk begins meanwhile."""
    return tensor.to("cpu", non_blocking=True)


def _wait(device: torch.device) -> None:
    """Until everything has arrived."""
    return torch.cuda.synchronize(device) if device.type == "cuda" else None


@contextmanager
def evaluating(module: nn.Module) -> Generator[None]:
    """Switch dropout off for the time of a run, and leave every part in the mode it had."""
    learning = [part for part in module.modules() if part.training]
    for part in learning:
        part.training = False
    try:
        yield
    finally:
        for part in learning:
            part.training = True
