"""Work on many images in chunks that fit the memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from fcfg.causal.attributes import Table
from fcfg.causal.graph import Partition
from fcfg.diffusion.denoiser import Denoiser
from fcfg.diffusion.networks import evaluation_mode
from fcfg.diffusion.prediction import Images
from fcfg.diffusion.semantic import SemanticDenoiser
from fcfg.guidance import Guidance, WeightTable
from fcfg.sampling import OnStep, StepRecord, Steps, steps_along
from fcfg.support.errors import check_batch_size

Piece = TypeVar("Piece")


@torch.no_grad()
def in_chunks(
    denoiser: Denoiser,
    count: int,
    size: int,
    work: Callable[[slice, OnStep], Piece],
    on_step: OnStep | None,
) -> list[Piece]:
    """Work on ``size`` images at once, on the device of the denoiser, without dropout.

    If memory runs out, a chunk restarts at half its size; finished chunks are kept.

    Args:
        denoiser: The denoiser.
        count: Number of images.
        size: Number of images per chunk.
        work: Function of a slice of the images, and of a callback for its steps.
        on_step: Callback invoked after every step of every chunk.

    Returns:
        The results of the chunks.
    """
    done, pieces = 0, list[Piece]()

    def report(record: StepRecord) -> None:
        if on_step is not None:
            on_step(replace(record, first_image=done, images=count))

    while done < count:
        rows = slice(done, min(done + size, count))
        try:
            with evaluation_mode(denoiser):
                # The next chunk starts while this one is copied; synchronised below.
                pieces.append(work(rows, report))
        except torch.OutOfMemoryError:
            if size == 1:
                raise
            size = (rows.stop - rows.start + 1) // 2
        else:
            done = rows.stop
    _synchronise(denoiser.device)
    return pieces


def _synchronise(device: torch.device) -> None:
    return torch.cuda.synchronize(device) if device.type == "cuda" else None


def plan_on(denoiser: Denoiser, times: Sequence[int], weights: WeightTable | None = None) -> Steps:
    """Return the steps of a run, on the device of the denoiser.

    Args:
        denoiser: The denoiser.
        times: Ascending or descending times.
        weights: Guidance weights, if steps are guided.
    """
    return steps_along(
        denoiser.schedule,
        times,
        weights=None if weights is None else weights.weights,
        guided=None if weights is None else weights.guided,
        device=denoiser.device,
        dtype=denoiser.state_dtype,
    )


def group_mask(
    denoiser: Denoiser, partition: Partition, weights: WeightTable
) -> Bool[Tensor, "groups attributes"]:
    """Return the attributes of each group that has an effect, on the device of the denoiser.

    Args:
        denoiser: The denoiser.
        partition: All groups.
        weights: Weights of the groups that have an effect.
    """
    names = denoiser.embedder.space.names
    groups = Partition({group: partition[group] for group in weights.groups})
    mask = torch.tensor(groups.mask(names), dtype=torch.bool)
    return mask.view(len(weights.groups), len(names)).to(denoiser.device)


def semantics_of(
    denoiser: Denoiser, images: Images, batch_size: int
) -> Float[Tensor, "batch latent"] | None:
    """Return what images contribute to their conditions, on the CPU; None if it is nothing.

    Args:
        denoiser: The denoiser.
        images: Images in [-1, 1].
        batch_size: Largest number of images per call.
    """
    if not isinstance(denoiser, SemanticDenoiser):
        return None

    def work(rows: slice, report: OnStep) -> Tensor:
        return fetch(denoiser.semantics(send(images[rows], denoiser.device)))

    return torch.cat(in_chunks(denoiser, len(images), batch_size, work, None))


def condition_of(
    denoiser: Denoiser,
    attributes: Table,
    semantics: Float[Tensor, "images latent"] | None,
    rows: slice,
) -> Float[Tensor, "batch condition"]:
    """Return the conditions of some of the images.

    Args:
        denoiser: The denoiser.
        attributes: Attributes of all images.
        semantics: Output of :func:`semantics_of`, of all images.
        rows: The images.
    """
    own = None if semantics is None else send(semantics[rows], denoiser.device)
    return denoiser.condition({name: column[rows] for name, column in attributes.items()}, own)


def send(tensor: Tensor, device: torch.device) -> Tensor:
    """Copy a tensor to a device; to a GPU from pinned memory, without waiting."""
    pinned = device.type == "cuda" and not tensor.is_cuda
    return (tensor.pin_memory() if pinned else tensor).to(device, non_blocking=True)


def fetch(tensor: Tensor) -> Tensor:
    """Copy a tensor to the CPU, without waiting: synchronise before reading it."""
    return tensor.to("cpu", non_blocking=True)


def weights_of(
    denoiser: Denoiser,
    guidance: Guidance,
    partition: Partition,
    times: Sequence[int],
    batch_size: int,
) -> WeightTable:
    """Return the weights of a prediction; a batch must hold at least one image.

    Args:
        denoiser: The denoiser, for its noise levels.
        guidance: The guidance.
        partition: Its groups.
        times: Ascending times.
        batch_size: Largest number of network rows per call.
    """
    table = guidance.table(partition, times[::-1], denoiser.schedule)
    check_batch_size(batch_size, table.rows)
    return table
