"""Many images, little memory: a plan followed chunk by chunk."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import nn

from fcfg.denoise import AbstractPredictor
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
            chunk = start.map(lambda tensor, rows=rows: tensor[rows].to(plan.t.device))
            end = integrate(predictor(rows), chunk, plan, solver, report)
            pieces.append(end.map(lambda tensor: tensor.cpu()))
        except torch.OutOfMemoryError:
            if size == 1:
                raise
            size = (rows.stop - rows.start + 1) // 2
        else:
            done = rows.stop
    return Trajectory.joined(pieces)


@contextmanager
def evaluating(module: nn.Module) -> Generator[None]:
    """Switch dropout off for the time of a run, and leave every part in the mode it had."""
    modes = {part: part.training for part in module.modules()}
    module.eval()
    try:
        yield
    finally:
        for part, training in modes.items():
            part.training = training
