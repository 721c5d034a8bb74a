"""Distance from the manifold of images: how well the network denoises them."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from fcfg.causal.attributes import Table
from fcfg.diffusion.denoiser import Denoiser
from fcfg.model.thresholds import LEVELS
from fcfg.pipeline.batching import Batches, fetch
from fcfg.sampling import OnStep
from fcfg.support.hashing import stream_seed

ROWS = 2 * len(LEVELS)  #: network rows per image


def denoising_loss(
    denoiser: Denoiser,
    images: Float[Tensor, "batch channel height width"],
    attributes: Table,
    *,
    batch_size: int = 256,
) -> Float[Tensor, "batch level"]:
    """Return the logarithm of the denoising loss of images, at each of the :data:`LEVELS`.

    All images get the same noise, with both signs, so that losses differ by the images alone.

    Args:
        denoiser: The denoiser.
        images: Images in [-1, 1].
        attributes: Parsed attributes, the condition; in SA-DCG with semantics of the images.
        batch_size: Largest number of network rows per call.
    """
    generator = torch.Generator().manual_seed(stream_seed(0, "denoising loss"))
    noise = torch.randn(len(LEVELS), *images.shape[1:], generator=generator)
    schedule, device, dtype = denoiser.schedule, denoiser.device, denoiser.state_dtype
    batches = Batches(denoiser, batch_size)
    semantics = batches.semantics(images)
    times = torch.arange(1, schedule.steps + 1)
    strength = schedule.noise(times) / schedule.signal(times)
    probes = [
        (times[(strength - level).abs().argmin()], sign * eps)
        for level, eps in zip(LEVELS, noise, strict=True)
        for sign in (1, -1)
    ]

    def work(rows: slice, report: OnStep) -> Tensor:
        x = batches.send(images[rows].to(dtype))
        condition = batches.condition(attributes, semantics, rows)
        losses: list[Tensor] = []
        for t, eps in probes:
            eps = eps.to(device, dtype)
            signal, scale = (
                levels(t).to(device, dtype) for levels in (schedule.signal, schedule.noise)
            )
            predicted = denoiser(signal * x + scale * eps, t.to(device).expand(len(x)), condition)
            losses.append((predicted - eps).square().mean(dim=(1, 2, 3)))
        return fetch(torch.stack(losses, dim=1).unflatten(1, (-1, 2)).mean(dim=2).log())

    return torch.cat(batches.work(len(images), 1, work))
