"""Work on many images in chunks that fit the memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from fcfg.causal.attributes import Table
from fcfg.diffusion.denoiser import Denoiser
from fcfg.diffusion.networks import evaluation_mode
from fcfg.diffusion.prediction import Condition, Images
from fcfg.guidance import WeightTable
from fcfg.pipeline.runtime import StepRecorder
from fcfg.sampling import AbstractSolver, OnStep, StepRecord, Steps, steps_along

Piece = TypeVar("Piece")


@dataclass(frozen=True, eq=False)
class Batches:
    """A denoiser at work on many images."""

    denoiser: Denoiser
    size: int = 256  #: largest number of network rows per call
    on_step: OnStep | None = None  #: invoked after every step of every chunk
    recorder: StepRecorder | None = None  #: replays steps as CUDA graphs

    @torch.no_grad()
    def work(
        self, count: int, rows: int, function: Callable[[slice, OnStep], Piece]
    ) -> list[Piece]:
        """Return what a function gives for chunks of images, on the device and without dropout.

        If memory runs out, a chunk restarts at half its size; finished chunks are kept.
        """
        done, pieces, size = 0, list[Piece](), max(1, self.size // rows)

        def report(record: StepRecord) -> None:
            if self.on_step is not None:
                self.on_step(replace(record, first_image=done, images=count))

        while done < count:
            chunk = slice(done, min(done + size, count))
            try:
                with evaluation_mode(self.denoiser):
                    # The next chunk starts while this one is copied; synchronised below.
                    pieces.append(function(chunk, report))
            except torch.OutOfMemoryError:
                if size == 1:
                    raise
                size = (chunk.stop - chunk.start + 1) // 2
            else:
                done = chunk.stop
        _synchronise(self.denoiser.device)
        return pieces

    def steps(self, times: Sequence[int], weights: WeightTable | None = None) -> Steps:
        """Return the steps between ascending or descending times, guided if there are weights."""
        return steps_along(
            self.denoiser.schedule,
            times,
            weights=None if weights is None else weights.weights,
            guided=None if weights is None else weights.guided,
            device=self.denoiser.device,
            dtype=self.denoiser.state_dtype,
        )

    def solver(self, solver: AbstractSolver) -> AbstractSolver:
        """Return a solver that takes the same steps, replayed where they are recorded."""
        return solver if self.recorder is None else self.recorder.replaying(solver)

    def semantics(self, images: Images) -> Float[Tensor, "batch latent"] | None:
        """Return what images contribute to their conditions, on the CPU; None if it is nothing."""
        if not self.denoiser.semantic_width:
            return None
        pieces = self.work(
            len(images), 1, lambda rows, _: fetch(self.denoiser.semantics(self.send(images[rows])))
        )
        return torch.cat(pieces)

    def encoded(self, images: Images) -> Float[Tensor, "batch states *sides"]:
        """Return the first states: the images, or their latents; on the CPU."""
        if self.denoiser.codec is None:
            return images.to("cpu", self.denoiser.state_dtype)
        pieces = self.work(
            len(images), 1, lambda rows, _: fetch(self.denoiser.encoded(images[rows]))
        )
        return torch.cat(pieces)

    def condition(
        self, attributes: Table, semantics: Float[Tensor, "images latent"] | None, rows: slice
    ) -> Condition:
        """Return the conditions of some of the images."""
        own = None if semantics is None else self.send(semantics[rows])
        table = {name: column[rows] for name, column in attributes.items()}
        return self.denoiser.condition(table, own)

    def send(self, tensor: Tensor) -> Tensor:
        """Copy a tensor to the device; to a GPU from pinned memory, without waiting."""
        device = self.denoiser.device
        pinned = device.type == "cuda" and not tensor.is_cuda
        return (tensor.pin_memory() if pinned else tensor).to(device, non_blocking=True)


def _synchronise(device: torch.device) -> None:
    return torch.cuda.synchronize(device) if device.type == "cuda" else None


def fetch(tensor: Tensor) -> Tensor:
    """Copy a tensor to the CPU, without waiting: synchronise before reading it."""
    return tensor.to("cpu", non_blocking=True)
