r"""The gain: whether the attributes help a model to predict noise.

Gaps of a network that does not know what its attributes mean say nothing. The gain compares the
error of the predicted noise under the attributes of another image, :math:`c'`, and under its own:

.. math:: \frac{\lVert \epsilon - \epsilon_\theta(x_t, t, c') \rVert^2
    - \lVert \epsilon - \epsilon_\theta(x_t, t, c) \rVert^2}
    {\lVert \epsilon_\theta(x_t, t, c) - \epsilon_\theta(x_t, t, c') \rVert^2}

On average it is 1 for exact predictions, by the theorem of Pythagoras. For a network that was not
trained it is 0, because it cannot tell its own attributes from those of another image.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from fcfg.causal.attributes import Table
from fcfg.diagnosis.additivity import noised
from fcfg.diffusion.denoiser import Denoiser
from fcfg.diffusion.networks import evaluation_mode
from fcfg.metrics import Bootstrap, Estimate, mean, ratio
from fcfg.support.images import image_keys


@torch.no_grad()
def measure_gain(
    denoiser: Denoiser,
    images: Float[Tensor, "image channel height width"],
    attributes: Table,
    times: Sequence[int],
    *,
    seed: int = 0,
    batch_size: int = 256,
) -> Estimate:
    """Measure the gain over all times, which count as in the gaps.

    Args:
        denoiser: The denoiser.
        images: Clean images.
        attributes: Their attributes, parsed.
        times: Times at which the images are noised.
        seed: Seed of the noise, combined with a digest of each image.
        batch_size: Largest number of network rows per call.
    """
    keys, count = image_keys(images), len(images)
    order = np.argsort(keys)  # by digest, so that the order of the images does not matter
    other = np.empty(count, dtype=np.int64)
    other[order] = np.roll(order, 1)
    gained, moved = np.zeros(count), np.zeros(count)
    with evaluation_mode(denoiser):
        for first in range(0, count, batch_size):
            rows = slice(first, first + batch_size)
            own, swapped = (
                denoiser.condition({name: values[i] for name, values in attributes.items()})
                for i in (np.arange(count)[rows], other[rows])
            )
            for t in times:
                x_t, drawn, noise = noised(denoiser, images[rows], keys[rows], t, seed)
                at = torch.full((len(x_t),), t, device=x_t.device)
                right, wrong = denoiser(x_t, at, own), denoiser(x_t, at, swapped)
                pairs = ((wrong, drawn), (right, drawn), (right, wrong))
                there, here, apart = (
                    (noise * (a - b)).double().square().flatten(1).sum(dim=1).cpu().numpy()
                    for a, b in pairs
                )
                gained[rows] += there - here
                moved[rows] += apart
    bootstrap = Bootstrap(count)
    return ratio(gained, moved, bootstrap) if moved.any() else mean(moved, bootstrap)
