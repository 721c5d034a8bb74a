"""Batches of training images, in an order that follows from the seed.

The rows of a step follow from (seed, step), and each process takes its share of them. The order
therefore depends neither on interruptions nor on the number of processes.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from fcfg.causal.attributes import AttributeSpace
from fcfg.datasets.base import Examples
from fcfg.support.hashing import stream_seed
from fcfg.support.images import images_from_bytes

_AHEAD = 4  # batches to prepare in advance
_GPU_SHARE = 0.3  # largest share of free GPU memory for images
_HOST_BYTES = 2**30  # largest size of images in memory without a GPU


def rows_of_step(seed: int, step: int, batch: int, count: int) -> NDArray[np.int64]:
    """Return the rows of a batch; every epoch has its own permutation."""
    positions = step * batch + np.arange(batch)
    rows = np.empty(batch, dtype=np.int64)
    for epoch in np.unique(positions // count):
        here = positions // count == epoch
        rows[here] = _permutation(seed, int(epoch), count)[positions[here] % count]
    return rows


@lru_cache(maxsize=4)  # two epochs of two feeds
def _permutation(seed: int, epoch: int, count: int) -> NDArray[np.int64]:
    return np.random.default_rng(stream_seed(seed, "order", epoch)).permutation(count)


@dataclass(frozen=True, eq=False)
class Batch:
    """The rows of a batch that belong to this process, on the device."""

    images: Float[Tensor, "batch channel *size"]  #: in [-1, 1], or latents
    values: Float[Tensor, "batch values"]  #: encoded attributes
    factors: Float[Tensor, "batch factors"]  #: standardised; without columns if there are none

    def split(self, size: int) -> list[Batch]:
        """Return the rows in batches of a size."""
        columns = (self.images, self.values, self.factors)
        return [Batch(*part) for part in zip(*(c.split(size) for c in columns), strict=True)]


class Feed:
    """A source of batches.

    Images stay on the device, as bytes, if they fit, and so do latents. Otherwise a thread reads
    the next batches from the (memory-mapped) file while the device is busy. A batch has so many
    rows over all processes, a ``share`` of which belongs to this one; ``scales`` are those of its
    factors.
    """

    def __init__(
        self,
        examples: Examples,
        space: AttributeSpace,
        scales: Mapping[str, tuple[float, float]],
        *,
        device: torch.device,
        seed: int,
        batch: int,
        share: slice,
    ) -> None:
        self._count, self._seed, self._batch, self._share = len(examples), seed, batch, share
        self._device, self._bytes = device, examples.images
        self._values, self._factors = _encoded(examples, space, scales, device)
        fits = _fits(examples.images.nbytes, device)
        self._images = torch.from_numpy(np.array(self._bytes)).to(device) if fits else None
        self._pool = None if fits else ThreadPoolExecutor(1, "fcfg-feed")
        self._ready: deque[tuple[int, Future[Tensor]]] = deque()
        self.waited = 0.0  #: total time spent waiting for images, in seconds

    def at(self, step: int) -> Batch:
        """Return the rows of a step that belong to this process."""
        before = time.perf_counter()
        rows = self._rows(step)
        index = torch.from_numpy(rows).to(self._device, non_blocking=True)
        raw = self._images[index] if self._images is not None else self._streamed(step)
        self.waited += time.perf_counter() - before
        return Batch(_as_numbers(raw), self._values[index], self._factors[index])

    def close(self) -> None:
        """Stop the thread."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def _rows(self, step: int) -> NDArray[np.int64]:
        return rows_of_step(self._seed, step, self._batch, self._count)[self._share]

    def _gather(self, step: int) -> Tensor:
        images = torch.from_numpy(self._bytes[self._rows(step)])
        return images.pin_memory() if self._device.type == "cuda" else images

    def _streamed(self, step: int) -> Tensor:
        assert self._pool is not None
        if not self._ready or self._ready[0][0] != step:
            self._ready.clear()
        following = self._ready[-1][0] + 1 if self._ready else step
        for ahead in range(following, step + 1 + _AHEAD):
            self._ready.append((ahead, self._pool.submit(self._gather, ahead)))
        return self._ready.popleft()[1].result().to(self._device, non_blocking=True)


def _as_numbers(raw: Tensor) -> Float[Tensor, "batch channel *size"]:
    """Return pixels in [-1, 1], and latents as they are; both in float32."""
    return raw.float() if raw.is_floating_point() else images_from_bytes(raw)


def _fits(size: int, device: torch.device) -> bool:
    """Return whether images of a size in bytes may stay on the device."""
    on_gpu = device.type == "cuda"
    return size < (_GPU_SHARE * torch.cuda.mem_get_info(device)[0] if on_gpu else _HOST_BYTES)


def scales_of(examples: Examples) -> dict[str, tuple[float, float]]:
    """Return the mean and standard deviation of each factor; 1 replaces a deviation of 0."""
    columns = examples.factors.items()
    return {name: (float(c.mean()), float(c.std()) or 1.0) for name, c in columns}


def first_batch(
    examples: Examples,
    count: int,
    space: AttributeSpace,
    scales: Mapping[str, tuple[float, float]],
    device: torch.device,
) -> Batch:
    """Return the first examples of a split as one batch, in an order of their own."""
    count = min(count, len(examples))
    rows = rows_of_step(0, 0, count, count)
    images = _as_numbers(torch.from_numpy(examples.images[rows]).to(device))
    return Batch(images, *(part[rows] for part in _encoded(examples, space, scales, device)))


def _encoded(
    examples: Examples,
    space: AttributeSpace,
    scales: Mapping[str, tuple[float, float]],
    device: torch.device,
) -> tuple[Tensor, Tensor]:
    columns = [(examples.factors[name] - mean) / sd for name, (mean, sd) in scales.items()]
    factors = np.stack(columns, axis=1) if columns else np.empty((len(examples), 0))
    values = torch.from_numpy(space.encode(examples.attributes))
    return values.float().to(device), torch.from_numpy(factors).float().to(device)
