"""Integration of many images in chunks that fit the memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from fcfg.diffusion.denoiser import Denoiser
from fcfg.diffusion.networks import evaluation_mode
from fcfg.diffusion.prediction import AbstractPredictor
from fcfg.guidance import WeightTable
from fcfg.sampling import AbstractSolver, OnStep, Plan, StepRecord, Trajectory, integrate


@torch.no_grad()
def integrate_chunks(
    denoiser: Denoiser,
    predictor: Callable[[slice], AbstractPredictor],
    start: Trajectory,
    times: Sequence[int],
    weights: WeightTable | None,
    solver: AbstractSolver,
    size: int,
    on_step: OnStep | None,
) -> Trajectory:
    """Integrate ``size`` images at once, on the device of the denoiser, without dropout.

    If memory runs out, a chunk restarts at half its size; finished chunks are kept.

    Args:
        denoiser: Denoiser of the predictors.
        predictor: Function that builds the predictor of a slice of the images.
        start: All images, on any device.
        times: Ascending or descending times.
        weights: Guidance weights, if the steps are guided.
        solver: The solver.
        size: Number of images per chunk.
        on_step: Callback invoked after every step of every chunk.

    Returns:
        All images, on the CPU.
    """
    device, done, count = denoiser.device, 0, len(start.x)
    plan = Plan.build(
        denoiser.schedule,
        times,
        weights=None if weights is None else weights.weights,
        guided=None if weights is None else weights.guided,
        device=device,
        dtype=denoiser.state_dtype,
    )
    pieces: list[Trajectory] = []

    def send(tensor: Tensor) -> Tensor:
        """To a GPU from pinned memory, without waiting."""
        pinned = device.type == "cuda" and not tensor.is_cuda
        return (tensor.pin_memory() if pinned else tensor).to(device, non_blocking=True)

    def report(record: StepRecord) -> None:
        if on_step is not None:
            on_step(replace(record, first_image=done, images=count))

    while done < count:
        rows = slice(done, min(done + size, count))
        try:
            chunk = start.map(lambda tensor, rows=rows: send(tensor[rows]))
            with evaluation_mode(denoiser):
                end = integrate(predictor(rows), chunk, plan, solver, report)
            # The next chunk starts while this one is copied; synchronised below.
            pieces.append(end.map(lambda tensor: tensor.to("cpu", non_blocking=True)))
        except torch.OutOfMemoryError:
            if size == 1:
                raise
            size = (rows.stop - rows.start + 1) // 2
        else:
            done = rows.stop
    _synchronise(device)
    return Trajectory.joined(pieces)


def _synchronise(device: torch.device) -> None:
    return torch.cuda.synchronize(device) if device.type == "cuda" else None
